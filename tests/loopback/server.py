"""A small HTTP server on loopback, in threads that end with it.

Holds: it listens on 127.0.0.1 only; after `with` its port is closed and none of its threads runs. Every read has a
bound and every idle connection a deadline. What it answers is decided by `answer`, a plain function.
"""

import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

BODY_BYTES = 64 * 1024 * 1024  # a git request with 64,000 negotiated commits is under 4 MiB
IDLE_SECONDS = 30.0  # npm keeps a connection for 15 s at most
POLL_SECONDS = 0.05  # how late `serve_forever` notices that it has to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, read whole."""

    method: str
    target: str  # path and query as sent
    headers: Message
    body: bytes = b""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark."""
        return self.target.partition("?")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer. A body that is not bytes is streamed and ends with the connection."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | Iterable[bytes] = b""
    drop: bool = False  # close the connection without an answer


Answer = Callable[[Request], Response]


@dataclass
class _Open:
    """The connections that are open now."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    sockets: set[socket.socket] = field(default_factory=set)

    def add(self, connection: socket.socket) -> None:
        with self.lock:
            self.sockets.add(connection)

    def discard(self, connection: socket.socket) -> None:
        with self.lock:
            self.sockets.discard(connection)

    def cut(self) -> None:
        with self.lock:
            for connection in self.sockets:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was quicker


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: "_Http"

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        try:
            super().finish()
        except OSError:
            self.close_connection = True  # the other side left in the middle of an answer

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # reset, broken pipe, or cut by `stop`

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_BYTES or "chunked" in self.headers.get("Transfer-Encoding", ""):
            self.close_connection = True
            self._send(Response(status=411 if length <= BODY_BYTES else 413))
            return
        body = self.rfile.read(length)
        request = Request(method=self.command, target=self.path, headers=self.headers, body=body)
        with self.server.open.lock:
            self.server.requests.append(request)
        self.server.asked.set()
        self._send(self.server.answer(request))

    def _send(self, response: Response) -> None:
        if response.drop:
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in response.headers:
            self.send_header(name, value)
        if isinstance(response.body, bytes):
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)
            return
        self.close_connection = True
        self.send_header("Connection", "close")
        self.end_headers()
        for part in response.body:
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        del format, args


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 256

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.open = _Open()
        self.requests: list[Request] = []
        self.asked = threading.Event()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept, in the accepting thread: after `shutdown` no connection is unknown to `cut`."""
        connection, address = super().get_request()
        self.open.add(connection)
        return connection, address


class LoopbackServer:
    """Answers with `self.answer`, which a subclass gives, while its `with` block runs."""

    def __init__(self) -> None:
        self.stopping = threading.Event()  # a slow answer waits for this, never for a time alone
        self._http = _Http(self.answer)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(POLL_SECONDS,), name="loopback")

    def answer(self, request: Request) -> Response:
        """What to say to one request. Called in the connection's own thread."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The base address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> threading.Event:
        """Set when the first request has arrived: what a test waits for before it interrupts."""
        return self._http.asked

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of arrival."""
        with self._http.open.lock:
            return list(self._http.requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.open.cut()
        self._http.server_close()  # joins the threads of the connections
        self._thread.join()


class RefusedPort:
    """A port that is held but does not listen: every connection is refused, and nobody else can take it."""

    def __enter__(self) -> str:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
