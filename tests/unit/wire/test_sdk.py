"""The SDK's server over a fake of ours, in this process, over real pipes."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_types import CallToolRequestParams

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError
from fumehood.wire import presence
from fumehood.wire.admission import Bounds
from fumehood.wire.descriptors import Wire
from fumehood.wire.guarded import Guarded
from fumehood.wire.presence import Presence
from fumehood.wire.published import Caller
from fumehood.wire.sdk import streams, tools
from fumehood.wire.server_stdio import Connection, Ended

ENVELOPE = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
OBJECT = {"type": "object"}


class Fake:
    name, version, title, instructions = "fake", "1", "Fake", "Use it well."

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.started = threading.Event()
        self.release = threading.Event()
        self.cancelled = threading.Event()
        self.stubborn = False
        self.on_hold: Callable[[], None] = lambda: None

    def definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "description": name, "inputSchema": OBJECT} for name in ("echo", "fail", "hold")]

    def call(self, name: str, arguments: dict[str, Any], budget: Budget, caller: Caller) -> dict[str, Any]:
        self.callers.append(caller)
        self.started.set()
        if name == "hold":
            self.on_hold()
        if name == "fail":
            raise KeyError("/secret/path")
        while name == "hold" and not self.release.wait(0.01):
            if budget.cancelled and not self.stubborn:
                self.cancelled.set()
                budget.check()
        return {"content": [{"type": "text", "text": json.dumps(arguments)}]}

    def refused(self, error: FumehoodError) -> dict[str, Any]:
        return {"content": [], "isError": True, "structuredContent": {"error": error.code}}

    def discover(self) -> dict[str, Any]:
        return {"fumehood/walls": "none"}


class Served:
    """Sends every message, waits for an event where one stands between them, and keeps the answers by id."""

    def __init__(self) -> None:
        self.fake = Fake()
        self.bounds = Bounds()
        self.sender: Presence | None = None
        self.calls_ended = False

    def run(self, *messages: dict[str, Any] | threading.Event) -> dict[Any, dict[str, Any]]:
        reading, to_server = os.pipe()
        from_server, writing = os.pipe()
        handlers = tools.Handlers(guarded=Guarded(self.fake), bounds=self.bounds)
        server = tools.build(handlers)

        async def main() -> Ended:
            connection = Connection(Wire(reading=reading, writing=writing))
            return await connection.run(lambda channel: streams.converse(server, channel))

        def feed() -> None:
            with os.fdopen(to_server, "wb", buffering=0) as stream:
                for message in messages:
                    if isinstance(message, threading.Event):
                        assert message.wait(30)
                    else:
                        stream.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        feeder = threading.Thread(target=feed)
        feeder.start()
        presence.current.set(self.sender)
        try:
            assert asyncio.run(main()) is Ended.END_OF_INPUT
        finally:
            presence.current.set(None)
            feeder.join()
            self.calls_ended = handlers.close()
            self.fake.release.set()
            os.close(writing)
            os.close(reading)
        with open(from_server, "rb") as stream:  # noqa: PTH123 - a descriptor has no path
            return {one["id"]: one for one in map(json.loads, stream)}


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    assert made.calls_ended


def legacy(ident: object, method: str, **params: Any) -> dict[str, Any]:
    return {"id": ident, "method": method, "params": params}


def modern(ident: object, method: str, **params: Any) -> dict[str, Any]:
    return legacy(ident, method, **{"_meta": ENVELOPE, **params})


ERAS = [pytest.param(legacy, id="legacy"), pytest.param(modern, id="modern")]
OPENING = {legacy: legacy(0, "initialize", **INITIALIZE), modern: modern(0, "server/discover")}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_a_legacy_version_is_negotiated(served: Served, asked: str, given: str) -> None:
    answers = served.run(legacy(0, "initialize", **INITIALIZE | {"protocolVersion": asked}))
    assert answers[0]["result"]["protocolVersion"] == given


def test_a_modern_version_that_nobody_speaks_is_refused_with_those_that_are_spoken(served: Served) -> None:
    other = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
    answers = served.run(OPENING[modern], modern(1, "tools/list", _meta=other))
    assert answers[0]["result"]["supportedVersions"] == ["2026-07-28"]
    assert answers[1]["error"]["code"] == -32022
    assert answers[1]["error"]["data"]["supported"] == ["2026-07-28"]


@pytest.mark.parametrize("era", ERAS)
def test_the_opening_tells_what_is_published_and_which_walls_stand(served: Served, era: Any) -> None:
    result = served.run(OPENING[era])[0]["result"]
    assert result["instructions"] == "Use it well."
    assert result["_meta"]["fumehood/walls"] == "none"
    assert "tools" in result["capabilities"]


@pytest.mark.threat("T10")
@pytest.mark.parametrize("era", ERAS)
def test_a_failure_is_told_without_detail(served: Served, era: Any, caplog: pytest.LogCaptureFixture) -> None:
    answers = served.run(OPENING[era], era(1, "tools/call", name="fail"), era(2, "tools/call", name="none"))
    assert answers[1]["error"] == {"code": -32603, "message": "Internal error"}
    assert answers[2]["error"] == {"code": -32602, "message": "Unknown tool"}
    assert "/secret/path" in caplog.text


@pytest.mark.parametrize("era", ERAS)
def test_arguments_reach_the_tool_as_they_are(served: Served, era: Any) -> None:
    arguments = {"a": [1, 2.5, None, True, "é\u2028"], "b": {}}
    answers = served.run(
        OPENING[era], era(1, "tools/call", name="echo", arguments=arguments), era(2, "tools/call", name="echo")
    )
    assert json.loads(answers[1]["result"]["content"][0]["text"]) == arguments
    assert json.loads(answers[2]["result"]["content"][0]["text"]) == {}
    assert answers[1]["result"].get("resultType") == (None if era is legacy else "complete")


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_the_meta_of_a_request_is_bounded(served: Served, era: Any) -> None:
    large = {**(ENVELOPE if era is modern else {}), "x": "y" * limits.META_BYTES}
    answers = served.run(
        OPENING[era], era(1, "tools/call", name="echo", _meta=large), era(2, "tools/call", name="echo", _meta=[])
    )
    assert answers[1]["error"]["code"] == answers[2]["error"]["code"] == -32602
    assert served.fake.callers == []


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_calls_beyond_the_bounds_are_busy(served: Served, era: Any) -> None:
    served.bounds = Bounds(running=1, queued=1)
    threading.Timer(0.5, served.fake.release.set).start()
    answers = served.run(OPENING[era], *(era(n, "tools/call", name="hold") for n in (1, 2, 3)))
    assert [answers[n]["result"].get("structuredContent") for n in (1, 2, 3)] == [None, None, {"error": "busy"}]


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_call_is_told_so_and_is_never_answered(served: Served, era: Any) -> None:
    served.bounds = Bounds(running=1)
    one, two = ({"method": "notifications/cancelled", "params": {"requestId": n}} for n in (1, 2))
    first, second = (era(n, "tools/call", name="hold") for n in (1, 2))
    answers = served.run(OPENING[era], first, served.fake.started, second, two, one, served.fake.cancelled)
    assert list(answers) == [0]
    assert len(served.fake.callers) == 1  # the second was still in the queue


@pytest.mark.threat("T9")
@pytest.mark.parametrize("era", ERAS)
def test_a_caller_sees_and_uses_what_its_scopes_let_it(served: Served, era: Any) -> None:
    caller = Caller(principal="somebody", scopes=frozenset({"tool:echo"}))
    served.sender = Presence(caller=caller)
    answers = served.run(
        OPENING[era], era(1, "tools/list"), era(2, "tools/call", name="echo"), era(3, "tools/call", name="hold")
    )
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["echo"]
    assert answers[1]["result"].get("cacheScope") == (None if era is legacy else "private")
    assert answers[3]["error"] == {"code": -32602, "message": "Unknown tool"}
    assert served.fake.callers == [caller]


@pytest.mark.threat("T9")
def test_a_call_whose_caller_leaves_is_cancelled(served: Served) -> None:
    served.sender = Presence(caller=Caller(principal="somebody"))
    served.fake.on_hold = served.sender.leave
    answers = served.run(OPENING[modern], modern(1, "tools/call", name="hold"), served.fake.cancelled)
    assert answers[1]["error"]["code"] == -32603  # nobody is there to read it


def test_whether_every_call_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FLUSH_SECONDS", 0.05)
    fake = Fake()
    handlers = tools.Handlers(guarded=Guarded(fake))
    assert handlers.close()

    async def begin() -> None:
        calling = asyncio.ensure_future(call_hold(busy))
        while not fake.started.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    fake.stubborn = True
    busy = tools.Handlers(guarded=Guarded(fake))
    asyncio.run(begin())
    assert not busy.close()
    fake.release.set()


async def call_hold(handlers: tools.Handlers) -> None:
    context: Any = SimpleNamespace(protocol_version="2025-06-18")
    await handlers.call_tool(context, CallToolRequestParams(name="hold"))


@pytest.mark.threat("T10")
@pytest.mark.parametrize("era", ERAS)
def test_an_opening_that_fails_says_nothing_of_why(served: Served, era: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(served.fake, "discover", broken)
    assert served.run(OPENING[era])[0]["error"] == {"code": -32603, "message": "Internal error"}


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_notification_with_a_bad_meta_fills_no_log(
    served: Served, era: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told = [{"method": f"notifications/{n}", "params": {"_meta": []}} for n in ("initialized", "nothing", "progress")]
    assert list(served.run(OPENING[era], *told, era(1, "tools/list"))) == [0, 1]
    assert caplog.text == ""
