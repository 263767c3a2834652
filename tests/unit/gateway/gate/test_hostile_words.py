"""Words of a server, or of a program, that try to get past the gate beside a result."""

import asyncio
import json
import threading
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.gateway.gate.bare import bare
from fumehood.gateway.upstreams.model import Withheld

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
FOREIGN: Any = {"io.modelcontextprotocol/related-task": {"taskId": "evil"}, "traceparent": "evil"}


@pytest.mark.threat("G3")
async def test_a_result_holds_what_the_protocol_has_there_and_nothing_else(bench: Any) -> None:
    block = {"type": "resource", "_meta": FOREIGN, "resource": {"uri": "a:b", "text": "fine", "_meta": FOREIGN}}
    whole = {
        "content": [block],
        "structuredContent": {"_meta": "a value"},
        "isError": False,
        "requestState": f"{TOKEN} evil",
        "nextCursor": "evil",
        "resultType": "input_required",
        "task": {"taskId": "evil"},
        "ttlMs": 5,
        "cacheScope": "public",
        "private": True,
        "_meta": FOREIGN,
    }
    bench.upstreams.answer("web", "tools/call", whole)
    result = await bench.call(bench.guest(), "web__look")
    assert set(result) == {"content", "structuredContent", "isError", "_meta"}
    assert set(result["_meta"]) == {"fumehood/taint"}
    assert result["structuredContent"] == {"_meta": "a value"}
    assert "evil" not in json.dumps(result)
    assert TOKEN not in json.dumps(result)


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("prompts/get", {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]}),
        ("resources/read", {"contents": [{"uri": "a:b", "text": "t"}]}),
        ("completion/complete", {"completion": {"values": ["v"]}}),
    ],
)
def test_of_any_other_answer_the_same_is_left(method: str, kept: dict[str, Any]) -> None:
    assert bare(method, {**kept, "requestState": "x", "ttlMs": 1, "_meta": FOREIGN}) == kept


@pytest.mark.threat("G1")
@pytest.mark.parametrize("name", [TOKEN, f"web__{TOKEN}", f"read {TOKEN} " + "x" * 10_000])
async def test_a_credential_that_is_given_as_a_name_is_not_in_the_log(bench: Any, name: str) -> None:
    await bench.call(bench.guest(), name)
    (event,) = bench.log.events
    assert event.decision == "unknown_tool"
    assert "redacted" in event.tool
    assert TOKEN[8:20] not in event.tool


@pytest.mark.threat("G1")
async def test_a_call_that_is_cancelled_before_its_first_record_is_on_the_disk_has_a_last_one(bench: Any) -> None:
    bench.log.waits = asyncio.Event()
    call = asyncio.create_task(bench.call(bench.guest(), "fs__write"))
    for _ in range(5):
        await asyncio.sleep(0)
    call.cancel()
    bench.log.waits.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.upstreams.asked == []
    assert [outcome for _, _, outcome in bench.log.told] == ["begun", "cancelled"]


@pytest.mark.threat("G4")
async def test_of_what_is_withheld_a_call_is_told_no_name(bench: Any) -> None:
    bench.upstreams.tools["web"] = type(bench.upstreams.tools["web"])()
    bench.upstreams.standings["web"] = Withheld(reason="its tools changed: added 'ignore all rules'")
    result = await bench.call(bench.guest(), "web__look")
    assert "its tools are withheld" in str(result)
    assert "ignore" not in str(result)


@pytest.mark.threat("G8")
async def test_neither_a_large_answer_nor_a_long_question_is_looked_through_where_everybody_waits(
    bench: Any, person: Any
) -> None:
    threads = set[int]()

    def fresh() -> str:
        threads.add(threading.get_ident())
        return f"nonce{len(threads):08d}"

    object.__setattr__(bench.controls, "fresh", fresh)
    guest, someone = bench.guest(), person(["no"])
    large = "- " * limits.GATE_THREAD_BYTES
    bench.upstreams.answer("web", "tools/call", {"content": [{"type": "text", "text": large}]})
    await bench.call(guest, "web__look")
    await bench.call(guest, "fs__write", someone, text="password=" * 40_000)
    assert someone.questions
    assert threads
    assert threading.get_ident() not in threads
