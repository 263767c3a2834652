from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.sections import HttpSettings
from fumehood.wire.exposure import Allow, Decision, ExposureError, Plan, Refuse, decide, is_loopback

LOOPBACK = ("127.0.0.1",)
OUTSIDE = ("192.0.2.7",)
TOKEN = {"token_file": "/t"}
TLS = {"tls_certificate": "/c", "tls_key": "/k"}
OAUTH = {"oauth_issuer": "https://a.example", "oauth_audience": "https://b.example/mcp", "oauth_keys_file": "/j"}
SOCKET = {"unix_socket": "/s"}
PLAIN = {"unsafe_plain_bind": True}


def decision(addresses: tuple[str, ...] = LOOPBACK, *, production: bool = False, **http: Any) -> Decision:
    settings = msgspec.convert(http, HttpSettings)
    return decide(Plan(http=settings, production=production, addresses=addresses))


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    ("addresses", "production", "http", "word"),
    [
        (LOOPBACK, True, {}, "production"),
        ((), True, SOCKET, "production"),
        (OUTSIDE, False, {}, "without a token"),
        (OUTSIDE, False, TLS, "without a token"),
        (OUTSIDE, False, PLAIN, "without a token"),
        (OUTSIDE, False, TOKEN, "in the clear"),
        (OUTSIDE, True, OAUTH, "in the clear"),
        ((*LOOPBACK, *OUTSIDE), False, TOKEN, "in the clear"),
        (("0.0.0.0",), False, TOKEN, "in the clear"),
        (("::",), False, TOKEN, "in the clear"),
        ((), False, TOKEN, "no address"),
    ],
)
def test_what_would_expose_the_workspace_is_refused(
    addresses: tuple[str, ...], production: bool, http: dict[str, Any], word: str
) -> None:
    found = decision(addresses, production=production, **http)
    assert isinstance(found, Refuse)
    assert word in found.reason
    assert found.remedy


@pytest.mark.parametrize(
    ("addresses", "production", "http", "notes"),
    [
        (LOOPBACK, False, {}, 1),
        (("::1", "127.0.0.1"), False, TOKEN, 0),
        (("::ffff:127.0.0.1",), False, TOKEN, 0),
        (LOOPBACK, True, TOKEN, 0),
        (LOOPBACK, True, OAUTH, 0),
        (OUTSIDE, True, {**TOKEN, **TLS}, 0),
        (OUTSIDE, True, {**TOKEN, **PLAIN}, 1),
        (("0.0.0.0",), True, {**TOKEN, **TLS}, 1),
        (("0.0.0.0",), True, {**TOKEN, **TLS, "allowed_hosts": ["h.example"]}, 0),
        ((), False, SOCKET, 1),
        ((), True, {**SOCKET, **TOKEN, "peer_uids": [33]}, 1),
    ],
)
def test_what_is_allowed_is_told_with_its_notes(
    addresses: tuple[str, ...], production: bool, http: dict[str, Any], notes: int
) -> None:
    found = decision(addresses, production=production, **http)
    assert isinstance(found, Allow), found
    assert len(found.notes) == notes


@pytest.mark.threat("T11")
@pytest.mark.parametrize(
    "http",
    [
        {"tls_certificate": "/c"},
        {"tls_key": "/k"},
        {"oauth_issuer": "https://a.example"},
        {"oauth_issuer": "https://a.example", "oauth_audience": "https://b.example"},
        {"oauth_keys_file": "/j"},
        {"peer_uids": [0]},
        {**SOCKET, **TLS},
        {**SOCKET, "peer_uids": [-1]},
        {**SOCKET, "peer_uids": [2**32 - 1]},
        {"allowed_hosts": ["http://h.example"]},
        {"allowed_hosts": ["*"]},
        {"allowed_hosts": [f"h{n}.example" for n in range(65)]},
        {"allowed_origins": ["h.example"]},
        {"allowed_origins": ["*"]},
        {"allowed_origins": ["null"]},
    ],
)
def test_half_a_pair_and_what_has_no_effect_is_refused(http: dict[str, Any]) -> None:
    assert isinstance(decision(**http), Refuse)


@pytest.mark.threat("T9")
@given(
    st.lists(st.sampled_from(["127.0.0.1", "::1", "192.0.2.7", "0.0.0.0", "::", "10.0.0.1"]), min_size=1).map(tuple),
    st.booleans(),
    st.lists(st.sampled_from([TOKEN, TLS, OAUTH, PLAIN])),
)
def test_nobody_is_let_in_without_a_credential_where_one_is_due(
    addresses: tuple[str, ...], production: bool, parts: list[dict[str, Any]]
) -> None:
    http = {key: value for part in parts for key, value in part.items()}
    allowed = isinstance(decision(addresses, production=production, **http), Allow)
    credential, loopback = TOKEN in parts or OAUTH in parts, all(map(is_loopback, addresses))
    assert allowed == ((credential or (loopback and not production)) and (loopback or TLS in parts or PLAIN in parts))


def test_what_is_no_address_is_not_loopback() -> None:
    assert not is_loopback("localhost")
    assert not is_loopback("")
    assert ExposureError.exit_status == 2
