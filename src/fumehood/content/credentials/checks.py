"""What tells a credential from its like: checksums, structure, entropy, and the words of examples. Pure.

Sources: GitHub, "Behind GitHub's new authentication token formats" (CRC32 of the body in base 62, six characters), of
which npm's are a copy; Grafana, service account tokens (CRC32 in hexadecimal); RFC 7519 section 7.2 (a JWT's header).
"""

import base64
import binascii
import hashlib
import json
import math
import re
import zlib
from collections import Counter

from fumehood.content.credentials.model import Found

_BASE62 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_CHARACTERS = 6
_CHECKED_BODY = 36  # thirty random characters and the checksum
# Keys that the tests of firebase-android-sdk publish, by the beginning of their BLAKE2b digests: nobody's secret.
_PUBLISHED = frozenset(
    {
        "04720f8c5b48eb54",
        "1dbab3955ee24509",
        "1eb23f4ff31fee4a",
        "2331a06e46b6014b",
        "4278860ad7c8919f",
        "5a2e3466d7aa6d95",
        "6ada812c0c203722",
        "71733bf44ea4212a",
        "7fa6fe73624d5bcb",
        "81b4f6c06b09cbed",
        "a667918ad80f14e8",
        "afd2f205ef556be9",
        "b0d0f6e9ac73ad77",
        "e4576406f972acf1",
    }
)
_DIGEST_BYTES = 8

_HEADER_CHARACTERS = 4096  # of a JWT that is decoded

_MASKED = re.compile(rb"([x*.#0-9-])\1{7}|(?:123){4}", re.IGNORECASE)
_NO_LETTERS = bytes(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz"))
_EXAMPLE = re.compile(
    rb"(?i)example|sample|placeholder|dummy|change.?me|replace.?(?:me|this|with)|insert.?your|your[-_.]|(?:^|[-_.])your"
    rb"|[_-]?here$|redacted|1234567890abcdef|abcdefghijkl|deadbeefdeadbeef|<[a-z]|\$\{|\{\{|%\("
)


def checksum_fits(body: bytes) -> bool:
    """Whether a token's last six characters are the CRC32 of those before them, in base 62."""
    number = zlib.crc32(body[:-_CHECKSUM_CHARACTERS])
    digits = b""
    while number:
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit : digit + 1] + digits
    return digits.rjust(_CHECKSUM_CHARACTERS, b"0") == body[-_CHECKSUM_CHARACTERS:]


def tail_fits(found: Found) -> bool:
    """GitHub's and npm's checksum, of what follows the last underscore."""
    body = found.value.rpartition(b"_")[2]
    return len(body) == _CHECKED_BODY and checksum_fits(body)


def hexadecimal_tail_fits(found: Found) -> bool:
    """Grafana's checksum: CRC32 of all that stands before the last underscore, in eight hexadecimal digits."""
    body, _, tail = found.value.rpartition(b"_")
    return tail.decode("ascii", "replace") == f"{zlib.crc32(body):08x}"


def has_digit(found: Found) -> bool:
    """A digit is in it."""
    return not _DIGITS.isdisjoint(found.value)


_DIGITS = frozenset(b"0123456789")


def is_no_example(found: Found) -> bool:
    """Neither masked nor a word of an example."""
    value = found.value
    return not (
        _MASKED.search(value) or _EXAMPLE.search(value) or b"abcdefghijkl" in value.lower().translate(None, _NO_LETTERS)
    )


def is_unmasked(found: Found) -> bool:
    """Not masked: all that is asked of a token whose prefix leaves no doubt."""
    return not _MASKED.search(found.value)


def is_unpublished(found: Found) -> bool:
    """No example, and none that is known to be published."""
    digest = hashlib.blake2b(found.value, digest_size=_DIGEST_BYTES).hexdigest()
    return is_no_example(found) and digest not in _PUBLISHED


def is_mixed(found: Found) -> bool:
    """No example, and a digit is in it: what follows a short prefix is more than a word."""
    return has_digit(found) and is_no_example(found)


def is_scrambled(found: Found) -> bool:
    """No example, and letters of both cases or a digit are in it: what is all letters is no word."""
    body = found.value.rpartition(b"_")[2]
    return is_no_example(found) and (has_digit(found) or body.lower() != body != body.upper())


def entropy(value: bytes) -> float:
    """Shannon's, in bits a byte."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values()) if size else 0.0


def is_jwt(found: Found) -> bool:
    """The first part decodes to a JSON object with an algorithm."""
    part = found.value.partition(b".")[0][:_HEADER_CHARACTERS]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)
