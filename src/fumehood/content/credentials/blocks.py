"""Private keys that stand between two lines, or begin with a line of their own. Pure.

Sources: RFC 7468 (PEM), RFC 9580 section 6.2 (OpenPGP's armour), PuTTY's manual, appendix C (PPK files).
"""

import re
from collections.abc import Iterator

from fumehood.content.credentials.model import Span

_KEY_BLOCK_BYTES = 16 * 1024  # an RSA key of 16,384 bits is 12.5 KB in PEM
_BEGIN = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[1-9]: "
    rb"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
_END = re.compile(rb"-----END [A-Z0-9 ]{0,60}-----|Private-MAC: [0-9a-f]{40,64}|---- END SSH2 [A-Z ]{0,40} ----")
KEYWORDS = (b"private key", b"putty-user-key-file-")


def key_blocks(data: bytes) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as a key can reach where the last is missing."""
    place = 0
    while begin := _BEGIN.search(data, place):
        limit = begin.start() + _KEY_BLOCK_BYTES
        end = _END.search(data, begin.end(), limit)
        place = end.end() if end else min(limit, len(data))
        yield Span(start=begin.start(), end=place, rule="private-key")
