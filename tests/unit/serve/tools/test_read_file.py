"""read_file: lines, pages, ranges, encodings, and what is refused."""

import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import errors, limits
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve.texts import Lines
from fumehood.serve.tools import read_file
from fumehood.serve.tools.read_file import TOOL
from fumehood.wire import schema

HUNDRED = "".join(f"line {n}\n" for n in range(1, 101))


def test_a_file_comes_whole_with_its_numbers_encoding_and_line_end(asking: Any, ground: Path) -> None:
    (ground / "a.py").write_text("x = 1\ny = 2\n")
    lines, facts = asking.answer(TOOL, path="a.py")
    assert lines == ["x = 1", "y = 2"]
    assert facts == {
        "path": "a.py",
        "first_line": 1,
        "last_line": 2,
        "total_lines": 2,
        "size": 12,
        "encoding": "UTF-8",
        "line_end": "lf",
    }


def test_lines_are_numbered_in_the_reply(asking: Any, ground: Path) -> None:
    (ground / "a.txt").write_text(HUNDRED)
    text = asking.result(TOOL, path="a.txt", start_line=41, end_line=42)["content"][0]["text"]
    assert [line.split()[-1] for line in text.splitlines() if "line " in line] == ["41", "42"]
    assert "41" in text
    assert "Lines 41 to 42 of 100." in text


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        ({}, 1, 100),
        ({"start_line": 0}, 1, 100),
        ({"start_line": 5, "end_line": 5}, 5, 5),
        ({"start_line": 99}, 99, 100),
        ({"end_line": 3}, 1, 3),
        ({"end_line": 100_000}, 1, 100),
        ({"start_line": 5.0, "end_line": 6.0}, 5, 6),
    ],
)
def test_a_range_gives_its_lines_both_ends_included(
    asking: Any, ground: Path, arguments: dict[str, Any], first: int, last: int
) -> None:
    (ground / "a.txt").write_text(HUNDRED)
    lines, facts = asking.answer(TOOL, path="a.txt", **arguments)
    assert lines == [f"line {n}" for n in range(first, last + 1)]
    assert (facts["first_line"], facts["last_line"], facts["total_lines"]) == (first, last, 100)
    assert "next_cursor" not in facts


@pytest.mark.parametrize(
    "arguments", [{"end_line": 0}, {"start_line": 8, "end_line": 7}, {"start_line": 101}, {"start_line": 10**9}]
)
def test_no_line_is_an_empty_answer(asking: Any, ground: Path, arguments: dict[str, Any]) -> None:
    (ground / "a.txt").write_text(HUNDRED)
    lines, facts = asking.answer(TOOL, path="a.txt", **arguments)
    assert lines == []
    assert facts["last_line"] == facts["first_line"] - 1
    assert "next_cursor" not in facts


def test_an_end_before_the_start_is_an_error(asking: Any, ground: Path) -> None:
    (ground / "a.txt").write_text(HUNDRED)
    with pytest.raises(errors.InvalidArgumentsError):
        asking.answer(TOOL, path="a.txt", start_line=8, end_line=6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "start_line": 1.5},
        {"path": "a", "end_line": -1},
        {"path": "a", "start_line": "1"},
        {"path": "a", "start_line": True},
        {"path": ""},
        {},
        {"path": "a", "encoding": "x"},
    ],
)
def test_what_is_no_line_number_does_not_fit_the_schema(arguments: dict[str, Any]) -> None:
    assert schema.problems(TOOL.input_schema, arguments)


def test_an_empty_file_has_no_line(asking: Any, ground: Path) -> None:
    (ground / "a.txt").touch()
    assert asking.answer(TOOL, path="a.txt")[1]["total_lines"] == 0
    assert "the file has 0" in asking.result(TOOL, path="a.txt")["content"][0]["text"]


