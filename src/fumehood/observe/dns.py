"""The question in a DNS query (RFC 1035, 4.1). Pure, bounded by the datagram, and never raises on any bytes.

Not seen: what a client asks over TLS or HTTPS (DoT, DoH); that is a connection, and recorded as one.
"""

from dataclasses import dataclass

HEADER_BYTES = 12
NAME_WIRE_BYTES = 255  # RFC 1035, 2.3.4: length bytes and the root included
LABEL_BYTES = 63
CLASS_IN = 1
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked. `name` is lower-case, without trailing dot; bytes that are not plain are decimal escapes."""

    name: str
    query_type: int
    end: int  # where the question section ends in the query


def parse_question(query: bytes) -> Question | None:
    """The one question of a standard query, or None when the bytes are anything else.

    One question of class IN, no compression inside it, lengths as the RFC has them. Bytes after the question (EDNS)
    are ignored.
    """
    if len(query) < HEADER_BYTES + 5 or query[2] & 0xF8 or query[4:6] != b"\0\1":
        return None  # an answer, another opcode, or not exactly one question
    labels = []
    at = HEADER_BYTES
    while (length := query[at]) != 0:
        label = query[at + 1 : at + 1 + length]
        at += 1 + length
        if length > LABEL_BYTES or at >= len(query) or at + 1 - HEADER_BYTES > NAME_WIRE_BYTES:
            return None
        labels.append(_text(label))
    end = at + 5
    if len(query) < end or int.from_bytes(query[at + 3 : end], "big") != CLASS_IN:
        return None
    return Question(name=".".join(labels), query_type=int.from_bytes(query[at + 1 : at + 3], "big"), end=end)


def _text(label: bytes) -> str:
    # RFC 4343: \DDD for what is not plain, so that a dot inside a label cannot pose as two labels.
    return "".join(chr(b) if b in _PLAIN else f"\\{b:03d}" for b in label.lower())
