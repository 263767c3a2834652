"""Who is asked in `bench/gateway.py`: a server alone, behind FastMCP's proxy, behind the gateway, over each wire."""

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import peers
from mcpclient import Client
from mcphttp import Client as HttpClient

HERE = Path(__file__).parent
FUMEHOOD = str(Path(sys.executable).parent / "fumehood")
_START_SECONDS = 60.0
_CONFIG = """
[gateway]
show = "{show}"
names = "{names}"
"""
_SERVER = """
[servers.{name}]
command = {command}
folder = "/"
reads = ["*"]
egress = []
[servers.{name}.policy]
allow_read = {allow_read}
"""


class Asked(Protocol):
    """A conversation that is open."""

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The result of one tool."""
        ...

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of one request."""
        ...


@dataclass(frozen=True, slots=True)
class Server:
    """A server to stand before: its command, and what it has to read."""

    name: str
    command: list[str]
    reads: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Listening:
    """Somebody who listens on loopback."""

    pid: int
    port: int


def everything() -> Server:
    """A server of npm with one tool of every kind. Errors: those of `peers.fetched_everything`."""
    modules, node = peers.fetched_everything(), peers.node_path()
    script = modules / "@modelcontextprotocol/server-everything/dist/index.js"
    return Server("server-everything", [str(node), str(script), "stdio"], (node.parent.parent, modules))


def plain(tools: int = 1) -> Server:
    """A server that only the Python SDK makes."""
    environment = Path(sys.executable).parent.parent
    return Server("Python SDK", [sys.executable, str(HERE / "toolsdk.py"), str(tools)], (environment, HERE))


@contextlib.contextmanager
def alone(server: Server) -> Iterator[Client]:
    """Nobody stands between."""
    with _talking(Client(peers.as_ordinary_user(server.command), environment=_environment())) as client:
        yield client


@contextlib.contextmanager
def proxied(server: Server) -> Iterator[Client]:
    """FastMCP's proxy on stdio."""
    with _talking(Client(_peer("stdio", server), environment=_peers_environment())) as client:
        yield client


@contextlib.contextmanager
def proxied_http(server: Server) -> Iterator[Listening]:
    """FastMCP's proxy, which listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _started(_peer(str(port), server), _peers_environment()) as process:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield Listening(process.pid, port)


@contextlib.contextmanager
def gateway(folder: Path, *servers: Server, show: str = "direct") -> Iterator[Client]:
    """The gateway on stdio."""
    argv = [FUMEHOOD, "gateway", "--config", str(_config(folder, servers, show))]
    with _talking(Client(argv, environment=_our_environment(folder))) as client:
        yield client


@contextlib.contextmanager
def gateway_http(folder: Path, *servers: Server, show: str = "direct") -> Iterator[Listening]:
    """The gateway, which listens."""
    argv = [FUMEHOOD, "gateway", "--config", str(_config(folder, servers, show)), "--transport", "http", "--port", "0"]
    with _started(argv, _our_environment(folder), stderr=subprocess.PIPE) as process:
        assert process.stderr
        for line in process.stderr:
            if found := re.search(rb"serving at http://127\.0\.0\.1:(\d+)/", line):
                yield Listening(process.pid, int(found[1]))
                return
        raise RuntimeError(f"the gateway ended with {process.wait()}")


@contextlib.contextmanager
def asking(listening: Listening, runner: asyncio.Runner) -> Iterator[HttpClient]:
    """A conversation over HTTP."""
    with contextlib.closing(HttpClient(listening.port, runner)) as client:
        yield client


def _config(folder: Path, servers: Sequence[Server], show: str) -> Path:
    names = "plain" if len(servers) == 1 else "prefixed"
    text = _CONFIG.format(show=show, names=names)
    for number, one in enumerate(servers, start=1):
        reads = json.dumps([str(path) for path in one.reads])
        text += _SERVER.format(name=f"s{number}", command=json.dumps(one.command), allow_read=reads)
    own = folder / str(len(list(folder.iterdir())))  # with pins of its own
    own.mkdir(mode=0o700)
    file = own / "gateway.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}


def _peers_environment() -> dict[str, str]:
    return {**_environment(), "PYTHONPATH": str(peers.fetched_code()), "PYTHONDONTWRITEBYTECODE": "1"}


def _our_environment(folder: Path) -> dict[str, str]:
    """A home of the benchmark's own: no settings of whoever measures."""
    return {**_environment(), "HOME": str(folder)}


def _peer(where: str, server: Server) -> list[str]:
    script = str(HERE / "gatewaypeer.py")
    return peers.as_ordinary_user([sys.executable, script, where, *server.command])


@contextlib.contextmanager
def _talking(client: Client) -> Iterator[Client]:
    with contextlib.closing(client):
        client.initialize()
        yield client


@contextlib.contextmanager
def _started(
    argv: list[str], environment: dict[str, str], stderr: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr:
            process.stderr.close()
