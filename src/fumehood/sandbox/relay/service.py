"""The relay of one sandbox: it owns the listeners that were opened inside, and connects outside by what was decided.

Nothing of it runs inside the sandbox. A flood is bounded and counted, what waits has a deadline, and `stop` records
what was still under way: a target that fires and exits at once leaves its attempt behind.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Final

from fumehood.sandbox.egress import EgressReport, Inspect, Mode, Policy
from fumehood.sandbox.relay.answering import Answering
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.connection import Connection
from fumehood.sandbox.relay.engine import Engine, reset
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.relay.recorder import Recorder

_BURST = 128  # clients accepted before others have the loop
_DRAIN = 32  # bursts accepted at the end: the listeners' backlog
_SWEEP_SECONDS: Final = 0.5
_WORLD: Final = World()
_BOUNDS: Final = RelayBounds()


class Relay:
    """Serves the sockets of `netns.Inside`. Start it before the child is released; stopping it closes the sockets."""

    def __init__(
        self,
        policy: Policy,
        sockets: Mapping[str, socket.socket],
        inspect: Inspect,
        *,
        world: World = _WORLD,
        bounds: RelayBounds = _BOUNDS,
    ) -> None:
        """Take over the sockets. Needs a running loop."""
        self._sockets = dict(sockets)
        self._engine = Engine(policy, inspect, world, bounds)
        self._loop = asyncio.get_running_loop()
        self._answering = Answering(self._engine)
        ports = frozenset(int(label.partition(":")[2]) for label in sockets if label.startswith("plain"))
        self._recorder = Recorder(self._engine, ports)
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._leaving = 0  # of them: cut, and not ended yet
        self._questioners: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._report: EgressReport | None = None

    def start(self) -> None:
        """Begin to serve."""
        for label, opened in self._sockets.items():
            opened.settimeout(0)
            self._watch(label, opened)
        self._sweeper = self._loop.create_task(self._sweep_for_ever())

    async def stop(self) -> EgressReport:
        """Record what is left, end everything, close the sockets. A second call gives the same report."""
        if self._report is None:
            for label, opened in self._sockets.items():
                self._loop.remove_reader(opened)
                self._drain(label, opened)
            tasks = [*self._connections, *self._questioners, *self._answering.tasks]
            tasks += [self._sweeper] if self._sweeper else []
            await asyncio.sleep(0)  # a task that was cancelled before it began would leave its client open
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for opened in self._sockets.values():
                opened.close()
            records = self._engine.records
            self._report = EgressReport(records=records.kept, lost=records.lost, started_at=self._engine.started_at)
        return self._report

    def sweep(self) -> None:
        """End connections that have been idle, or have lived, for too long."""
        now, bounds = self._engine.clock.monotonic(), self._engine.bounds
        for task, connection in self._connections.items():
            if now - connection.active > bounds.idle_seconds:
                connection.cut_because = "idle"
            elif now - connection.born > bounds.life_seconds:
                connection.cut_because = "life"
            else:
                continue
            task.cancel()

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.sweep()

    def _watch(self, label: str, opened: socket.socket) -> None:
        self._loop.add_reader(opened, self._reader(label), opened)

    def _reader(self, label: str) -> Callable[[socket.socket], None]:
        if label.startswith("udp"):
            return self._answering.read
        if label.startswith("dns"):
            return self._accept_questioner
        return self._recorder.read if label.startswith("packet") else self._accept_client

    def _drain(self, label: str, opened: socket.socket) -> None:
        if label.startswith("udp"):
            self._answering.drain(opened)
        elif label.startswith("packet"):
            self._recorder.finish(opened)
        elif not label.startswith("dns"):
            for _ in range(_DRAIN):
                for client in (clients := self._accepted(opened)):
                    Connection(self._engine, client).refuse("stopped")
                if not clients:
                    break

    def _accept_client(self, listener: socket.socket) -> None:
        for client in self._accepted(listener):
            connection = Connection(self._engine, client)
            if len(self._connections) - self._leaving >= self._engine.bounds.connections and not self._made_room():
                connection.refuse("too_many_connections")
                continue
            task = self._loop.create_task(connection.run())
            self._connections[task] = connection
            task.add_done_callback(self._forget)

    def _made_room(self) -> bool:
        """Where we answer ourselves, cut the connection that has been idle the longest.

        Many silent ones would otherwise keep out whoever has something to say. One that has not begun is left: a task
        that is cancelled before it began records nothing.
        """
        if self._engine.policy.mode is not Mode.SINKHOLE:
            return False
        staying = [task for task, c in self._connections.items() if c.has_begun and not c.is_leaving]
        if not staying:
            return False
        task = min(staying, key=lambda one: self._connections[one].active)
        connection = self._connections[task]
        connection.cut_because, connection.is_leaving = "crowded", True
        self._leaving += 1
        task.cancel()
        return True

    def _accept_questioner(self, listener: socket.socket) -> None:
        for client in self._accepted(listener):
            if len(self._questioners) >= self._engine.bounds.dns_connections:
                self._engine.records.lose("dns over_limit")
                reset(client)
                continue
            task = self._loop.create_task(self._answering.serve(client))
            self._questioners.add(task)
            task.add_done_callback(self._questioners.discard)

    def _forget(self, task: asyncio.Task[None]) -> None:
        connection = self._connections.pop(task, None)
        self._leaving -= connection is not None and connection.is_leaving

    def _accepted(self, listener: socket.socket) -> list[socket.socket]:
        """A burst of waiting clients. When descriptors have run out the listener is left alone for a moment."""
        clients: list[socket.socket] = []
        for _ in range(_BURST):
            try:
                client, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # EMFILE and its kin: the listener stays readable, and the loop would spin
                self._engine.records.lose("tcp not_accepted")
                self._pause(listener)
                break
            client.settimeout(0)
            clients.append(client)
        return clients

    def _pause(self, listener: socket.socket) -> None:
        label = next(name for name, opened in self._sockets.items() if opened is listener)
        if not self._loop.remove_reader(listener):
            return  # stopping

        def resume() -> None:
            if listener.fileno() >= 0 and self._report is None:
                with contextlib.suppress(OSError):
                    self._watch(label, listener)

        self._loop.call_later(self._engine.bounds.pause_seconds, resume)
