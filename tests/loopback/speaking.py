"""A client of a real server process over its standard input and output, which shows every line as it came."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

FIXTURES = Path(__file__).parents[1] / "fixtures"
SMALL = [sys.executable, str(FIXTURES / "published" / "small.py")]
_PATIENCE = 60.0  # a busy machine

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "speaker", "version": "1"},
}
ERAS = ("legacy", "modern")


class Speaker:
    """Owns the process. `lines` is everything that stdout has given so far, `answers` the same by id and its type."""

    def __init__(self, command: Sequence[str], era: str) -> None:
        self.era = era
        self.lines: list[bytes] = []
        self.answers: dict[tuple[type, Any], dict[str, Any]] = {}
        self._rest = b""
        self._last = 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )

    def open(self) -> dict[str, Any]:
        """The first exchange of the era; its result."""
        if self.era == "modern":
            return self.result("server/discover", {})
        result = self.result("initialize", INITIALIZE)
        self.tell("notifications/initialized")
        return result

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin
        rest = memoryview(data)
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def ask(self, method: str, params: dict[str, Any] | None = None, *, ident: Any = None) -> Any:
        """Send a request; its id."""
        if ident is None:
            self._last += 1
            ident = self._last
        given = dict(params or {})
        if self.era == "modern":
            given["_meta"] = {**ENVELOPE, **given.get("_meta", {})}
        self.raw(json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": given}).encode() + b"\n")
        return ident

    def call(self, name: str, arguments: dict[str, Any] | None = None, *, ident: Any = None) -> Any:
        """Send a call; its id."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}}, ident=ident)

    def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        more = {} if params is None else {"params": params}
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode() + b"\n")

    def answer(self, ident: Any) -> dict[str, Any]:
        """Wait for the answer of one request; the last one, should there be several."""
        while (type(ident), ident) not in self.answers:
            assert self._read(), f"the server ended before it answered {ident!r}"
        return self.answers[type(ident), ident]

    def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask and wait."""
        answer = self.answer(self.ask(method, params))
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def finish(self) -> tuple[int, list[dict[str, Any]], str]:
        """Close stdin and read to the end: status, every message of stdout, stderr."""
        assert self.process.stdin
        assert self.process.stderr
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        while self._read():
            pass
        assert self._rest == b""
        said = self.process.stderr.read().decode()
        return self.process.wait(timeout=_PATIENCE), [json.loads(line) for line in self.lines], said

    def stderr_line(self) -> str:
        """The next line of stderr."""
        assert self.process.stderr
        assert select.select([self.process.stderr], [], [], _PATIENCE)[0], "stderr stays silent"
        line = b""
        while not line.endswith(b"\n") and (byte := self.process.stderr.read(1)):
            line += byte
        return line.decode()

    def _read(self) -> bool:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], _PATIENCE)[0]:
            raise AssertionError(f"stdout stays silent after {self.lines[-3:]!r}")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines += whole
        for message in map(json.loads, whole):
            self.answers[type(message.get("id")), message.get("id")] = message
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(timeout=_PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def wait_until(true: Any, seconds: float = _PATIENCE) -> None:
    """Wait for something that another process brings about."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.01)
