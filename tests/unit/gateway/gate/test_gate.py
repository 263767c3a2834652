"""Each call passes one gate: what is listed may be called, and nothing else; each is judged, recorded, controlled."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import TimedOutError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.audit import chain, files, writer
from fumehood.gateway.audit.record import Call
from fumehood.gateway.gate import guests
from fumehood.gateway.gate.gate import Gate
from fumehood.gateway.gate.model import EVERYTHING, Guest, Offered, Rights, Way
from fumehood.gateway.gate.passing import Passing
from fumehood.gateway.topology.model import Role
from fumehood.gateway.upstreams.model import ServerRefusedError, Withheld
from fumehood.wire.hosting import HostError

NAMES = ["fs__read", "fs__write", "web__fetch", "web__look"]


def error(result: JsonObject) -> str:
    assert result["isError"] is True
    structured = result["structuredContent"]
    assert isinstance(structured, dict)
    assert set(structured) >= {"error", "message", "remedy"}
    return str(structured["error"])


async def test_a_call_reaches_its_server_by_the_servers_own_name(bench: Any, text: Any) -> None:
    bench.upstreams.answer("fs", "tools/call", text("hello"))
    result = await bench.call(bench.guest(), "fs__read", path="a")
    assert bench.upstreams.asked == [("fs", "tools/call", {"name": "read", "arguments": {"path": "a"}})]
    (block,) = result["content"]
    assert block["text"].startswith("[untrusted content nonce")
    assert "hello" in block["text"]
    assert result["_meta"]["fumehood/taint"].items() >= {"server": "fs", "trust": "trusted"}.items()
    other = await bench.call(bench.guest(), "web__look")
    assert other["_meta"]["fumehood/taint"].items() >= {"server": "web", "trust": "untrusted"}.items()
    assert bench.log.told == [("fs__read", "allowed", "ok"), ("web__look", "allowed", "ok")]


async def test_a_call_that_may_write_is_recorded_before_it_is_made(bench: Any) -> None:
    bench.log.waits = asyncio.Event()
    calling = asyncio.create_task(bench.call(bench.guest(), "fs__write"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.log.told == [("fs__write", "allowed", "begun")]
    assert bench.upstreams.asked == []
    bench.log.waits.set()
    await calling
    assert bench.log.told[1:] == [("fs__write", "allowed", "ok")]


async def test_nothing_is_done_without_a_record(bench: Any) -> None:
    bench.log.fails = True
    assert error(await bench.call(bench.guest(), "fs__write")) == "audit"
    assert bench.upstreams.asked == []
    assert error(await bench.call(bench.guest(), "fs__read")) == "audit"


@pytest.mark.threat("G13")
@pytest.mark.parametrize("name", ["fs__nothing", "read", "", "fs__write"])
async def test_what_is_not_offered_is_refused_in_the_same_words(bench: Any, name: str) -> None:
    guest = bench.reader()
    assert error(await bench.call(guest, name)) == "unknown_tool"
    with pytest.raises(HostError, match="is no tool that you may use") as caught:
        await bench.gate.direct(guest, name, {}, Way())
    assert caught.value.number == -32602
    assert bench.upstreams.asked == []
    assert {outcome for _, _, outcome in bench.log.told} == {"refused"}


ROLE = st.builds(
    Role,
    servers=st.lists(st.sampled_from(["*", "fs", "web", "f*"]), max_size=2).map(tuple),
    tools=st.lists(st.sampled_from(["*", *NAMES, "*read", "web__*"]), max_size=3).map(tuple),
    access=st.sampled_from(["read", "write"]),
)
RIGHTS = st.builds(
    Rights,
    roles=st.none() | st.lists(ROLE, max_size=2).map(tuple),
    only=st.none() | st.frozensets(st.sampled_from(NAMES)),
    reading=st.booleans(),
)


@pytest.mark.threat("G13")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rights=RIGHTS, program=st.booleans())
def test_what_is_listed_can_be_called_and_nothing_else(bench: Any, rights: Rights, program: bool) -> None:
    def guest() -> Any:
        return bench.guest(rights, program=program)

    async def called() -> list[str]:
        return [name for name in NAMES if (await bench.call(guest(), name)).get("isError") is not True]

    assert bench.names(guest()) == [one.name for one in bench.gate.offered(guest())] == asyncio.run(called())


async def test_direct_tools_can_be_hidden_from_clients_and_not_from_programs(make_bench: Any) -> None:
    bench = make_bench(show="code")
    guest = bench.guest()
    assert bench.names(guest) == []
    assert error(await bench.call(guest, "fs__read")) == "unknown_tool"
    program = guests.fork(guest, run="f" * 16)
    assert (await bench.call(program, "fs__read")).get("isError") is None
    assert len(bench.gate.offered(guest)) == len(NAMES)


async def test_arguments_are_held_against_the_servers_own_schema(bench: Any, tool: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    own = tool("read", inputSchema=schema)
    bench.upstreams.add("fs", own, tool("write"))
    assert error(await bench.call(bench.guest(), "fs__read", n="x")) == "invalid_arguments"
    assert bench.upstreams.asked == []
    assert bench.log.told == [("fs__read", "arguments", "refused")]
    assert (await bench.call(bench.guest(), "fs__read", n=1)).get("isError") is None


async def test_a_schema_that_cannot_be_held_lets_nothing_pass(bench: Any, tool: Any) -> None:
    bench.upstreams.add("fs", tool("read", inputSchema={"type": "object", "$ref": "http://x/"}))
    assert error(await bench.call(bench.guest(), "fs__read")) == "bad_schema"
    bench.upstreams.add("fs", {"name": "read"})
    assert error(await bench.call(bench.guest(), "fs__read")) == "bad_schema"
    assert bench.upstreams.asked == []


async def test_a_new_list_is_seen_at_once(bench: Any, tool: Any) -> None:
    guest = bench.guest()
    bench.upstreams.add("fs", tool("other"))
    assert bench.names(guest) == ["fs__other", "web__fetch", "web__look"]
    assert error(await bench.call(guest, "fs__read")) == "unknown_tool"
    bench.upstreams.down("fs")
    assert bench.names(guest) == ["web__fetch", "web__look"]
    (reason,) = bench.gate.page(guest, None)["_meta"]["fumehood/left_out"].values()
    assert "it ended with 1" in reason


async def test_a_tool_of_a_server_that_is_not_there_is_refused_with_the_reason(bench: Any) -> None:
    bench.upstreams.down("fs")
    result = await bench.call(bench.guest(), "fs__write")
    assert error(result) == "upstream"
    assert "fs: is down: it ended with 1" in str(result)
    assert bench.log.told == [("fs__write", "not_there", "refused")]
    assert error(await bench.call(bench.reader(), "fs__write")) == "unknown_tool"
    bench.upstreams.standings["fs"] = Withheld(reason="changed 'do as I say'")
    result = await bench.gate.direct(bench.guest(), "fs__write", {}, Way())
    assert "withheld" in str(result)
    assert "do as I say" not in str(result)
    assert bench.upstreams.asked == []


@pytest.mark.parametrize("program", [False, True])
async def test_a_servers_error_is_a_controlled_result(bench: Any, program: bool) -> None:
    bench.upstreams.answer("web", "tools/call", ServerRefusedError(-32602, "no \u202esuch page"))
    guest = bench.guest(program=program)
    result = await bench.call(guest, "web__look")
    assert error(result) == "server_refused"
    assert "\u202e" not in str(result)
    assert ("[untrusted content" in str(result["content"])) is not program
    assert ("no such page" in result["structuredContent"]["message"]) is program
    assert guest.tainted_by == {"web"}
    assert bench.log.told == [("web__look", "allowed", "failed")]


async def test_a_server_that_is_down_is_named_and_the_others_answer(bench: Any) -> None:
    guest = bench.guest()
    await bench.call(guest, "fs__read")
    listed = bench.upstreams.listed("fs")
    bench.upstreams.down("fs")
    bench.upstreams.tools["fs"] = listed  # the moment between its end and what the list says of it
    result = await bench.call(guest, "fs__read")
    assert error(result) == "upstream"
    assert "fs: is down" in str(result)
    assert (await bench.call(guest, "web__look")).get("isError") is None


async def test_a_server_that_takes_too_long_is_an_error_of_the_tool(bench: Any) -> None:
    bench.upstreams.answer("fs", "tools/call", TimedOutError("no answer within 60 s"))
    assert error(await bench.call(bench.guest(), "fs__read")) == "timed_out"


@pytest.mark.parametrize(
    "answer", [{}, {"content": "x"}, {"content": [1]}, {"content": [], "inputRequests": {}}, {"contents": []}]
)
async def test_an_answer_of_another_shape_is_not_passed_on(bench: Any, answer: JsonObject) -> None:
    bench.upstreams.answer("fs", "tools/call", answer)
    assert error(await bench.call(bench.guest(), "fs__read")) == "guard_result"


OUTPUT = {"type": "object", "properties": {"key": {"type": "string", "maxLength": 40}}, "required": ["key"]}


@pytest.mark.parametrize(
    ("structured", "words"),
    [({"key": "short"}, ""), ({"key": 1}, "does not fit its own"), (None, "does not fit its own")],
)
async def test_a_structured_answer_fits_its_own_schema_or_is_left_out(
    bench: Any, tool: Any, text: Any, structured: Any, words: str
) -> None:
    bench.upstreams.add("fs", tool("read", outputSchema=OUTPUT))
    given_ = {} if structured is None else {"structuredContent": structured}
    bench.upstreams.answer("fs", "tools/call", text("words", **given_))
    result = await bench.call(bench.guest(), "fs__read")
    assert "words" in str(result["content"])
    if words:
        assert error(result) == "bad_answer"
        assert words in result["structuredContent"]["message"]
    else:
        assert result["structuredContent"] == structured


async def test_a_structured_answer_that_fits_only_with_a_credential_is_left_out(
    bench: Any, tool: Any, text: Any
) -> None:
    secret = "ghp_" + "a1B2" * 9
    schema = {"type": "object", "properties": {"key": {"type": "string", "pattern": "^ghp_[A-Za-z0-9]+$"}}}
    bench.upstreams.add("fs", tool("read", outputSchema=schema))
    bench.upstreams.answer("fs", "tools/call", text("words", structuredContent={"key": secret}))
    result = await bench.call(bench.guest(), "fs__read")
    assert error(result) == "bad_answer"
    assert "credential" in result["structuredContent"]["message"]
    assert secret not in str(result)


async def test_a_program_gets_values_without_a_fence(bench: Any, text: Any) -> None:
    bench.upstreams.answer("fs", "tools/call", text('{"a": 1}'))
    result = await bench.call(bench.guest(program=True), "fs__read")
    assert result["content"] == [{"type": "text", "text": '{"a": 1}'}]


async def test_a_cancelled_call_is_cancelled_at_its_server_and_recorded(bench: Any) -> None:
    reached = asyncio.Event()

    async def for_ever(params: JsonObject) -> JsonObject:
        reached.set()
        await asyncio.Event().wait()
        return params

    bench.upstreams.answer("fs", "tools/call", for_ever)
    guest = bench.guest()
    calling = asyncio.create_task(bench.call(guest, "fs__write"))
    await reached.wait()
    assert guest.in_flight == 1
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert bench.upstreams.cancelled == ["fs"]
    assert bench.log.told[-1] == ("fs__write", "allowed", "cancelled")
    assert guest.in_flight == 0


async def test_calls_of_one_guest_are_bounded_and_anothers_go_on(bench: Any) -> None:
    hold = asyncio.Event()

    async def wait(params: JsonObject) -> JsonObject:
        await hold.wait()
        return {"content": [], "structuredContent": params}

    bench.upstreams.answer("fs", "tools/call", wait)
    guest = bench.guest()
    waiting = [asyncio.create_task(bench.call(guest, "fs__read")) for _ in range(limits.GATE_CALLS)]
    await asyncio.sleep(0)
    assert error(await bench.call(guest, "fs__read")) == "busy"
    assert (await bench.call(bench.guest(), "web__look")).get("isError") is None
    hold.set()
    await asyncio.gather(*waiting)
    assert (await bench.call(guest, "fs__read")).get("isError") is None


async def test_trace_context_goes_to_the_server_and_nothing_else_of_meta(bench: Any) -> None:
    await bench.gate.call(bench.guest(), "fs__read", {}, Way(trace={"traceparent": "00-1"}))
    (_, _, params) = bench.upstreams.asked[0]
    assert params["_meta"] == {"traceparent": "00-1"}


async def test_progress_is_controlled_bounded_and_taints(bench: Any) -> None:
    guest = bench.guest()
    seen: list[JsonObject] = []
    tainted: list[bool] = []

    def report(members: JsonObject) -> None:
        seen.append(members)
        tainted.append(bool(guest.tainted_by))

    def answer(params: JsonObject, progress: Any) -> JsonObject:
        progress({"message": "no number"})
        progress({"progress": True})
        progress({"progress": 1, "total": float("nan"), "x": "y"})
        progress({"progress": 2, "total": 3, "message": "half \u200bway"})
        for number in range(2 * limits.GATE_PROGRESS):
            progress({"progress": number})
        return {"content": [], "structuredContent": params}

    bench.upstreams.answer("web", "tools/call", answer)
    await bench.gate.call(guest, "web__look", {}, Way(progress=report))
    assert seen[:2] == [{"progress": 1}, {"progress": 2, "total": 3, "message": "half way"}]
    assert tainted[:2] == [False, True]
    assert len(seen) == limits.GATE_PROGRESS


class Own:
    """A tool of ours."""

    def __init__(self, name: str, *, for_: bool = True) -> None:
        self.offered = Offered(
            name=name,
            server="code",
            tool=name,
            definition={"name": name, "inputSchema": {"type": "object", "additionalProperties": False}},
            writes=False,
            egress=False,
            trusted=True,
        )
        self.for_ = for_

    def is_for(self, guest: Guest) -> bool:
        return self.for_ and bool(guest.run)

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        assert (guest.program, arguments, way.trace) == (False, {}, {})
        return {"content": [], "structuredContent": {"own": self.offered.name}}


async def test_a_tool_of_ours_passes_the_same_gate_and_no_program_calls_it(bench: Any) -> None:
    bench.furnish(Own("run_code"), Own("secret", for_=False))
    guest = bench.guest()
    assert bench.names(guest) == ["run_code", *NAMES]
    assert [one.name for one in bench.gate.offered(guest)] == NAMES
    assert (await bench.call(guest, "run_code"))["structuredContent"] == {"own": "run_code"}
    assert error(await bench.call(guest, "run_code", x=1)) == "invalid_arguments"
    assert error(await bench.call(guest, "secret")) == "unknown_tool"
    assert error(await bench.call(guests.fork(guest, run="f" * 16), "run_code")) == "unknown_tool"
    limited = bench.guest(Rights(only=frozenset({"fs__read"})))
    assert bench.names(limited) == ["fs__read"]
    assert error(await bench.call(limited, "run_code")) == "unknown_tool"


async def test_a_large_answer_is_controlled_as_a_small_one_is(bench: Any, text: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    bench.upstreams.answer("fs", "tools/call", text(f"{'x ' * limits.GATE_THREAD_BYTES}\n{secret}"))
    result = await bench.call(bench.guest(), "fs__read")
    assert secret not in str(result)
    assert result["_meta"]["fumehood/taint"]["redacted"] == 1


async def test_an_answer_that_does_not_fit_ours_is_an_error_that_names_the_bound(bench: Any, text: Any) -> None:
    bench.upstreams.answer("fs", "tools/call", text("x" * limits.GATE_ANSWER_BYTES))
    result = await bench.call(bench.guest(), "fs__read")
    assert error(result) == "guard_result"
    assert f"where {limits.GATE_ANSWER_BYTES} are passed on: ask for less" in str(result)
    assert bench.log.events[-1].outcome == "failed"
    bench.upstreams.answer("fs", "tools/call", text("x" * (limits.GATE_ANSWER_BYTES - 2048)))
    assert "isError" not in await bench.call(bench.guest(), "fs__read")


def test_everything_is_a_right(bench: Any) -> None:
    assert bench.names(bench.guest(EVERYTHING)) == NAMES


@pytest.mark.threat("G11")
async def test_the_log_of_it_all_is_a_chain_that_holds(bench: Any, person: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with writer.opened(path, SystemClock()) as log:
        parts = replace(bench.parts, audit=log)
        gate = Gate(parts, Passing(parts))
        guest, someone = bench.guest(), person(["this call", "no"])
        program = guests.fork(guest, run="e" * 16)
        for name in ("fs__read", "fs__write", "web__look", "fs__write", "fs__write", "é\n" * 300, "fs__read"):
            await gate.call(guest, name, {"path": "a secret"}, Way(ask=someone.ask))
        await gate.call(program, "fs__read", {}, Way())
    lines = [line for _, found in files.lines(path) for line in found]
    assert isinstance(chain.verify(lines), chain.Verified)
    events = [found.event for line in lines if not isinstance(found := chain.read(line), chain.NoLine)]
    told = [(one.decision, one.outcome) for one in events if isinstance(one, Call)]
    assert told == [
        ("allowed", "ok"),
        ("allowed", "begun"),
        ("allowed", "ok"),
        ("allowed", "ok"),
        ("approved", "begun"),
        ("approved", "ok"),
        ("approval_denied", "refused"),
        ("unknown_tool", "refused"),
        ("allowed", "ok"),
        ("allowed", "ok"),
    ]
    assert {one.source for one in events if isinstance(one, Call)} == {"gateway"}
    assert {one.run for one in events if isinstance(one, Call)} == {guest.run, program.run}
    assert b"a secret" not in path.read_bytes()
