"""Access tokens of an authorization server: JWTs, checked against its keys in a file, without any network.

Invariants: only the signature algorithms of `ALGORITHMS` are taken, each with the one key that the set binds to it, so
that neither `none` nor a public key misused as an HMAC secret passes; a key that is symmetric, private or too short
is refused when the file is read; keys, addresses and algorithms that a token itself names (`jwk`, `jku`, `x5u`) are
never used; issuer, audience (this server, RFC 8707) and an expiry are demanded, `nbf` and `iat` kept; scopes that are
none of ours mean nothing. Why a token fails is not said.

Not promised: that a token which the issuer has revoked is refused before it expires; nothing is asked over the network.

Sources: RFC 9068 (JWT access tokens), RFC 8725 (best practices), RFC 7517 (JWK), RFC 9728 (resource metadata), the MCP
specification, Authorization.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from fumehood.core import jsonio, limits
from fumehood.wire.published import Caller
from fumehood.wire.scopes import EVERY_TOOL, known
from fumehood.wire.watched import BrokenFileError, WatchedFile

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # RFC 7518, 6.2.2, 6.3.2, 6.4.1
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")  # RFC 9068, 2.1; many issuers still write JWT
_HEADER_BYTES = 2 * limits.KIB  # of one token's header; a kid, an algorithm and a type are 100 bytes
_RSA_BITS = 2048  # RFC 7518, 3.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are taken, and for which resource."""

    issuer: str
    audience: str


class AccessTokens:
    """The tokens of one issuer."""

    def __init__(self, issuer: Issuer, keys_file: Path) -> None:
        """Read the keys for the first time. Errors: `SettingsError`."""
        self._is = issuer
        self._file = WatchedFile(keys_file, parse_keys)
        self.challenge = f'resource_metadata="{metadata_url(issuer.audience)}"'

    def ready(self) -> bool:
        """Whether there are keys at the moment."""
        return self._file.value() is not None

    def caller(self, token: str) -> Caller | None:
        """Who holds a token, and what it covers; None for one that is not valid here and now."""
        keys = self._file.value()
        if keys is None or token.count(".") != 2:  # noqa: PLR2004 - a JWS in compact form has three parts
            return None
        try:
            key = _select(keys, token)
            return _holder(_claims(token, key, self._is)) if key else None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None


def metadata_url(audience: str) -> str:
    """Where the metadata of a resource is, RFC 9728, 3.1."""
    parts = urlsplit(audience)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.removesuffix('/')}"


def documents(issuer: Issuer) -> dict[str, bytes]:
    """The metadata by path: at the path of the resource, and at the root where clients look next."""
    body = json.dumps(
        {
            "resource": issuer.audience,
            "authorization_servers": [issuer.issuer],
            "bearer_methods_supported": ["header"],
            "scopes_supported": [EVERY_TOOL],
            "resource_name": "fumehood",
        }
    ).encode("ascii")
    return {WELL_KNOWN: body, urlsplit(metadata_url(issuer.audience)).path: body}


def parse_keys(data: bytes) -> dict[str | None, jwt.PyJWK]:
    """The signing keys of a JWK set by `kid`. Errors: `BrokenFileError`."""
    try:
        value = jsonio.parse(data, size=limits.HTTP_FILE_BYTES, locate=False)
    except jsonio.JsonError:
        raise BrokenFileError("is not JSON") from None
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list) or len(listed) > limits.HTTP_KEYS:
        raise BrokenFileError(f"is no JWK set of at most {limits.HTTP_KEYS} keys")
    keys: dict[str | None, jwt.PyJWK] = {}
    for number, entry in enumerate(listed, start=1):
        key = _parse_key(entry, number)
        if key is None:
            continue
        if key.key_id in keys:
            raise BrokenFileError(f"key {number}: the same kid a second time")
        keys[key.key_id] = key
    if not keys:
        raise BrokenFileError("holds no key for signatures")
    return keys


def _parse_key(entry: object, number: int) -> jwt.PyJWK | None:
    """One key; None for one that is not for signatures."""
    if not isinstance(entry, dict) or _PRIVATE & set(entry) or entry.get("kty") == "oct":
        raise BrokenFileError(f"key {number}: no public key; a private or symmetric one must not lie here")
    kid = entry.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise BrokenFileError(f"key {number}: kid is no text")
    if entry.get("use", "sig") != "sig":
        return None
    if entry.get("alg") not in (None, *ALGORITHMS):
        raise BrokenFileError(f"key {number}: algorithms are {', '.join(ALGORITHMS)}")
    try:
        key = jwt.PyJWK.from_dict(entry)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        raise BrokenFileError(f"key {number}: not a key that is understood") from None
    if key.algorithm_name not in ALGORITHMS:  # what it is when the set does not say: a curve of another kind
        raise BrokenFileError(f"key {number}: algorithms are {', '.join(ALGORITHMS)}")
    if getattr(key.key, "key_size", _RSA_BITS) < _RSA_BITS and entry.get("kty") == "RSA":
        raise BrokenFileError(f"key {number}: shorter than {_RSA_BITS} bits")
    return key


def _select(keys: Mapping[str | None, jwt.PyJWK], token: str) -> jwt.PyJWK | None:
    """The key that a token's header names; without a name, the only one there is."""
    if token.index(".") > _HEADER_BYTES:
        return None
    header = jwt.get_unverified_header(token)
    kind = header.get("typ")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        return None
    kid = header.get("kid")
    if kid is not None:
        return keys.get(kid)
    return next(iter(keys.values())) if len(keys) == 1 else None


def _claims(token: str, key: jwt.PyJWK, issuer: Issuer) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key=key,
        algorithms=[key.algorithm_name],  # the key's, never the token's
        audience=issuer.audience,
        issuer=issuer.issuer,
        leeway=limits.HTTP_CLOCK_SKEW_SECONDS,
        options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
    )
    return claims


def _holder(claims: Mapping[str, Any]) -> Caller | None:
    """The caller of valid claims: known by subject and client, with the scopes that are ours."""
    subject, client, scope = (claims.get(name, "") for name in ("sub", "client_id", "scope"))
    if not all(isinstance(value, str) for value in (subject, client, scope)) or not (subject or client):
        return None
    named = json.dumps([subject, client]).encode("ascii")
    key = f"oauth {hashlib.sha256(named).hexdigest()[:24]}"
    return Caller(principal=key, scopes=known(scope.split()[: limits.HTTP_SCOPES]))