def test_pages_join_to_the_file(asking: Any, ground: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(5001))
    (ground / "a.txt").write_text(text)
    seen: list[str] = []
    more: dict[str, str] = {}
    while True:
        lines, facts = asking.answer(TOOL, path="a.txt", start_line=3, **more)
        assert len(lines) <= limits.READ_LINES
        seen += lines
        if "next_cursor" not in facts:
            break
        more = {"cursor": facts["next_cursor"]}
    assert seen == text.splitlines()[2:]


def test_a_page_holds_no_more_bytes_than_a_reply_and_at_least_a_line(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, reply_bytes=4096)
    (ground / "a.txt").write_text("x" * 1500 + "\n" + "y" * 1500 + "\n" + "z" * 9000 + "\nend\n")
    lines, facts = asking.answer(TOOL, path="a.txt")
    assert [line[:1] for line in lines] == ["x", "y"]
    lines, facts = asking.answer(TOOL, path="a.txt", cursor=facts["next_cursor"])
    assert [line[:1] for line in lines] == ["z"]
    assert asking.lines(TOOL, path="a.txt", cursor=facts["next_cursor"]) == ["end"]


def test_a_long_line_is_clipped_in_the_reply_and_said_so(asking: Any, ground: Path) -> None:
    (ground / "a.txt").write_text("short\n" + "x" * 5000 + "\n")
    result = asking.result(TOOL, path="a.txt")
    assert "[clipped: 3000 characters]" in result["content"][0]["text"]
    assert "x" * 2001 not in result["content"][0]["text"]


def test_a_cursor_of_another_question_is_refused(asking: Any, ground: Path) -> None:
    (ground / "a.txt").write_text("x\n" * 3000)
    (ground / "b.txt").write_text("x\n" * 3000)
    cursor = asking.facts(TOOL, path="a.txt")["next_cursor"]
    with pytest.raises(errors.BadCursorError):
        asking.answer(TOOL, path="b.txt", cursor=cursor)


@pytest.mark.parametrize(
    ("raw", "lines", "kind"),
    [
        (b"a\r\nb\r\n", ["a", "b"], "crlf"),
        (b"a\r\nb\n", ["a", "b"], "mixed"),
        (b"a\rb\nc", ["a\rb", "c"], "mixed"),
        (b"a\rb\r", ["a\rb"], "cr"),
        (b"a", ["a"], "none"),
        (b"a\r\r\nb", ["a", "b"], "mixed"),
    ],
)
def test_a_line_ends_where_ripgrep_and_git_end_it(
    asking: Any, ground: Path, raw: bytes, lines: list[str], kind: str
) -> None:
    (ground / "a.txt").write_bytes(raw)
    found, facts = asking.answer(TOOL, path="a.txt")
    assert (found, facts["line_end"], facts["total_lines"]) == (lines, kind, len(lines))
    assert not any(line.endswith("\r") for line in found)


def test_a_character_at_the_edge_of_a_buffer_stays_whole(asking: Any, ground: Path) -> None:
    (ground / "a.txt").write_text("x" * 1023 + "€uro\n")
    assert asking.lines(TOOL, path="a.txt") == ["x" * 1023 + "€uro"]


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("utf-8-sig", "UTF-8 with BOM"),
        ("utf-16", "UTF-16LE with BOM"),
        ("utf-32", "UTF-32LE with BOM"),
        ("latin-1", "ISO-8859-1"),
    ],
)
def test_another_encoding_is_decoded_and_named(asking: Any, ground: Path, codec: str, name: str) -> None:
    (ground / "a.txt").write_bytes("Größe: naïve crème brûlée\n".encode(codec))
    lines, facts = asking.answer(TOOL, path="a.txt")
    assert lines == ["Größe: naïve crème brûlée"]
    assert facts["encoding"] == name


def test_a_binary_file_is_refused_with_size_and_digest_and_without_bytes(asking: Any, ground: Path) -> None:
    (ground / "a.bin").write_bytes(b"secret\0bytes")
    result = asking.result(TOOL, path="a.bin")
    assert result["isError"]
    assert result["structuredContent"]["error"] == "binary_file"
    message = result["structuredContent"]["message"]
    assert "12 bytes" in message
    assert hashlib.sha256(b"secret\0bytes").hexdigest() in message
    assert "secret" not in str(result)


