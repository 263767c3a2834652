"""Find credentials by the formats that their issuers publish, and replace them. Pure.

Invariants: the work is linear in the text; a placeholder names the rule, never the value, and is never taken for a
credential itself. A wrong checksum does not clear a token of its family: it is replaced as `…-like`. Spans are in
order, apart, and on whole characters.

Not promised: that every credential is found. This is a net for accidents, not a control against a program that wants
to hide what it prints. What is known to pass stands in docs/limits/redaction.md.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fumehood.content.credentials import scan
from fumehood.content.credentials.model import Extra, Span

_KEY_BYTES = 64  # what keyed BLAKE2b takes at most (RFC 7693)
_ID_BYTES = 4  # enough to tell the secrets of one process apart; too few to try values against

__all__ = ["Extra", "Placeholders", "Redacted", "Span", "find", "find_text", "redact", "replace", "replace_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A text without the credentials that were found in it, and how many of each rule."""

    text: str
    hits: Mapping[str, int]


class Placeholders:
    """What stands for a value: its rule, and an id that equal values share within one process."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """`key` is random and never leaves the process: without it nobody can try values against an id."""
        self._key = key if len(key) <= _KEY_BYTES else hashlib.blake2b(key).digest()

    def of(self, rule: str, value: bytes) -> bytes:
        """`[redacted:rule:8 hex]`."""
        mark = hashlib.blake2b(value, key=self._key, digest_size=_ID_BYTES).hexdigest()
        return f"[redacted:{rule}:{mark}]".encode()


def find(data: bytes, extra: Extra | None = None) -> list[Span]:
    """Every credential in UTF-8 text, by byte offsets, in order; of those that overlap, all as one.

    `extra` are an operator's rules (content.rulefile).
    """
    found = scan.look(data, extra)
    return scan.apart(found, data) if found else found


def replace_bytes(data: bytes, spans: Iterable[Span], placeholder: Callable[[Span, bytes], bytes]) -> bytes:
    """The data with what `placeholder` makes of each span and its value; spans are in order and apart."""
    parts, place = [], 0
    for span in spans:
        parts += [data[place : span.start], placeholder(span, data[span.start : span.end])]
        place = span.end
    return b"".join([*parts, data[place:]])


def find_text(text: str) -> list[Span]:
    """The same for text, by characters."""
    data = text.encode("utf-8", "surrogatepass")
    spans = find(data)
    if len(data) == len(text):
        return spans
    return [Span(start=_characters(data, s.start), end=_characters(data, s.end), rule=s.rule) for s in spans]


def redact(text: str) -> Redacted:
    """Replace every credential that is found."""
    spans = find_text(text)
    return Redacted(text=replace(text, spans), hits=Counter(span.rule for span in spans))


def replace(text: str, spans: Iterable[Span]) -> str:
    """The text with a placeholder without an id for each span; spans are in order and apart."""
    parts, place = [], 0
    for span in spans:
        parts += [text[place : span.start], f"[redacted:{span.rule}]"]
        place = span.end
    return "".join([*parts, text[place:]])


def _characters(data: bytes, place: int) -> int:
    return len(data[:place].decode("utf-8", "surrogatepass"))
