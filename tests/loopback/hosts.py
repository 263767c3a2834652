"""A host for tests: lists that have pages, tools that wait, ask, report and fail, and what became of each request."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire.hosting import CannotAskError, Changed, HostError, Question, Request

TESTS = Path(__file__).parents[1]
# `python -c SCRIPT FOLDER`: the host over standard input and output.
SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); from loopback import hosts; hosts.main()"
COMMAND = [sys.executable, "-c", SCRIPT, str(TESTS)]
PAGE = 10
NAMES = ("echo", "wait", "ask", "ask_twice", "ask_then_wait", "report", "fail", "refuse", "change", "who", "plain")
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
    "required": ["sure"],
}


def tool(name: str) -> JsonObject:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}}


def say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def text(words: str, **more: JsonValue) -> JsonObject:
    return {"content": [{"type": "text", "text": words}], **more}


@dataclass
class FakeHost:
    """`seen` is every request; `cancelled` and `left` say what became of some."""

    name: str = "fake"
    version: str = "1"
    title: str = "Fake"
    instructions: str = "Use it well."
    seen: list[Request] = field(default_factory=list)
    waiting: int = 0
    cancelled: int = 0
    left_connections: list[Hashable] = field(default_factory=list)
    watchers: list[Callable[[Changed], None]] = field(default_factory=list)
    calls: Counter[Hashable] = field(default_factory=Counter)
    extra: list[str] = field(default_factory=lambda: [f"tool_{number:02}" for number in range(15)])
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: Request) -> JsonObject:
        self.seen.append(request)
        if request.method == "tools/list":
            return self._page("tools", [tool(name) for name in (*NAMES, *self.extra)], request.params)
        if request.method == "tools/call":
            return await self._call(request)
        return self._other(request.method, request.params)

    def _other(self, method: str, params: Any) -> JsonObject:
        greeting = f"Greet {params.get('arguments', {}).get('whom', '')}" if method == "prompts/get" else ""
        answers: dict[str, JsonObject] = {
            "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "whom"}]}], "private": True},
            "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": greeting}}]},
            "resources/list": {"resources": [{"uri": "test://one", "name": "one"}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "test://{name}", "name": "any"}]},
            "resources/read": {"contents": [{"uri": params.get("uri", ""), "text": "content"}]},
            "completion/complete": {"completion": {"values": ["one", "two"]}},
        }
        return answers[method]

    def left(self, connection: Hashable) -> None:
        self.left_connections.append(connection)

    def watch(self, changed: Callable[[Changed], None]) -> Callable[[], None]:
        self.watchers.append(changed)
        return lambda: self.watchers.remove(changed)

    def discover(self) -> JsonObject:
        return {"fumehood/walls": "none"}

    def change(self, what: Changed = Changed.TOOLS) -> None:
        for changed in self.watchers:
            changed(what)

    def _page(self, name: str, items: list[JsonObject], params: JsonObject) -> JsonObject:
        cursor = params.get("cursor", "0")
        if not isinstance(cursor, str) or not cursor.isdigit():
            raise HostError("no cursor of this list")
        start = int(cursor)
        page: JsonObject = {name: [*items[start : start + PAGE]]}
        return page if start + PAGE >= len(items) else {**page, "nextCursor": str(start + PAGE)}

    async def _call(self, request: Request) -> JsonObject:
        self.calls[request.connection] += 1
        name = str(request.params["name"])
        tool_of_that_name = getattr(self, f"_tool_{name}", None) if name in NAMES else None
        if tool_of_that_name is None:
            raise HostError("no such tool")
        found: JsonObject = await tool_of_that_name(request)
        return found

    async def _tool_echo(self, request: Request) -> JsonObject:
        arguments: Any = request.params.get("arguments") or {}
        return text(arguments.get("text", ""), structuredContent=arguments)

    async def _tool_wait(self, _: Request) -> JsonObject:
        return await self._wait()

    async def _tool_ask(self, request: Request) -> JsonObject:
        return await self._ask(request, "Really?")

    async def _tool_ask_twice(self, request: Request) -> JsonObject:
        first = await self._ask(request, "Really?")
        second = await self._ask(request, "Really, really?")
        return text("both", structuredContent={"first": first, "second": second})

    async def _tool_ask_then_wait(self, request: Request) -> JsonObject:
        await self._ask(request, "Really?")
        return await self._wait()

    async def _tool_report(self, request: Request) -> JsonObject:
        arguments: Any = request.params.get("arguments") or {}
        for number in range(arguments.get("times", 3)):
            if request.progress is not None:
                request.progress({"progress": number + 1, "total": 100, "message": f"step {number + 1}"})
            await asyncio.sleep(0)
        return text("done")

    async def _tool_fail(self, _: Request) -> JsonObject:
        raise KeyError("/secret/path")

    async def _tool_refuse(self, _: Request) -> JsonObject:
        raise RefusedError("not today", remedy="try tomorrow")

    async def _tool_change(self, request: Request) -> JsonObject:
        arguments: Any = request.params.get("arguments") or {}
        self.change(Changed(arguments.get("what", "tools")))
        return text("changed")

    async def _tool_who(self, request: Request) -> JsonObject:
        known: JsonObject = {"principal": request.caller.principal, "calls": self.calls[request.connection]}
        return text("who", structuredContent=known)

    async def _wait(self) -> JsonObject:
        self.waiting += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            say("cancelled")
            raise
        finally:
            self.waiting -= 1
        return text("waited")

    async def _ask(self, request: Request, message: str) -> JsonObject:
        if request.ask is None:
            return text("cannot", structuredContent={"verdict": "none"})
        try:
            reply = await request.ask(Question(message=message, schema=SCHEMA))
        except CannotAskError as error:
            return text(error.message, structuredContent={"verdict": "cannot"})
        except asyncio.CancelledError:
            self.cancelled += 1
            say("cancelled")
            raise
        return text("asked", structuredContent={"verdict": reply.verdict.value, **reply.content})


def main() -> None:
    """Serve over standard input and output."""
    from fumehood.wire import descriptors  # noqa: PLC0415 - as a server does: the wire is taken first

    wire = descriptors.claim()
    from fumehood.core import logs  # noqa: PLC0415 - as above
    from fumehood.wire.sdk import hosted, serving  # noqa: PLC0415 - as above

    logs.configure("warning")

    async def serve() -> int:
        ended = await serving.stdio(hosted.Hosted(FakeHost()), wire)
        say(ended.value)
        return 0

    sys.exit(asyncio.run(serve()))
