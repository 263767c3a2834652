import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.http import NOT_HTTP, Request, parse_request


def get(*fields: str, line: str = "GET / HTTP/1.1") -> bytes:
    return "\r\n".join([line, *fields, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("data", "host"),
    [
        (get("Host: Registry.example"), "registry.example"),
        (get("Accept: */*", "hOST:registry.example.:8080 \t"), "registry.example"),
        (get("Host: [::1]:80"), "::1"),
        (b"\r\n\r\n" + get("Host: registry.example"), "registry.example"),
        (get("Host: registry.example").replace(b"\r\n", b"\n"), "registry.example"),
        (get("Host: registry.example", line="OPTIONS * HTTP/1.1") + b"body", "registry.example"),
        (get("Host: registry.example", line="g1t / http/1.1"), "registry.example"),
    ],
)
def test_the_host_of_the_first_request_is_read(data: bytes, host: str) -> None:
    request = parse_request(data)
    assert isinstance(request, Request)
    assert (request.host, request.ambiguous) == (host, "")


@pytest.mark.threat("R3")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (get("Host: a.example", "Host: b.example"), "several_hosts"),
        (get("Host: a.example", " b.example"), "folded_line"),
        (get(" Host: b.example", "Host: a.example"), "folded_line"),
        (get("Host : b.example"), "host_field"),
        (get("Host"), "host_field"),
        (get("Host: a.example:x"), "host_field"),
        (get("Host: a.example, b.example:1:2"), "host_field"),
        (get("X: y\rHost: b.example", "Host: a.example"), "control_character"),
        (get("X: \0", "Host: a.example"), "control_character"),
        (get("Host: a.example", line="GET http://b.example/ HTTP/1.1"), "absolute_target"),
        (get("Host: a.example", line="CONNECT b.example:443 HTTP/1.1"), "absolute_target"),
        (get("Host: a.example", line="HTTP/1.1"), "absolute_target"),
        (get(), "no_host"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "no_host"),
        (b"GET /\r\n", "no_version"),
        (get(*["X: " + "y" * 1000] * 40)[:-2], "oversized"),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_names_no_host(data: bytes, why: str) -> None:
    request = parse_request(data)
    assert isinstance(request, Request)
    assert (request.host, request.ambiguous) == (None, why)


@pytest.mark.parametrize(
    "data", [b"", b"\r\n", b"G", b"GET", b"GET /x", b"g1t / HT", get("Host: a.example")[:-1], b"GET / HTTP/1.1\r\n"]
)
def test_the_start_of_a_request_asks_for_more(data: bytes) -> None:
    assert parse_request(data) is None


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"\0",
            b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
            b"EHLO client.example\r\n",
            b"USER x\r\n",
            b"a1 LOGIN x y\r\n",
            b"PING\r\n",
        ),
        *(b"0032git-upload-pack /x\0host=h\0", b"<?xml version='1.0'?>", b'{"jsonrpc": "2.0"}', b"\x80\x2e\1\3\1"),
    ],
)
def test_other_protocols_are_not_held_up(data: bytes) -> None:
    assert parse_request(data) is NOT_HTTP


def test_a_long_request_line_is_cut() -> None:
    request = parse_request(get("Host: a.example", line=f"GET /{'x' * 4000} HTTP/1.1"))
    assert isinstance(request, Request)
    assert len(request.line) == 512
    assert request.host == "a.example"


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for prefix in (b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost:"):
        request = parse_request(prefix + data)
        if isinstance(request, Request):
            assert request.host is None or (request.host.isascii() and "\n" not in request.host)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_once_decided_more_bytes_change_nothing(head: bytes, tail: bytes) -> None:
    data = b"GET / HTTP/1.1\r\nHost: a.example\r\n" + head + b"\r\n\r\n"
    assert parse_request(data) == parse_request(data + tail)


@pytest.mark.threat("R3")
@given(st.integers(1, 60))
def test_cutting_a_request_into_segments_never_makes_it_something_else(at: int) -> None:
    data = get("Host: b.example", line="M-X1 /path HTTP/1.1")
    assert parse_request(data[:at]) is None or at >= len(data)