@pytest.mark.threat("T3")
def test_a_credential_file_in_another_encoding_is_refused_too(asking: Any, ground: Path) -> None:
    block = "-----BEGIN " + "RSA PRIVATE KEY-----\n" + "MIIEow" * 20 + "\n-----END RSA PRIVATE " + "KEY-----\n"
    for codec in ("utf-8", "utf-16"):
        (ground / "plain.txt").write_bytes(block.encode(codec))
        with pytest.raises(errors.DeniedPathError):
            asking.answer(TOOL, path="plain.txt")


@pytest.mark.threat("T8")
@pytest.mark.parametrize("kind", ["fifo", "socket", "sparse", "folder"])
def test_what_is_no_ordinary_file_is_refused_and_nothing_waits(asking: Any, ground: Path, kind: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "fifo":
            os.mkfifo(ground / kind)
        elif kind == "socket":
            listening.bind(str(ground / kind))
        elif kind == "folder":
            (ground / kind).mkdir()
        else:
            with (ground / kind).open("wb") as file:
                file.truncate(10 * limits.GIB)
        with pytest.raises((errors.NotAFileError, errors.TooLargeError)) as refused:
            asking.answer(TOOL, path=kind)
    assert refused.value.remedy


def test_a_name_that_is_not_utf_8_is_read_by_its_spelling(asking: Any, ground: Path) -> None:
    Path(os.fsdecode(os.fsencode(ground) + b"/caf\xe9\n.txt")).write_text("odd\n")
    lines, facts = asking.answer(TOOL, path=r"caf\xe9\x0a.txt")
    assert (lines, facts["path"]) == (["odd"], r"caf\xe9\x0a.txt")


def test_what_stands_around_a_page_is_handed_to_the_controls() -> None:
    text = ("é" * 50 + "\n").encode() * 1000
    lines = Lines(text)
    passage = read_file._passage(text, lines.after(400), lines.after(410), 401)
    before, after = passage.before.reveal(), passage.after.reveal()
    assert limits.PASSAGE_CONTEXT_BYTES - 4 < len(before) <= limits.PASSAGE_CONTEXT_BYTES
    assert limits.PASSAGE_CONTEXT_BYTES <= len(after) < limits.PASSAGE_CONTEXT_BYTES + 4
    assert before.decode() + passage.text.reveal().decode() + after.decode() in text.decode()


@pytest.mark.threat("T4")
def test_a_credential_across_two_pages_is_shown_on_neither(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, read_lines=3)
    prose = "some text that tells about keys"
    key = ["-----BEGIN " + "RSA PRIVATE KEY-----", *["MIIEow" * 10] * 8, "-----END RSA PRIVATE " + "KEY-----"]
    (ground / "doc.md").write_text("\n".join([prose] * 8 + key + [prose] * 400) + "\n")
    for first in range(1, 18, 3):
        assert "MIIEow" * 3 not in str(asking.result(TOOL, path="doc.md", start_line=first))
    assert prose in asking.result(TOOL, path="doc.md")["content"][0]["text"]


@given(
    st.lists(st.integers(0, 9000), max_size=12).map(lambda sizes: "\n".join("é" * (size // 2) for size in sizes)),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_pages_of_any_text_join_and_each_has_a_line(text: str, read_lines: int, first: int) -> None:
    data = text.encode()
    lines = Lines(data)
    total = lines.total
    bounds = WorkspaceSettings(read_lines=read_lines, reply_bytes=4096, line_characters=80)
    seen, line = [], first
    while line <= total:
        start, stop, shown = read_file._page(data, lines, line, total, bounds)
        assert line <= shown < line + read_lines
        seen.append(data[start:stop])
        line = shown + 1
    assert b"".join(seen) == data[lines.after(first - 1) :]
