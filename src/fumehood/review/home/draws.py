"""Draw words that look like what issuers give out. Pure: the same chance gives the same words."""

import random
import string
import zlib

DIGITS = string.digits
BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase  # in the order in which checksums count
BASE32 = string.ascii_uppercase + "234567"
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
_CHECKSUM_CHARACTERS = 6
_ONSETS = (
    "b",
    "br",
    "c",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
)
_RHYMES = ("a", "e", "i", "o", "u", "al", "an", "ar", "el", "en", "er", "il", "in", "on", "or", "um", "us")


def word(chance: random.Random, characters: int, alphabet: str = BASE62) -> str:
    """So many characters of an alphabet; a digit and a letter are among them where it has both."""
    while True:
        drawn = "".join(chance.choices(alphabet, k=characters))
        if alphabet in (DIGITS, HEX) or not (drawn.isalpha() or drawn.isdigit()):
            return drawn


def checked(chance: random.Random, characters: int = 30) -> str:
    """A body and its CRC32 in base 62: how GitHub's tokens end, and npm's."""
    body = word(chance, characters)
    number, digits = zlib.crc32(body.encode()), ""
    while number:
        number, digit = divmod(number, len(BASE62))
        digits = BASE62[digit] + digits
    return body + digits.rjust(_CHECKSUM_CHARACTERS, "0")


def name(chance: random.Random, syllables: int = 3) -> str:
    """A name that nothing has yet, as companies are called."""
    return "".join(chance.choice(_ONSETS) + chance.choice(_RHYMES) for _ in range(syllables))


def uuid(chance: random.Random) -> str:
    """A random UUID (RFC 9562, version 4)."""
    digits = word(chance, 32, HEX)
    return "-".join(
        (digits[:8], digits[8:12], "4" + digits[13:16], chance.choice("89ab") + digits[17:20], digits[20:32])
    )
