"""Talk to a real `fumehood serve`: one line out, the line of the same id back."""

import http.client
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

SECONDS = 60.0  # for one answer on a busy machine
FUMEHOOD = str(Path(sys.executable).parent / "fumehood")
_ERA = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Talk:
    """A server process on stdio, and a conversation in one era."""

    def __init__(self, root: Path, *, modern: bool = False, environment: Mapping[str, str] | None = None) -> None:
        """Start it over `root`."""
        self.modern = modern
        self.process = subprocess.Popen(
            [FUMEHOOD, "serve", "--workspace", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})},
            bufsize=0,
        )
        self.lines = 0  # that came back
        self._held = b""
        self._last = 0

    def __enter__(self) -> Self:
        """Shake hands."""
        if self.modern:
            self.request("server/discover")
        else:
            client = {"name": "test", "version": "1"}
            self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and reap it."""
        self.close()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The whole answer to one call, its id and envelope left out."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        return answer.get("result", answer.get("error"))

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of one request."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to one request, result or error."""
        self._last += 1
        meta = {"_meta": _ERA} if self.modern else {}
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": {**(params or {}), **meta}})
        while True:
            answer: dict[str, Any] = json.loads(self.line())
            if answer.get("id") == self._last:
                return answer

    def send(self, message: Mapping[str, Any]) -> None:
        """One line to the server."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def line(self) -> bytes:
        """The next line from the server; AssertionError when there is none."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self._held:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "no answer in time"
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            assert chunk, f"the server ended: {self.process.wait(SECONDS)}: {self.stderr()}"
            self._held += chunk
        line, _, self._held = self._held.partition(b"\n")
        self.lines += 1
        return line

    def stderr(self) -> str:
        """What the server wrote to stderr; to be asked once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode("utf-8", "replace")

    def close(self) -> int:
        """Say that nothing more comes, and wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
            self.process.stderr.close()
        return status


class HttpTalk:
    """A server process on loopback, and one connection to it."""

    def __init__(self, root: Path, *, modern: bool = False, environment: Mapping[str, str] | None = None) -> None:
        """Start it over `root`, on any free port."""
        self.modern = modern
        self.process = subprocess.Popen(
            [FUMEHOOD, "serve", "--workspace", str(root), "--transport", "http", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})},
        )
        self._last = 0

    def __enter__(self) -> Self:
        """Wait until it says where it listens."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(rb"http://127\.0\.0\.1:(\d+)/mcp", line):
                self._connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=SECONDS)
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self
        raise AssertionError(f"it ended with {self.process.wait()}")

    def __exit__(self, *_: object) -> None:
        """End it, and reap it."""
        self._connection.close()
        self.process.terminate()
        self.process.wait(SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The whole answer to one call, its id and envelope left out."""
        self._last += 1
        meta = {"_meta": _ERA} if self.modern else {}
        params = {"name": tool, "arguments": arguments, **meta}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers["MCP-Protocol-Version"] = "2026-07-28" if self.modern else "2025-06-18"
        if self.modern:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        body = {"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params}
        self._connection.request("POST", "/mcp", json.dumps(body), headers)
        answer = json.loads(self._connection.getresponse().read())
        return answer.get("result", answer.get("error"))
