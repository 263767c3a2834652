"""Bearer tokens: whose they are, without the tokens themselves being kept anywhere.

Invariants: only SHA-256 digests are stored and compared; every comparison is `hmac.compare_digest`, over all lines and
without an early end, so that time tells neither how much of a token nor which line fits (threat T9); a token file
without a usable line lets nobody in. A digest without salt is enough because a token is 256 random bits: `mint` makes
one. A token that a person thought up is not, and this module cannot tell.

The file: one digest a line, in hexadecimal, optionally with the scopes of `wire.scopes` behind it (none: every tool);
`#` begins a comment. Several lines are valid at once, for rotation.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fumehood.core import limits
from fumehood.wire.published import Caller
from fumehood.wire.scopes import EVERY_TOOL, is_scope
from fumehood.wire.watched import BrokenFileError, WatchedFile

_LINE = re.compile(r"([0-9A-Fa-f]{64})((?:[ \t]+[^ \t]{1,200}){0,64})")
_TOKEN_BYTES = 32  # 256 bits
_OF_NOTHING = hashlib.sha256(b"").digest()  # what an unset variable leaves in a pipeline
_KEY_CHARACTERS = 12  # of a digest, enough to tell HTTP_TOKENS lines apart in a log


class Authenticator(Protocol):
    """Something that knows bearer tokens."""

    @property
    def challenge(self) -> str:
        """What WWW-Authenticate says besides the scheme; empty when there is nothing to say."""
        ...

    def ready(self) -> bool:
        """Whether anybody could be let in at the moment."""
        ...

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; None for nobody's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLine:
    """One valid token."""

    digest: bytes
    caller: Caller


class TokenFile:
    """The tokens of `http.token_file`."""

    challenge = ""

    def __init__(self, path: Path) -> None:
        """Read the file for the first time. Errors: `SettingsError`."""
        self._file = WatchedFile(path, parse_tokens)

    def ready(self) -> bool:
        """Whether the file holds a line at the moment."""
        return self._file.value() is not None

    def caller(self, token: str) -> Caller | None:
        """Whose token it is."""
        return match(token, self._file.value() or ())


def match(token: str, lines: tuple[TokenLine, ...]) -> Caller | None:
    """The line that fits, found by comparing with every one."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    found: Caller | None = None
    for line in lines:
        fits = hmac.compare_digest(digest, line.digest)
        found = line.caller if fits else found
    return found


def parse_tokens(data: bytes) -> tuple[TokenLine, ...]:
    """The lines of a token file. Errors: `BrokenFileError` for any line that is not understood, and for no line."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise BrokenFileError("is not ASCII") from None
    found: dict[bytes, TokenLine] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        content = raw.partition("#")[0].strip(" \t")
        if not content:
            continue
        line = _parse_line(content, number)
        if line.digest in found:
            raise BrokenFileError(f"line {number}: the same digest a second time")
        found[line.digest] = line
    if not found:
        raise BrokenFileError("holds no token")
    if len(found) > limits.HTTP_TOKENS:
        raise BrokenFileError(f"holds more than {limits.HTTP_TOKENS} tokens")
    return tuple(found.values())


def mint() -> tuple[str, str]:
    """A new token, and its line for the token file."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    return token, hashlib.sha256(token.encode("ascii")).hexdigest()


def _parse_line(content: str, number: int) -> TokenLine:
    found = _LINE.fullmatch(content)
    if not found:
        raise BrokenFileError(f"line {number}: not a SHA-256 of 64 hexadecimal digits, with scopes behind it if any")
    scopes = [word for word in found[2].split() if word != "-"]  # sha256sum writes one for its standard input
    if not all(is_scope(word) for word in scopes):
        raise BrokenFileError(f"line {number}: scopes are {EVERY_TOOL}, tool:NAME and role:NAME")
    digest = bytes.fromhex(found[1])
    if digest == _OF_NOTHING:
        raise BrokenFileError(f"line {number}: the digest of an empty token")
    key = f"token {digest.hex()[:_KEY_CHARACTERS]}"
    return TokenLine(digest=digest, caller=Caller(principal=key, scopes=frozenset(scopes) or None))
