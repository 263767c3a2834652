import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.settings import SettingsError
from fumehood.wire.oauth import AccessTokens, Issuer, documents, metadata_url, parse_keys
from fumehood.wire.published import Caller
from fumehood.wire.watched import BrokenFileError

ISSUER = Issuer(issuer="https://login.example", audience="https://files.example/mcp")
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, algorithm: str, **more: object) -> dict[str, Any]:
    known = jwt.get_algorithm_by_name(algorithm)
    return {**known.to_jwk(key.public_key(), as_dict=True), "alg": algorithm, **more}


KEYS = [public(RSA, "RS256", kid="r"), public(EC, "ES256", kid="e", use="sig")]


@pytest.fixture
def tokens(tmp_path: Path) -> AccessTokens:
    return AccessTokens(ISSUER, keys_file(tmp_path, KEYS))


def keys_file(folder: Path, keys: list[dict[str, Any]]) -> Path:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": keys}))
    path.chmod(0o600)
    return path


def claims(**other: object) -> dict[str, Any]:
    now = int(time.time())
    usual = {
        "iss": ISSUER.issuer,
        "aud": ISSUER.audience,
        "sub": "ann",
        "client_id": "editor",
        "iat": now,
        "exp": now + 600,
        "scope": "openid tool:read_file",
    }
    return {name: value for name, value in (usual | other).items() if value is not None}


def signed(key: Any = EC, algorithm: str = "ES256", kid: str | None = "e", **other: Any) -> str:
    headers = {"typ": "at+jwt"} | ({"kid": kid} if kid else {}) | other.pop("headers", {})
    return jwt.encode(claims(**other), key, algorithm=algorithm, headers=headers)


def test_a_token_of_the_issuer_for_this_server_is_taken_with_our_scopes(tokens: AccessTokens) -> None:
    caller = tokens.caller(signed())
    assert caller
    assert caller.scopes == frozenset({"tool:read_file"})
    assert tokens.caller(signed(RSA, "RS256", "r"))
    assert tokens.ready()


@pytest.mark.parametrize(
    "other",
    [
        {"aud": ["https://x.example", ISSUER.audience]},
        {"nbf": 1},
        {"headers": {"typ": "JWT"}},
        {"headers": {"typ": None}},
        {"headers": {"jku": "https://evil.example", "jwk": {"kty": "oct", "k": "AA"}}},
        {"client_id": None},
        {"sub": None},
    ],
)
def test_what_the_rules_leave_open_is_taken(tokens: AccessTokens, other: dict[str, Any]) -> None:
    assert tokens.caller(signed(**other))


def test_clocks_may_differ_a_little(tokens: AccessTokens) -> None:
    assert tokens.caller(signed(exp=int(time.time()) - limits.HTTP_CLOCK_SKEW_SECONDS // 2))
    assert tokens.caller(signed(exp=int(time.time()) - limits.HTTP_CLOCK_SKEW_SECONDS - 1)) is None


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "other",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": ISSUER.audience + "/"},
        {"aud": []},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"iss": ISSUER.issuer + "/"},
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 3600},
        {"iat": int(time.time()) + 3600},
        {"sub": None, "client_id": None},
        {"client_id": 7},
        {"scope": ["tools:read"]},
        {"headers": {"typ": "id+jwt"}},
        {"headers": {"crit": ["exp"]}},
        {"kid": "r"},
        {"kid": "unknown"},
        {"kid": None},
        {"key": STRANGER},
        {"key": RSA, "algorithm": "RS256", "kid": "e"},
        {"key": RSA, "algorithm": "RS512", "kid": "r"},
        {"key": RSA, "algorithm": "PS256", "kid": "r"},
    ],
)
def test_a_token_of_another_issuer_audience_time_or_key_is_nobodys(tokens: AccessTokens, other: dict[str, Any]) -> None:
    assert tokens.caller(signed(**other)) is None


def encoded(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.threat("T9")
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256"])
def test_no_algorithm_and_a_public_key_as_a_secret_are_refused(tokens: AccessTokens, algorithm: str) -> None:
    """CVE-2015-9235 and CVE-2022-29217: `none`, and HS256 over the text of a public key."""
    body = f"{encoded({'alg': algorithm, 'kid': 'r', 'typ': 'JWT'})}.{encoded(claims())}"
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, json.dumps(KEYS[0]).encode(), b""):
        signature = hmac.digest(secret, body.encode(), hashlib.sha256)
        assert tokens.caller(f"{body}.{encoded(signature)}") is None
    assert tokens.caller(f"{body}.") is None


@pytest.mark.threat("T9")
def test_a_changed_payload_is_nobodys(tokens: AccessTokens) -> None:
    head, _, signature = signed().split(".")
    assert tokens.caller(f"{head}.{encoded(claims(scope='tools:read'))}.{signature}") is None


@pytest.mark.parametrize("token", ["", "a", "..", "a.b.c", "[" * 3000 + ".b.c", f"{encoded(b'[' * 3000)}.e30.e30"])
def test_what_is_no_token_is_nobodys(tokens: AccessTokens, token: str) -> None:
    assert tokens.caller(token) is None


