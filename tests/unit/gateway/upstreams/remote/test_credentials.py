"""What a server is sent so that it knows us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.errors import RefusedError
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams.remote.credentials import credentials

TOKEN = "t0ken" + "-of-a-test"


def test_a_token_comes_from_a_variable_or_a_file() -> None:
    expected = ((b"Authorization", f"Bearer {TOKEN}".encode()),)
    assert credentials(Server(token_env="T"), {"T": TOKEN}).headers == expected
    for end in ("", "\n", "\r\n"):
        assert credentials(Server(token_file="f"), {}, f"{TOKEN}{end}".encode()).headers == expected


def test_further_headers_come_from_variables() -> None:
    known = credentials(Server(headers_env={"X-Key": "K", "Cookie": "C"}), {"K": "a b", "C": "c=d"})
    assert known.headers == ((b"X-Key", b"a b"), (b"Cookie", b"c=d"))


def test_who_has_no_credential_sends_none() -> None:
    assert credentials(Server(), {"T": TOKEN}).headers == ()


@pytest.mark.threat("G9")
@pytest.mark.parametrize("bad", ["", "a b", "a\r\nX: y", "a\n", "ä", "a\x00", "\x7f", "x" * 9000, " a"])
def test_what_is_no_token_is_refused_by_its_key_without_its_value(bad: str) -> None:
    for server, environment, file in (
        (Server(token_env="T"), {"T": bad}, None),
        (Server(token_file="f"), {}, (bad + "\n").encode()),
    ):
        with pytest.raises(RefusedError, match=r"token_(env|file)") as told:
            credentials(server, environment, file)
        assert len(bad) < 3 or bad not in str(told.value)


@pytest.mark.threat("G9")
@pytest.mark.parametrize("bad", ["a\r\nX: y", "a\ny", "ä", "a\x00", " a", "a ", "x" * 9000, "\u2028"])
def test_what_would_end_its_line_is_no_header(bad: str) -> None:
    with pytest.raises(RefusedError, match=r"headers_env\.X-Key") as told:
        credentials(Server(headers_env={"X-Key": "K"}), {"K": bad})
    assert bad not in str(told.value)


@pytest.mark.threat("G9")
@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "Connection", "Mcp-Session-Id", "MCP-Protocol-Version"),
        *("Accept-Encoding", "Accept", "Proxy-Authorization", "Upgrade", "Expect", "User-Agent", "Content-Type"),
    ],
)
def test_headers_of_framing_and_protocol_are_ours(name: str) -> None:
    with pytest.raises(RefusedError, match="own"):
        credentials(Server(headers_env={name: "K"}), {"K": "v"})


def test_a_header_is_set_once() -> None:
    with pytest.raises(RefusedError, match="twice"):
        credentials(Server(token_env="T", headers_env={"AUTHORIZATION": "T"}), {"T": TOKEN})
    with pytest.raises(RefusedError, match="twice"):
        credentials(Server(headers_env={"X-A": "T", "x-a": "T"}), {"T": TOKEN})
    with pytest.raises(RefusedError, match="one of them"):
        credentials(Server(token_env="T", token_file="f"), {"T": TOKEN})


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(RefusedError, match="token_env: the variable NOT_THERE is not set"):
        credentials(Server(token_env="NOT_THERE"), {})


def test_a_repr_holds_no_value() -> None:
    assert TOKEN not in repr(credentials(Server(token_env="T"), {"T": TOKEN}))


@pytest.mark.threat("G9")
@given(st.text(max_size=30))
def test_whatever_is_taken_is_one_line_of_visible_ascii(value: str) -> None:
    try:
        known = credentials(Server(headers_env={"X-Key": "K"}), {"K": value})
    except RefusedError:
        return
    assert all(0x20 <= one <= 0x7E for one in known.headers[0][1])
