"""Names on disk as text and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.fence import names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"src/main.py", "src/main.py"),
        ("Übersicht".encode(), "Übersicht"),
        (b"caf\xe9", r"caf\xe9"),
        (b"a\nb", r"a\x0ab"),
        (b"back\\slash", r"back\slash"),
        (rb"literal\xff", r"literal\x5cxff"),
        (rb"not\xzz", r"not\xzz"),
    ],
)
def test_a_name_has_one_spelling_that_is_read_back(name: bytes, text: str) -> None:
    assert names.spelled(name) == text
    assert names.asked(text) == name


@given(st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b"")))
def test_every_name_comes_back_and_takes_one_line_of_json(name: bytes) -> None:
    text = names.spelled(name)
    assert names.asked(text) == name
    assert "\n" not in text
    assert json.loads(json.dumps(text).encode("ascii").decode("utf-8")) == text
    assert text.encode("utf-8").decode("utf-8") == text


@given(st.lists(st.sampled_from(["\\", "x", "f", "0", "5", "c", "8", "\udcff", "\x01", "é"])).map("".join))
def test_every_mixture_of_backslashes_and_digits_comes_back(text: str) -> None:
    name = text.encode("utf-8", "surrogateescape")
    assert names.asked(names.spelled(name)) == name


@pytest.mark.threat("T1")
@pytest.mark.parametrize("text", [r"a\x2fb", r"\x2e\x2e", r"a\x00b", r"a\xFF"])
def test_neither_a_separator_nor_a_nul_byte_comes_in_as_an_escape(text: str) -> None:
    assert names.asked(text) == text.encode()
