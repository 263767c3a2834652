"""What a sinkhole says. Pure: constants, so that nothing of a target or of this host is in them.

An ordinary client goes on after `200` with an empty JSON object: most read JSON, those that do not care take any 2xx,
and an object has no field that could be believed. TLS is ended with an alert that says that the fault is the server's:
`handshake_failure` would make some clients try again with less.
"""

from fumehood.sandbox.egress import Heard

TLS_ALERT = bytes.fromhex("15 0303 0002 02 50")  # RFC 8446, 6: fatal, internal_error
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"
_BODY = b"{}"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n" % (
    len(_BODY),
    b"%s",
)
_MALFORMED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def reply(request: Heard, *, last: bool = False) -> bytes:
    """The answer to one request. `last`: the connection ends here, whatever the request says."""
    if request.tunnel:
        return _TUNNEL
    if not request.complete:
        return _MALFORMED
    head = _HEAD % (b"close" if last or request.closes else b"keep-alive")
    return head if request.method == "HEAD" else head + _BODY
