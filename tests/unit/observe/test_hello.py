import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.hello import Hello, parse_hello


@pytest.mark.parametrize(
    ("data", "hello"),
    [
        (b"", None),
        (b"\x16", None),
        (b"\x16\3\1\0\0", Hello(kind="tls", note="malformed")),
        (b"\x15", None),
        (b"\x15\3\1\0\2\1\x5a\x16\3\1", Hello(kind="tls", note="malformed")),  # a warning before the hello
        (b"\x14\3\1\0\1\1\x16\3\1", Hello(kind="tls", note="malformed")),
        (b"\x15\2", Hello(kind="other")),
        (b"GET", None),
        (b" \t", None),
        (b" GET / HTTP/1.1", None),
        (b"\0\0\0\1", Hello(kind="other")),
        (
            b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n",
            Hello(kind="http", server_name="a.example", request_line="GET /a HTTP/1.1"),
        ),
        (b"GET /a\r\n", Hello(kind="http", request_line="GET /a", note="no_version")),
    ],
)
def test_the_first_bytes_tell_the_protocol(data: bytes, hello: Hello | None) -> None:
    assert parse_hello(data) == hello


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_more_are_asked_for(data: bytes) -> None:
    assert isinstance(parse_hello(data), Hello | None)
