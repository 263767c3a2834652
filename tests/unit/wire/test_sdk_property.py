"""Whatever a client asks, in either era, it gets one answer for each request, and no words of an exception."""

import asyncio
import json
import os
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError
from fumehood.wire.descriptors import Wire
from fumehood.wire.guarded import Guarded
from fumehood.wire.published import LOCAL, Caller
from fumehood.wire.sdk import streams, tools
from fumehood.wire.server_stdio import Connection, Ended

CODES = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class Fake:
    name, version, title, instructions = "fake", "1", "Fake", ""

    def definitions(self) -> list[dict[str, Any]]:
        return [{"name": "echo", "inputSchema": {"type": "object"}}]

    def call(self, name: str, arguments: dict[str, Any], budget: Budget, caller: Caller) -> dict[str, Any]:
        assert (name, budget.cancelled, caller) == ("echo", False, LOCAL)
        return {"content": [{"type": "text", "text": str(len(arguments))}], "structuredContent": arguments}

    def refused(self, error: FumehoodError) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": error.code}], "isError": True}

    def discover(self) -> dict[str, Any]:
        return {}


HANDLERS = tools.Handlers(guarded=Guarded(Fake()))

words = st.sampled_from(["echo", "2025-06-18", "2026-07-28", "x", "", "\x00", "é", "1"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), words
)
KEYS = f"""
    name arguments cursor _meta protocolVersion capabilities clientInfo version requestId progressToken level uri task x
    inputResponses requestState io.modelcontextprotocol/clientInfo io.modelcontextprotocol/logLevel
    {VERSION} {CAPABILITIES}
"""
keys = st.sampled_from(KEYS.split())
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=10,
)
envelopes = st.one_of(
    st.just({VERSION: "2026-07-28", CAPABILITIES: {}}),
    st.dictionaries(st.sampled_from([VERSION, CAPABILITIES, "progressToken"]), values, max_size=3),
    values,
)
given_params = st.one_of(
    st.none(),
    st.dictionaries(keys, values, max_size=4),
    st.fixed_dictionaries({"_meta": envelopes}, optional={"name": words, "arguments": values, "cursor": values}),
    st.just({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
)
METHODS = """
    initialize server/discover tools/list tools/call ping prompts/list resources/read subscriptions/listen x tasks/get
    completion/complete logging/setLevel notifications/cancelled notifications/initialized
"""
methods = st.sampled_from(METHODS.split())


def converse(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reading, to_server = os.pipe()
    from_server, writing = os.pipe()
    server = tools.build(HANDLERS)

    async def main() -> Ended:
        connection = Connection(Wire(reading=reading, writing=writing))
        return await asyncio.wait_for(connection.run(lambda channel: streams.converse(server, channel)), 60)

    def feed() -> None:
        for message in messages:
            os.write(to_server, json.dumps(message).encode() + b"\n")
        os.close(to_server)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        assert asyncio.run(main()) is Ended.END_OF_INPUT
    finally:
        feeder.join()
        os.close(reading)
        os.close(writing)
    with open(from_server, "rb") as stream:  # noqa: PTH123 - a descriptor has no path
        return [json.loads(line) for line in stream]


@pytest.mark.threat("T10")
@settings(max_examples=60)
@given(st.lists(st.tuples(methods, given_params, st.booleans()), min_size=1, max_size=6))
def test_each_request_has_one_answer_of_the_protocol_s_own(asked: list[tuple[str, Any, bool]]) -> None:
    messages = [
        {"jsonrpc": "2.0", "method": method, **({"id": number} if asks else {}), **({} if p is None else {"params": p})}
        for number, (method, p, asks) in enumerate(asked)
    ]
    named = [p.get("requestId") for method, p, asks in asked if method == "notifications/cancelled" and not asks and p]
    cancelled = [one for one in named if type(one) is int]
    answers = converse(messages)
    wanted = [one["id"] for one in messages if "id" in one]
    assert sorted(one["id"] for one in answers if one["id"] not in cancelled) == [
        ident for ident in wanted if ident not in cancelled
    ]
    for one in answers:
        assert ("result" in one) != ("error" in one)
        if "error" in one:
            assert one["error"]["code"] in CODES, one
            assert "Traceback" not in one["error"]["message"]
