import asyncio
import errno
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.core.sections import HttpSettings
from fumehood.wire import listener, sockets
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.asgi import Receive, Scope, Send
from fumehood.wire.listener import Room, Served
from fumehood.wire.opening import open_listener


class Connection:
    def __init__(self, *, busy: bool) -> None:
        self.busy = busy
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


def room(*inside: Connection, most: int) -> Room:
    made = Room(most)
    for connection in inside:
        assert made.enter(cast("Any", connection))
    return made


def test_the_oldest_idle_connection_gives_way() -> None:
    busy, old, young, new = (Connection(busy=b) for b in (True, False, False, False))
    full = room(busy, old, young, most=3)
    assert full.enter(cast("Any", new))
    assert [one.aborted for one in (busy, old, young, new)] == [0, 1, 0, 0]
    assert len(full) == 3


def test_where_everybody_is_busy_the_newcomer_does_not_get_in() -> None:
    busy, new = Connection(busy=True), Connection(busy=False)
    full = room(busy, most=1)
    assert not full.enter(cast("Any", new))
    assert busy.aborted == 0
    full.leave(cast("Any", busy))
    full.leave(cast("Any", busy))
    assert full.enter(cast("Any", new))


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


def served(app: Any = nothing, **more: Any) -> Served:
    return Served(app=app, rates=Admission(Bounds()), **more)


def test_places_and_notes_are_announced_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    stop.set()
    opened = open_listener(HttpSettings(port=0), production=False)
    place = opened.places[0]
    assert listener.run(opened, served(stop=stop)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no token" in err.splitlines()[0]
    assert err.splitlines()[1].endswith(place)
    assert opened.sockets[0].fileno() == -1


def test_an_application_that_does_not_start_is_our_own_fault() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    opened = open_listener(HttpSettings(port=0), production=False)
    with pytest.raises(HarnessError, match="did not start"):
        listener.run(opened, served(fails))
    opened.close()


def test_a_listener_whose_descriptors_run_out_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_PAUSE_SECONDS", 0.0)
    accepted: list[socket.socket] = []

    async def main() -> None:
        failures = iter([OSError(errno.EMFILE, "Too many open files")])
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        real = loop.sock_accept

        async def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
            for failure in failures:
                raise failure
            found = await real(listening)
            accepted.append(found[0])
            stop.set()
            return found

        monkeypatch.setattr(loop, "sock_accept", accept)
        opened = open_listener(HttpSettings(port=0), production=False)
        with socket.create_connection(opened.sockets[0].getsockname()):
            await listener.serve(opened, served(stop=stop, announce=lambda _: None))

    asyncio.run(main())
    assert len(accepted) == 1


def test_a_listener_that_cannot_accept_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def accept(_: socket.socket) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", accept)
        opened = open_listener(HttpSettings(port=0), production=False)
        async with asyncio.timeout(20):
            assert await listener.serve(opened, served(announce=lambda _: None)) == 0

    asyncio.run(main())


def test_a_peer_that_nobody_can_tell_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_: socket.socket) -> int:
        raise OSError

    monkeypatch.setattr(sockets, "peer_uid", fails)
    opened = open_listener(HttpSettings(unix_socket=str(tmp_path / "s")), production=False)
    try:
        server = listener._Server(opened, cast("Any", SimpleNamespace()), served())
        assert not server._is_known(cast("Any", None))
    finally:
        opened.close()


def test_a_second_signal_does_not_wait() -> None:
    opened = open_listener(HttpSettings(port=0), production=False)
    try:
        server = listener._Server(opened, cast("Any", SimpleNamespace()), served())
        server._stop(15)
        assert (server.should_exit, server.force_exit, server.signalled) == (True, False, 15)
        server._stop(2)
        assert (server.should_exit, server.force_exit, server.signalled) == (True, True, 15)
    finally:
        opened.close()
