"""An Ed25519 key pair as OpenSSH keeps it. Pure.

Sources: RFC 8032, section 5.1 (the curve, and how a seed becomes a public key); openssh-portable, PROTOCOL.key (the
block); RFC 8709 (the public blob). Arithmetic here is neither fast nor constant in time: the key is no secret of ours.
"""

import base64
import hashlib
import random
from dataclasses import dataclass
from typing import TypeAlias

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Point: TypeAlias = tuple[int, int, int, int]  # extended coordinates: X, Y, Z, T
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)
_KIND = b"ssh-ed25519"
_LINE = 70  # characters of a line of the block
_BLOCK = 8  # to whose multiple the private part is padded


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """`private` is the file, `public` the line of the .pub; `secret` is the seed as it stands in the file."""

    private: str
    public: str
    secret: str


def key_pair(chance: random.Random, comment: str) -> KeyPair:
    """A new pair; `comment` is what ssh-keygen puts behind the key, user@host."""
    seed = chance.randbytes(32)
    public = public_of(seed)
    blob = _string(_KIND) + _string(public)
    check = chance.randbytes(4)
    private = check + check + blob + _string(seed + public) + _string(comment.encode())
    private += bytes(range(1, -len(private) % _BLOCK + 1))
    head = b"openssh-key-v1\0" + _string(b"none") * 2 + _string(b"") + (1).to_bytes(4, "big") + _string(blob)
    whole = head + _string(private)
    text = base64.b64encode(whole).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    body = "\n".join(lines)
    kept = base64.b64encode(blob).decode()
    at = whole.index(seed) * 8
    return KeyPair(
        private=f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n",
        public=f"ssh-ed25519 {kept} {comment}\n",
        secret=text[-(-at // 6) : (at + 8 * len(seed)) // 6],  # characters 215 to 257: inside the fourth line
    )


def public_of(seed: bytes) -> bytes:
    """The public key of a seed of 32 bytes (RFC 8032, 5.1.5)."""
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    scalar = scalar & ((1 << 254) - 8) | (1 << 254)
    x, y, z, _ = _times(scalar, _BASE)
    inverse = pow(z, -1, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _times(scalar: int, point: _Point) -> _Point:
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        scalar >>= 1
    return total


def _plus(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _string(data: bytes) -> bytes:
    """As SSH writes one: its length in four bytes, then itself (RFC 4251, section 5)."""
    return len(data).to_bytes(4, "big") + data
