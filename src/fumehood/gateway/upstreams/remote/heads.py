"""The head of each request, and what the head of an answer says about its body. Pure.

Invariants: the headers of a request agree with its body; none can hold a line end, whatever a tool or a resource is
called. An answer is read where its head names one of two content types once and no encoding; a redirect is followed by
nobody, for it would take the credential and the request elsewhere; cookies are neither kept nor sent. Errors are in our
words: those of a server go to the log, inert and cut.

Sources: the MCP specification 2026-07-28 and 2025-11-25, Streamable HTTP; RFC 9110, 15 (status codes).
"""

import base64
import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.guard.seen import visible
from fumehood.gateway.upstreams.envelope import Speaks
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.credentials import Credentials, Header
from fumehood.gateway.upstreams.remote.place import Place, origin_of

BOTH: Final = b"application/json, text/event-stream"
STREAM: Final = b"text/event-stream"
SESSION: Final = b"Mcp-Session-Id"

_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED: Final = re.compile(r"=\?base64\?.*\?=")
_SESSION: Final = re.compile(rb"[\x21-\x7e]+")
_OK: Final = 200
_NOTHING: Final = frozenset({202, 204})
_REDIRECTS: Final = range(300, 400)
_MAY_EXPLAIN: Final = range(400, 500)  # by an error of JSON-RPC
_NO_ANSWER: Final = "the server did not answer as one of MCP does"
_UNAUTHORIZED: Final = {401: "asks who we are, or does not know our token", 403: "does not let us in"}
_OF_EITHER_ERA: Final = frozenset({401, 403, 407, 408, 429})  # about who asks, or when
_NOT_IMPLEMENTED: Final = 501
_WORDS: Final = {
    404: "there is no server of MCP at this url",
    405: "what is at this url takes no messages of MCP",
    406: "the server does not send JSON and event streams",
    408: "the server waited too long for the request",
    413: "the request is larger than the server takes",
    415: "the server takes no JSON",
    421: "the server does not serve this host name",
    426: "the server wants another protocol",
    429: "the server was asked too often",
    500: "the server failed",
    501: "the server does not do this",
    502: "what stands before the server does not reach it",
    503: "the server does not serve at the moment",
    504: "what stands before the server waited too long for it",
}


class Content(enum.Enum):
    """What the body of an answer is."""

    MESSAGE = "message"
    EVENTS = "events"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The head of an answer."""

    status: int
    headers: tuple[Header, ...]

    def all(self, name: bytes) -> list[bytes]:
        """The values of a header, by its lower-case name."""
        return [value.strip(b" \t") for one, value in self.headers if one.lower() == name]


class StatusError(UpstreamError):
    """A status that is no answer of the protocol. `status` is the number."""

    def __init__(self, message: str, *, remedy: str = "", status: int = 0) -> None:
        """Keep the number; who says the same in other words may leave it out."""
        super().__init__(message, remedy=remedy)
        self.status = status


def common(place: Place, known: Credentials, version: str, accept: bytes = BOTH) -> tuple[Header, ...]:
    """What every request to a server carries."""
    return (
        (b"Host", place.authority.encode("ascii")),
        (b"User-Agent", f"fumehood/{version}".encode("ascii", "replace")),
        (b"Accept", accept),
        (b"Accept-Encoding", b"identity"),
        *known.headers,
    )


def described(body: bytes) -> tuple[Header, ...]:
    """What describes a body."""
    return (b"Content-Type", b"application/json"), (b"Content-Length", str(len(body)).encode("ascii"))


def mirrored(speaks: Speaks, method: str, params: JsonObject) -> tuple[Header, ...]:
    """What a request of the modern era says of its body, so that who stands between can route by it."""
    version: Header = (b"MCP-Protocol-Version", speaks.revision.encode("ascii"))
    if speaks.era == "legacy":
        return () if method == "initialize" else (version,)
    named = params.get(_NAMED_BY.get(method, ""))
    name = ((b"Mcp-Name", encoded(named)),) if isinstance(named, str) else ()
    return (version, (b"Mcp-Method", encoded(method)), *name)


def encoded(text: str) -> bytes:
    """A value as a header carries it: base64 where plain ASCII would not come through unchanged."""
    if _PLAIN.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text.encode("ascii")
    return b"=?base64?" + base64.b64encode(text.encode("utf-8", "surrogatepass")) + b"?="


def session_of(head: Answered) -> bytes | None:
    """The session that a server begins, None where it begins none. Errors: `UpstreamError`."""
    match head.all(SESSION.lower()):
        case []:
            return None
        case [one] if _SESSION.fullmatch(one) and len(one) <= limits.REMOTE_SESSION_CHARACTERS:
            return one
        case _:
            raise UpstreamError("the server began a session whose id is none")


def content(head: Answered, place: Place) -> Content:
    """What the body of an answer is. Errors: `UpstreamError`, of them `StatusError` where the status is no answer.

    A refusal with a JSON body is a message: it may hold an error of JSON-RPC.
    """
    if sum(len(name) + len(value) + 4 for name, value in head.headers) > limits.HTTP_HEAD_BYTES:
        raise UpstreamError("the server's headers are larger than is read")
    if head.status in _REDIRECTS:
        raise _redirected(head, place)
    if head.status in _UNAUTHORIZED:
        raise unexplained(head.status)
    if head.status in _NOTHING:
        return Content.NOTHING
    kind = _content_type(head)
    if head.status == _OK and kind == b"text/event-stream":
        return Content.EVENTS
    if kind == b"application/json" and (head.status == _OK or head.status in _MAY_EXPLAIN):
        return Content.MESSAGE
    if head.status != _OK:
        raise unexplained(head.status)
    raise UpstreamError(_NO_ANSWER, remedy="its content type is neither JSON nor an event stream: check url")


def unexplained(status: int) -> StatusError:
    """The error of a status whose body explains nothing."""
    if status in _UNAUTHORIZED:
        remedy = "set token_env or token_file of this server to a token that it takes"
        return StatusError(f"the server {_UNAUTHORIZED[status]} ({status})", remedy=remedy, status=status)
    return StatusError(f"{_WORDS.get(status, _NO_ANSWER)} ({status})", status=status)


def shown(words: str | bytes) -> str:
    """The beginning of a server's words, for the log of the operator: one line, and nothing that a terminal obeys."""
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return ascii(visible(text[: limits.REMOTE_SHOWN_CHARACTERS], limits.REMOTE_SHOWN_CHARACTERS).text)[1:-1]


def is_legacy_refusal(status: int) -> bool:
    """Whether a status, without an error of the modern era in the body, means a server that knows `initialize` only."""
    return (status in _MAY_EXPLAIN and status not in _OF_EITHER_ERA) or status == _NOT_IMPLEMENTED


def _redirected(head: Answered, place: Place) -> StatusError:
    there = origin_of(location[0], place) if len(location := head.all(b"location")) == 1 else "what is no HTTP origin"
    remedy = "set url to where the server is"
    words = f"the server redirects to {there}, which is not followed ({head.status})"
    return StatusError(words, remedy=remedy, status=head.status)


def _content_type(head: Answered) -> bytes:
    _refuse_encoded(head.all(b"content-encoding"))
    match head.all(b"content-type"):
        case [one]:
            return one.partition(b";")[0].strip(b" \t").lower()
        case _:
            return b""


def _refuse_encoded(encodings: Iterable[bytes]) -> None:
    if any(one.lower() != b"identity" for one in encodings):
        raise UpstreamError("the server compressed its answer although that was declined", remedy="check url")
