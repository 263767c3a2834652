import codecs
import html.parser
import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumehood.content import terminal
from fumehood.core import limits

_ESCAPE = re.compile(r"\\(\\|n|r|t|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def undo(text: str) -> bytes:
    """The bytes that an escaped text stands for."""

    def one(match: re.Match[str]) -> str:
        word = match[1]
        if word[0] == "x":
            return bytes.fromhex(word[1:]).decode("utf-8", "surrogateescape")
        return codecs.decode(match[0], "unicode_escape")

    return _ESCAPE.sub(one, text).encode("utf-8", "surrogateescape")


def is_inert(text: str) -> bool:
    return "<" not in text and all(unicodedata.category(c)[0] in "LMNPS" or c == " " for c in text)


_nasty = st.text(
    st.characters(codec="utf-8")
    | st.sampled_from("\x1b\x07\x9b\u202e\u2066\u200b\ufeff\u2028\\<\n\r\t\x00\u3164\U000e0041")
).map(lambda text: text.encode())


@pytest.mark.threat("R11")
@given(_nasty | st.binary(max_size=200))
@example(b"\x1b]52;c;\xff\x07")
@example("a\u202etxt.exe\n\u200b\U000e0001".encode())
@example(b"\xed\xa0\x80")
def test_whatever_comes_becomes_inert_and_can_be_undone(data: bytes) -> None:
    text = terminal.escape(data)
    assert is_inert(text)
    assert undo(text) == data
    assert len(text) <= 4 * len(data)


@given(_nasty | st.binary(max_size=200))
def test_lines_keep_line_ends_and_tabs_only(data: bytes) -> None:
    text = terminal.escape(data, lines=True)
    assert is_inert(text.replace("\n", "").replace("\t", ""))
    assert text.count("\n") == data.count(b"\n")


@given(st.text(st.characters(categories=["L", "N", "P"], exclude_characters="\\<\u115f\u1160\u3164\uffa0")))
def test_ordinary_text_of_any_script_passes_unchanged(text: str) -> None:
    assert terminal.escape(text.encode()) == text


def test_each_kind_of_danger_is_shown_for_what_it_was() -> None:
    shown = {
        b"\x1b[2J": r"\x1b[2J",
        b"a\nb\rc\td": r"a\nb\rc\td",
        b"\x9b1m": r"\x9b1m",
        "\u009b1m".encode(): r"\u009b1m",
        "\u202egnp".encode(): r"\u202egnp",
        "zero\u200bwidth\ufeff".encode(): r"zero\u200bwidth\ufeff",
        "\U000e0041tag".encode(): r"\U000e0041tag",
        "sep\u2028\u2029\u00a0".encode(): r"sep\u2028\u2029\u00a0",
        b"C:\\x1b": r"C:\\x1b",
        b"\x7f\x00": r"\x7f\x00",
        b"<script>": r"\x3cscript>",
        "❤\ufe0f".encode(): r"❤\ufe0f",
    }
    assert {data: terminal.escape(data) for data in shown} == shown


def test_a_page_that_shows_the_text_opens_no_element() -> None:
    opened: list[str] = []

    class Page(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(f"{tag}{attrs}")

    hostile = b"<img src=x onerror=alert(1)><!-- <svg/onload=1> &lt;b>"
    Page().feed(hostile.decode())
    assert opened
    opened.clear()
    Page().feed(terminal.escape(hostile))
    assert opened == []


@given(st.binary(max_size=300), st.integers(1, 64))
def test_a_cut_text_says_how_much_is_missing(data: bytes, limit: int) -> None:
    end = terminal.boundary(data, limit)
    assert min(len(data), limit) - 3 <= end <= limit
    text = terminal.inert(data, limit_bytes=limit)
    assert text == terminal.escape(data[:end]) + terminal.cut_note(len(data) - end)
    assert (terminal.cut_note(1) in text) or end == len(data) or f"[cut: {len(data) - end} " in text


@given(st.text(min_size=1), st.integers(1, 40))
def test_a_cut_never_tears_a_character_apart(text: str, limit: int) -> None:
    data = text.encode()
    end = terminal.boundary(data, limit)
    if limit >= 4:
        data[:end].decode()


def test_the_usual_limit_is_that_of_a_text_in_an_observation() -> None:
    text = terminal.inert(b"a" * (limits.TEXT_BYTES + 1))
    assert text == "a" * limits.TEXT_BYTES + " [cut: 1 more bytes]"


def test_an_escaped_text_is_one_string_of_json_in_ascii_too() -> None:
    text = terminal.escape(b'\x1b"\xff\xe2\x80\xa8')
    assert json.loads(json.dumps(text)) == text
