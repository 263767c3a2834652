"""What a client said first on a TCP connection: TLS, HTTP, or something else. Pure, bounded, never raises."""

from dataclasses import dataclass

from fumehood.observe.http import NotHttp, parse_request
from fumehood.observe.tls import HANDSHAKE, RECORD_TYPES, parse_client_hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first bytes, read. `server_name` is the SNI or the one Host, None when there is none to rely on."""

    kind: str  # "tls", "http", "other"
    server_name: str | None = None
    request_line: str | None = None
    note: str = ""  # "ech", "malformed", or why an HTTP host is ambiguous


def parse_hello(data: bytes) -> Hello | None:
    """Read the first bytes of a client, or None when more are needed to tell."""
    if not data:
        return None
    if data[0] == HANDSHAKE:
        hello = parse_client_hello(data)
        return None if hello is None else Hello(kind="tls", server_name=hello.server_name, note=hello.note)
    if data[0] in RECORD_TYPES and data[1:2] in (b"", b"\3"):
        return Hello(kind="tls", note="malformed") if len(data) > 1 else None
    request = parse_request(data)
    if request is None:
        return None
    if isinstance(request, NotHttp):
        return Hello(kind="other")
    return Hello(kind="http", server_name=request.host, request_line=request.line, note=request.ambiguous)
