"""The HTTP/1 requests of one connection, read one after another (RFC 9112). Pure, bounded, never raises on any bytes.

What two readers could take for different requests is malformed: a length beside chunks, several lengths, another
transfer coding, a folded line, a blank before a colon, control characters. Then nothing more is read, since where a
next request begins is anybody's guess. Bodies come without their chunking; compression is left as it is.

Not seen: trailers, chunk extensions, HTTP/2 and what follows CONNECT.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from fumehood.core import limits
from fumehood.observe.http import HEAD_BYTES, field_fault, host_of

if TYPE_CHECKING:
    from hashlib import _Hash

Header: TypeAlias = tuple[bytes, bytes]
Keep: TypeAlias = Callable[[int, int], int]

_START = re.compile(
    rb"(?P<method>[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) (?P<target>[!-~\x80-\xff]+) HTTP/1\.(?P<minor>[0-9])"
)
_FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,12})[ \t]*(?:;[^\x00\r]*)?")
_SHOWN_METHOD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardRequest:
    """One request. `body` is the beginning of what came, `body_bytes` and `body_sha256` speak of all of it."""

    method: str
    target: str
    host: str | None = None  # lower-case, without port; None when there is none to rely on
    headers: tuple[Header, ...] = ()  # as they came, names in lower case
    headers_lost: int = 0
    body: bytes = b""
    body_bytes: int = 0
    body_sha256: str | None = None  # None when no byte of a body came
    complete: bool = True
    note: str = ""  # why it is malformed, or what is odd about its host
    closes: bool = False  # the connection ends after its answer
    tunnel: bool = False  # CONNECT: what follows is no HTTP


class RequestReader:
    """Reads requests from bytes as they come; what does not fit HTTP/1 ends the reading, not the connection."""

    def __init__(self, keep: Keep, *, relayed: bool = False) -> None:
        """`keep(have, more)` says how many of `more` bytes of a body to keep, besides `have` of the same body.

        `relayed`: somebody else answers, so what follows an Upgrade may be another protocol and is not read.
        """
        self._keep, self._relayed = keep, relayed
        self._line = bytearray()
        self._take: Callable[[bytes], None] | None = self._start  # takes a line; None: nothing is read any more
        self._left = 0  # bytes of a body, or of a chunk, still to come
        self._chunked = False
        self._done: list[HeardRequest] = []
        self._continue = False
        self._clear()

    def feed(self, data: bytes) -> list[HeardRequest]:
        """The requests that these bytes complete."""
        at = 0
        while at < len(data) and self._take is not None:
            at = self._body(data, at) if self._left else self._lines(data, at)
        done, self._done = self._done, []
        return done

    def finish(self) -> list[HeardRequest]:
        """No more bytes will come: the request that was under way, if any."""
        if self._take is not None and (self._begun is not None or self._line.strip()):
            self._fail("ended")
        done, self._done = self._done, []
        return done

    @property
    def is_reading(self) -> bool:
        """Whether a further request could be read."""
        return self._take is not None

    def take_continue(self) -> bool:
        """Whether a client waits for `100 Continue` before it sends its body; asked once for each."""
        wanted, self._continue = self._continue, False
        return wanted

    def _clear(self) -> None:
        self._begun: HeardRequest | None = None
        self._fields: list[Header] = []
        self._head_bytes = self._body_bytes = 0
        self._kept = bytearray()
        self._full = False
        self._hash: _Hash | None = None

    def _lines(self, data: bytes, at: int) -> int:
        """Take up to one line; the place behind it."""
        newline = data.find(b"\n", at)
        end = len(data) if newline < 0 else newline + 1
        self._head_bytes += end - at
        if self._head_bytes > HEAD_BYTES:
            self._fail("oversized")
            return end
        self._line += data[at:end]
        if newline >= 0 and self._take is not None:
            line = bytes(self._line[:-1]).removesuffix(b"\r")
            self._line.clear()
            self._take(line)
        return end

    def _start(self, line: bytes) -> None:
        """The first line of a request; empty ones before it are skipped (RFC 9112, 2.2)."""
        if not line:
            return
        match = _START.fullmatch(line)
        if match is None:
            words = [_text(word) for word in line.split(None, 2)[:2]]
            method, target = [*words, "", ""][:2]
            self._begun = HeardRequest(method=method[:_SHOWN_METHOD], target=target)
            self._fail("request_line")
            return
        closes = match["minor"] == b"0"
        self._begun = HeardRequest(method=_text(match["method"]), target=_text(match["target"]), closes=closes)
        self._take = self._field

    def _field(self, line: bytes) -> None:
        if not line:
            self._head()
            return
        name, colon, value = line.partition(b":")
        fault = field_fault(line) or ("" if colon and _FIELD_NAME.fullmatch(name) else "field_name")
        if fault:
            self._fail(fault)
        else:
            self._fields.append((name.lower(), value.strip(b" \t")))

    def _head(self) -> None:
        """The head is complete: what follows it decides."""
        fault, length = self._framing()
        if fault:
            self._fail(fault)
            return
        self._head_bytes = 0
        self._continue = b"100-continue" in (value.lower() for value in self._values(b"expect"))
        if self._begun is not None and self._begun.method == "CONNECT":
            self._complete()
        elif self._chunked:
            self._take = self._chunk
        elif length:
            self._left = length
        else:
            self._continue = False
            self._complete()

    def _framing(self) -> tuple[str, int]:
        """What is ambiguous about the length of the body, and the length."""
        codings, lengths = self._values(b"transfer-encoding"), self._values(b"content-length")
        self._chunked = bool(codings)
        if codings and lengths:
            return "length_and_chunked", 0
        if codings:
            plain = len(codings) == 1 and codings[0].lower() == b"chunked"
            fits = plain and not (self._begun is not None and self._begun.closes)
            return "" if fits else "transfer_encoding", 0
        if not lengths:
            return "", 0
        if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
            return "content_length", 0
        return "", int(lengths[0])

    def _values(self, name: bytes) -> list[bytes]:
        return [value for field, value in self._fields if field == name]

    def _body(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._continue = False
        if self._hash is None:
            self._hash = hashlib.sha256()
        self._hash.update(piece)
        self._body_bytes += len(piece)
        if not self._full:
            kept = self._keep(len(self._kept), len(piece))
            self._kept += piece[:kept]
            self._full = kept < len(piece)
        if not self._left:
            if self._chunked:
                self._take = self._chunk_end
            else:
                self._complete()
        return at + len(piece)

    def _chunk(self, line: bytes) -> None:
        match = _CHUNK.fullmatch(line)
        if match is None:
            self._fail("chunk")
            return
        self._head_bytes = 0
        self._left = int(match["size"], 16)
        if not self._left:
            self._take = self._trailer

    def _chunk_end(self, line: bytes) -> None:
        if line:
            self._fail("chunk")
        else:
            self._take = self._chunk

    def _trailer(self, line: bytes) -> None:
        if not line:
            self._complete()

    def _complete(self) -> None:
        """A whole request: give it out, and begin anew."""
        request = self._made()
        words = b",".join(self._values(b"connection")).lower()
        closes = b"close" in words or (request.closes and b"keep-alive" not in words)
        tunnel = request.method == "CONNECT"
        self._done.append(replace(request, closes=closes, tunnel=tunnel))
        switches = self._relayed and self._values(b"upgrade")
        self._take = None if tunnel or switches else self._start
        self._clear()

    def _fail(self, note: str) -> None:
        """Nothing more is read; what was read of the request is given out."""
        self._done.append(replace(self._made(), complete=False, note=note, closes=True))
        self._take, self._left = None, 0
        self._line.clear()
        self._clear()

    def _made(self) -> HeardRequest:
        begun = self._begun or HeardRequest(method="", target=_text(bytes(self._line)))
        hosts = self._values(b"host")
        host = host_of(hosts[0]) if len(hosts) == 1 else None
        note = "" if host is not None else "several_hosts" if len(hosts) > 1 else "host_field" if hosts else "no_host"
        if host is not None and begun.target[:1] not in ("/", "*") and begun.method != "CONNECT":
            note = "absolute_target"
        kept, size = [], 0
        for name, value in self._fields[: limits.HTTP_KEPT_HEADERS]:
            size += len(name) + len(value)
            if size > limits.HTTP_KEPT_HEADERS_BYTES:
                break
            kept.append((name, value))
        return replace(
            begun,
            host=host,
            headers=tuple(kept),
            headers_lost=len(self._fields) - len(kept),
            body=bytes(self._kept),
            body_bytes=self._body_bytes,
            body_sha256=None if self._hash is None else self._hash.hexdigest(),
            note=note,
        )


def _text(data: bytes) -> str:
    return data[: limits.HTTP_KEPT_TARGET_BYTES].decode("ascii", "backslashreplace")