def test_without_a_scope_of_ours_a_token_covers_nothing(tokens: AccessTokens) -> None:
    for scope in (None, "", "openid profile"):
        caller = tokens.caller(signed(scope=scope))
        assert caller
        assert caller.scopes == frozenset()


def test_holders_are_told_apart_by_subject_and_client(tokens: AccessTokens) -> None:
    found = [tokens.caller(signed(sub=s, client_id=c)) for s, c in (("a", "b"), ("b", "a"), ("a", "b"), ("ab", ""))]
    names = [caller.principal for caller in found if caller]
    assert names[0] == names[2]
    assert len(set(names)) == 3
    assert all("ann" not in name for name in names)


def test_one_key_without_a_name_serves_tokens_without_one(tmp_path: Path) -> None:
    alone = AccessTokens(ISSUER, keys_file(tmp_path, [public(EC, "ES256")]))
    assert alone.caller(signed(kid=None))
    assert alone.caller(signed(kid="e")) is None


def test_an_ed25519_key_serves(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    assert AccessTokens(ISSUER, keys_file(tmp_path, [public(key, "EdDSA")])).caller(signed(key, "EdDSA", None))


@pytest.mark.threat("T9")
def test_a_new_set_of_keys_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path = keys_file(tmp_path, KEYS)
    tokens = AccessTokens(ISSUER, path)
    assert tokens.caller(signed())
    keys_file(tmp_path, [public(STRANGER, "ES256", kid="e", n="1")])
    assert tokens.caller(signed()) is None
    assert tokens.caller(signed(STRANGER))
    path.write_text("{}")
    assert tokens.caller(signed(STRANGER)) is None
    assert not tokens.ready()


def short(_: dict[str, Any]) -> dict[str, Any]:
    return public(rsa.generate_private_key(65537, 1024), "RS256")


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(EC)),
        lambda key: {**key, "kty": "oct"},
        lambda key: {**key, "kty": "odd"},
        lambda key: {**key, "alg": "HS256"},
        lambda key: {**key, "alg": "none"},
        lambda key: {**key, "alg": "ES256K"},
        lambda key: {**key, "crv": "P-999"},
        lambda key: {name: value for name, value in {**key, "crv": "secp256k1"}.items() if name != "alg"},
        lambda key: {**key, "x": "!"},
        lambda key: {**key, "x": 7},
        lambda key: {**key, "kid": 7},
        lambda key: {**key, "use": "enc"},
        lambda _: {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        lambda _: "key",
        short,
    ],
)
def test_a_key_that_must_not_serve_stops_the_start(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    with pytest.raises(SettingsError):
        AccessTokens(ISSUER, keys_file(tmp_path, [spoil(public(EC, "ES256"))]))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"keys":{}}', b'{"keys":[]}', b'{"keys":[],"keys":[]}'])
def test_what_is_no_set_of_keys_is_broken(data: bytes) -> None:
    with pytest.raises(BrokenFileError):
        parse_keys(data)


def test_a_set_with_a_name_twice_or_too_many_keys_is_broken() -> None:
    with pytest.raises(BrokenFileError, match="second time"):
        parse_keys(json.dumps({"keys": [KEYS[0], KEYS[0]]}).encode())
    with pytest.raises(BrokenFileError, match="at most"):
        parse_keys(json.dumps({"keys": [KEYS[0]] * (limits.HTTP_KEYS + 1)}).encode())


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_file_gives_keys_or_is_broken(data: bytes) -> None:
    with contextlib.suppress(BrokenFileError):
        assert parse_keys(data)


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        ("https://h.example/mcp", "https://h.example/.well-known/oauth-protected-resource/mcp"),
        ("https://h.example:8443", "https://h.example:8443/.well-known/oauth-protected-resource"),
        ("https://h.example/", "https://h.example/.well-known/oauth-protected-resource"),
    ],
)
def test_metadata_lie_where_the_standard_says(audience: str, url: str) -> None:
    assert metadata_url(audience) == url
    issuer = Issuer(issuer="https://login.example", audience=audience)
    found = documents(issuer)
    assert {url.removeprefix("https://h.example").removeprefix(":8443")} <= set(found)
    document = json.loads(found["/.well-known/oauth-protected-resource"])
    assert document["resource"] == audience
    assert document["authorization_servers"] == ["https://login.example"]


@given(st.text(max_size=60))
def test_any_text_is_nobodys_token(text: str) -> None:
    assert _ANY.caller(text) is None


class _Fixed(AccessTokens):
    def __init__(self) -> None:
        self._is = ISSUER
        self._file = _Held()  # type: ignore[assignment]  # a file that does not change, for a property


class _Held:
    keys = parse_keys(json.dumps({"keys": KEYS}).encode())

    def value(self) -> dict[str | None, jwt.PyJWK]:
        return self.keys


_ANY = _Fixed()


def test_the_fixed_one_takes_what_is_right() -> None:
    assert isinstance(_ANY.caller(signed()), Caller)
