"""The server name in a TLS ClientHello (RFC 8446, 4.1.2; RFC 6066, 3). Pure, bounded, and never raises on any bytes.

A ClientHello may span several records and several segments (post-quantum key shares make that ordinary). With Encrypted
ClientHello (RFC 9849) only the outer name is visible: it is returned, and noted.
"""

from dataclasses import dataclass

HANDSHAKE = 0x16
# Servers take an alert or a cipher change before the hello; a hello behind one must not pass for another protocol.
RECORD_TYPES = range(0x14, 0x19)
CLIENT_HELLO = 1
RECORDS = 64  # records one hello may span; OpenSSL and BoringSSL send one or two. Bounds the work on tiny records.
RECORD_BYTES = 16384 + 256
HELLO_BYTES = 32 * 1024  # a hello with ML-KEM shares and every usual extension is below 2 KiB
_SERVER_NAME = 0
_ENCRYPTED_CLIENT_HELLO = 0xFE0D


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHello:
    """What a client said first. `server_name` is lower-case ASCII, other bytes escaped; None when there is none."""

    server_name: str | None
    note: str = ""  # "ech", "malformed", "oversized"


class _TruncatedError(Exception):
    """A length field points outside of what holds it."""


class _Reader:
    """Takes length-prefixed pieces off a byte string."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        self.at += count
        if len(piece) < count:
            raise _TruncatedError
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))

    def more(self) -> bool:
        return self.at < len(self.data)


def parse_client_hello(data: bytes) -> ClientHello | None:
    """The ClientHello at the start of `data`, or None when more bytes are needed.

    Bytes that begin like a handshake record and cannot become a ClientHello give one with the note `malformed`.
    """
    try:
        message = _handshake(data)
        return None if message is None else _hello(message)
    except _TruncatedError:
        return ClientHello(server_name=None, note="malformed")


def _handshake(data: bytes) -> bytes | None:
    """The body of the first handshake message, its record headers taken out."""
    pieces: list[bytes] = []
    have, at = 0, 0
    for _ in range(RECORDS):
        header = data[at : at + 5]
        if header[:1] not in (b"", bytes([HANDSHAKE])) or header[1:2] not in (b"", b"\3"):
            raise _TruncatedError
        if len(header) < 5:  # noqa: PLR2004 - the size of a record header
            return None
        length = int.from_bytes(header[3:5], "big")
        if not 0 < length <= RECORD_BYTES:
            raise _TruncatedError
        pieces.append(data[at + 5 : at + 5 + length])
        have += len(pieces[-1])
        at += 5 + length
        message = b"".join(pieces) if have >= 4 else b""  # noqa: PLR2004 - the size of a handshake header
        if message:
            size = int.from_bytes(message[1:4], "big")
            if message[0] != CLIENT_HELLO or size > HELLO_BYTES:
                raise _TruncatedError
            if have >= 4 + size:
                return message[4 : 4 + size]
        if at > len(data):
            return None
    raise _TruncatedError


def _hello(message: bytes) -> ClientHello:
    reader = _Reader(message)
    reader.take(2 + 32)  # legacy version, random
    reader.vector(1)  # session
    reader.vector(2)  # cipher suites
    reader.vector(1)  # compression
    extensions = _Reader(reader.vector(2) if reader.more() else b"")
    names: list[str] = []
    note = ""
    while extensions.more():
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names.append(_server_name(body))
        elif kind == _ENCRYPTED_CLIENT_HELLO:
            note = "ech"
    if len(names) > 1:
        raise _TruncatedError  # RFC 8446, 4.2: one of each type; two names could be read differently by two parsers
    return ClientHello(server_name=names[0] if names else None, note=note)


def _server_name(body: bytes) -> str:
    entries = _Reader(_Reader(body).vector(2))
    kind, name = entries.number(1), entries.vector(2)
    if kind != 0 or not name or entries.more():
        raise _TruncatedError  # RFC 6066, 3: exactly one host_name in practice
    return name.decode("ascii", "backslashreplace").lower()
