"""The first request of an HTTP/1 client (RFC 9112): its line and the host it names. Pure, bounded, never raises.

What two servers could read differently is ambiguous, and an ambiguous request names no host: two Host fields, a folded
line, a space before the colon, an absolute target, CONNECT. Later requests are read by `observe.requests`.
"""

import re
from dataclasses import dataclass

HEAD_BYTES = 32 * 1024
LINE_CHARACTERS = 512  # of the request line that is kept
# So far one word of a method's characters (RFC 9110, 5.6.2), then text: the rest of the line decides.
_LINE_PREFIX = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t][\t\r -~\x80-\xff]*)?\Z")
_VERSION = re.compile(rb"HTTP/[0-9]", re.IGNORECASE)
_SIMPLE = re.compile(rb"(?:GET|HEAD)[ \t]")
_HEAD_END = re.compile(rb"\n\r?\n")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,64}\]|[^\[\]:]{1,253})(?::[0-9]{0,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A first request. `host` is lower-case without port and trailing dot; None when there is none or `ambiguous`."""

    line: str
    host: str | None
    ambiguous: str = ""


class NotHttp:
    """These bytes are not the start of an HTTP/1 request."""


NOT_HTTP = NotHttp()


def parse_request(data: bytes) -> Request | NotHttp | None:
    """The first request in `data`, NOT_HTTP, or None when more bytes are needed.

    A complete first line decides: text protocols whose client waits after one line (SMTP, FTP, IMAP) are not held up.
    Empty lines before the request line are skipped, as servers do (RFC 9112, 2.2), and blanks, as some do.
    """
    start = data.lstrip(b"\r\n\t ")
    line, newline, rest = start.partition(b"\n")
    if not newline:
        return None if not line or _LINE_PREFIX.match(line) else NOT_HTTP
    line = line.removesuffix(b"\r")
    versioned = _VERSION.search(line)
    if not versioned and not _SIMPLE.match(line):
        return NOT_HTTP
    text = line[:LINE_CHARACTERS].decode("ascii", "backslashreplace")
    if not versioned:
        return Request(line=text, host=None, ambiguous="no_version")  # HTTP/0.9: one line, no fields
    end = _HEAD_END.search(newline + rest)
    if end is None:
        return Request(line=text, host=None, ambiguous="oversized") if len(data) > HEAD_BYTES else None
    return _fields(text, line, (newline + rest)[1 : end.start() + 1])


def _fields(text: str, line: bytes, head: bytes) -> Request:
    hosts: list[bytes] = []
    for raw in head.split(b"\n"):
        field = raw.removesuffix(b"\r")
        if fault := field_fault(field):
            return Request(line=text, host=None, ambiguous=fault)
        name, _, value = field.partition(b":")
        if name.lower() == b"host":
            hosts.append(value)
    target = line.split(None, 2)[1:2]
    if not (target and target[0][:1] in (b"/", b"*")):
        return Request(line=text, host=None, ambiguous="absolute_target")
    if len(hosts) != 1:
        return Request(line=text, host=None, ambiguous="several_hosts" if hosts else "no_host")
    host = host_of(hosts[0])
    return Request(line=text, host=host, ambiguous="" if host is not None else "host_field")


def host_of(value: bytes) -> str | None:
    """The host that the value of a Host field names, lower-case without port and trailing dot, or None."""
    match = _HOST.fullmatch(value.strip(b" \t").decode("ascii", "backslashreplace").lower())
    return None if match is None else match[1].strip("[]").removesuffix(".")


def field_fault(field: bytes) -> str:
    """What makes one field line readable in two ways, or nothing."""
    if field[:1] in (b" ", b"\t"):
        return "folded_line"
    if b"\r" in field or b"\0" in field:
        return "control_character"
    name, colon, _ = field.partition(b":")
    if name.strip().lower() == b"host" and (name != name.strip() or not colon):
        return "host_field"
    return ""
