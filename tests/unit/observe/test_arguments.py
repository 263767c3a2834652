"""Single arguments, as strace prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe import arguments


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (b"", []),
        (b'AT_FDCWD</a, b>, "c, \\"d", {e=1, f=[2, 3]}', [b"AT_FDCWD</a, b>", b'"c, \\"d"', b"{e=1, f=[2, 3]}"]),
        (b"1<<3, 2", [b"1<<3", b"2"]),
        (b"1 /* a, b */, 2", [b"1 /* a, b */", b"2"]),
        (b"f(1, 2), 3", [b"f(1, 2)", b"3"]),
        (b'"unclosed, x', [b'"unclosed, x']),
        (b"a, , b", [b"a", b"", b"b"]),
    ],
)
def test_arguments_are_split_at_their_own_commas_only(text: bytes, items: list[bytes]) -> None:
    assert arguments.split(text) == items


_PIECES = [
    b"AT_FDCWD</x y>",
    b'"a"',
    b'"a, b"',
    b'"\\""',
    b"3</a>",
    b"O_RDONLY|O_CLOEXEC",
    b"{a=1, b=2}",
    b"[1, 2]",
    b", ",
]
_PIECES += [b",", b" ", b'"', b"<", b">", b"<<", b"/* x, y */", b"...", b'@"a"', b"-1", b"a<b", b"\n"]
_MIXED = st.lists(st.sampled_from(_PIECES), max_size=9)


@given(_MIXED.map(b"".join) | _MIXED.map(b", ".join) | st.binary(max_size=20), st.integers(1, 5))
def test_plain_arguments_are_split_as_all_others_are(text: bytes, most: int) -> None:
    assert arguments.split(text, most) == arguments._by_token(text, 0, [], most)


def test_the_number_of_arguments_is_bounded() -> None:
    assert arguments.split(b"a, b, c, d", 2) == [b"a", b"b, c, d"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (rb"plain", b"plain"),
        (rb"\n\t\r\v\f\"\\", b'\n\t\r\v\f"\\'),
        (rb"\0\1\33[31m\377", b"\0\1\x1b[31m\xff"),
        (rb"\x41\xff", b"A\xff"),
        (rb"\74\76", b"<>"),
        (rb"\q\x", b"qx"),
        (b"end\\", b"end\\"),
    ],
)
def test_escapes_give_back_the_bytes(text: bytes, meant: bytes) -> None:
    assert arguments.unescape(text) == meant


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b'"a\\nb"', (b"a\nb", False)),
        (b'"a"...', (b"a", True)),
        (b'@"abstract"', (b"abstract", False)),
        (b'""', (b"", False)),
        (b"NULL", None),
        (b"0x7ffe", None),
        (b'"', None),
    ],
)
def test_a_string_says_whether_it_was_cut(text: bytes, read: tuple[bytes, bool] | None) -> None:
    assert arguments.string(text) == read


def test_a_list_of_strings_says_whether_anything_was_cut() -> None:
    assert arguments.strings(b'["a", "b"]') == ([b"a", b"b"], False)
    assert arguments.strings(b'["a", "b"...]') == ([b"a", b"b"], True)
    assert arguments.strings(b'["a", "b", ...]') == ([b"a", b"b"], True)
    assert arguments.strings(b'["a", "b", "c"]', 2) == ([b"a", b"b"], True)
    assert arguments.strings(b"[]") == ([], False)
    assert arguments.strings(b"0x55d0") is None


def test_a_descriptor_has_a_number_and_perhaps_a_path() -> None:
    assert arguments.descriptor(rb"3</a\74b>") == (3, b"/a<b")
    assert arguments.descriptor(b"AT_FDCWD</w>") == (None, b"/w")
    assert arguments.descriptor(b"-1") == (-1, None)
    assert arguments.descriptor(b"NULL") is None


def escaped(value: bytes) -> bytes:
    return b"".join(b"\\%03o" % c if c < 32 or c > 126 or c in b'"\\' else bytes([c]) for c in value)


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_what_was_escaped_comes_back(values: list[bytes]) -> None:
    text = b"[" + b", ".join(b'"' + escaped(v) + b'"' for v in values) + b"]"
    assert arguments.strings(text) == (values, False)
    assert arguments.split(b"1, " + text + b", 2") == [b"1", text, b"2"]


@given(st.binary(max_size=300))
def test_any_bytes_are_taken(text: bytes) -> None:
    assert sum(map(len, arguments.split(text))) <= len(text)
    arguments.string(text)
    arguments.strings(b"[" + text + b"]")
    arguments.descriptor(text)
    assert len(arguments.unescape(text)) <= len(text)


@pytest.mark.parametrize("piece", [b'"', b"<a", b"/*", b"\\", b"(", b"<<", b'"\\', b", "])
def test_arguments_made_to_cost_time_cost_none(piece: bytes) -> None:
    text = piece * (60000 // len(piece))
    assert len(arguments.split(text)) <= 64
    arguments.strings(b"[" + text + b"]")
    arguments.unescape(text)
