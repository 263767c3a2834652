"""One small MCP client for every server that is measured: stdio, `initialize`, calls one after the other."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_REVISION = "2025-06-18"
_BUFFER_BYTES = 1 << 16  # what is read at once: as much as an ordinary pipe holds
_TICKS = os.sysconf("SC_CLK_TCK")  # a second
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Client:
    """A started server and a conversation with it."""

    def __init__(
        self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Start it; nothing is said yet."""
        self._process = subprocess.Popen(
            list(argv),
            bufsize=_BUFFER_BYTES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment) if environment is not None else None,
            cwd=cwd,
        )
        self._last = 0

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def initialize(self) -> None:
        """Shake hands."""
        client = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of one request; RuntimeError when it is an error."""
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})
        while True:
            line = self._reading.readline()
            if not line:
                raise RuntimeError(f"the server ended with {self._process.wait()}")
            message = json.loads(line)
            if message.get("id") == self._last and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The result of one tool; RuntimeError when it refused, for then nothing was measured."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {str(result.get('content'))[:300]}")
        return result

    def resident_kib(self) -> int:
        """Resident memory of the server and of everything that it started."""
        return sum(resident(pid) for pid in [self._process.pid, *below(self._process.pid)])

    def cpu_seconds(self) -> float:
        """CPU time so far of the server, and of everything that it started and that has ended or still runs."""
        return sum(_cpu(pid) for pid in [self._process.pid, *below(self._process.pid)])

    def close(self) -> None:
        """End it."""
        self._writing.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.close()

    @property
    def _reading(self) -> IO[bytes]:
        if self._process.stdout is None:
            raise RuntimeError("no stdout")
        return self._process.stdout

    @property
    def _writing(self) -> IO[bytes]:
        if self._process.stdin is None:
            raise RuntimeError("no stdin")
        return self._process.stdin

    def _send(self, message: Mapping[str, Any]) -> None:
        self._writing.write(json.dumps(message).encode() + b"\n")
        self._writing.flush()


def below(pid: int) -> list[int]:
    """Every process that this one started, and those that they did."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            found += [int(child), *below(int(child))]
    return found


def resident(pid: int) -> int:
    """Resident memory of one process in KiB; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_KIB
    except OSError:
        return 0


def proportional(pid: int) -> int:
    """Memory of one process in KiB, each page divided by how many have it; 0 when it has ended, or may not be asked."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _cpu(pid: int) -> float:
    """In nanoseconds of each thread, and in ticks of what has ended below."""
    folder = Path(f"/proc/{pid}")
    try:
        threads = [one.read_text(encoding="ascii").split()[0] for one in folder.glob("task/*/schedstat")]
        ended = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[13:15]
    except OSError:  # it has ended meanwhile, and is counted by who waited for it
        return 0.0
    return sum(map(int, threads)) / 1e9 + sum(map(int, ended)) / _TICKS
