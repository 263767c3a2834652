"""What a program asks passes the gate both ways, and each call leaves one record."""

import asyncio
from typing import Any

import pytest

from faketools import ECHO, FakeTools, gated, tool
from fumehood.code.backend import Answer
from fumehood.code.gate import AuditRecord, BadAnswerError, Gate, Scope, ScopeError
from fumehood.code.gated import Gated
from fumehood.core.clock import SystemClock
from fumehood.core.errors import HarnessError, InvalidArgumentsError, NotFoundError, UnknownToolError


def test_a_call_is_answered_and_recorded() -> None:
    backend, records = gated(FakeTools())
    value = asyncio.run(backend.run("fake.echo", {"words": "hello"}))
    assert value == {"text": "hello", "structured": {"length": 5}}
    (record,) = records
    assert (record.sequence, record.tool, record.decision, record.outcome) == (1, "fake.echo", "allowed", "ok")
    assert (record.error, record.arguments_bytes) == ("", len('{"words":"hello"}\n'))
    assert record.answer_bytes > 0
    assert record.milliseconds >= 0
    assert "hello" not in repr(record)


def test_what_the_gate_denies_never_reaches_the_source() -> None:
    source = FakeTools()
    backend, records = gated(source, allowed=["fake.echo", "fake.erase"])
    denied: list[tuple[str, Any, type[Exception]]] = [
        ("fake.missing", {}, UnknownToolError),
        ("fake.erase", {}, ScopeError),
        ("fake.echo", {"words": 1}, InvalidArgumentsError),
    ]
    for name, arguments, error in denied:
        with pytest.raises(error):
            asyncio.run(backend.run(name, arguments))
    assert source.heard == []
    assert [one.decision for one in records] == ["not_allowed", "scope", "arguments"]
    assert [one.sequence for one in records] == [1, 2, 3]
    assert {one.outcome for one in records} == {"refused"}
    assert records[0].error == "unknown_tool"


def test_a_refusal_of_the_tool_is_told_and_recorded() -> None:
    backend, records = gated(FakeTools())
    with pytest.raises(NotFoundError, match="look at the list"):
        asyncio.run(backend.run("fake.missing", {"path": "x"}))
    assert (records[0].decision, records[0].outcome, records[0].error) == ("allowed", "refused", "not_found")


def test_an_answer_that_does_not_fit_is_a_failure_of_the_tool() -> None:
    backend, records = gated(FakeTools({ECHO.name: (ECHO, lambda _: Answer(text="x"))}))
    with pytest.raises(BadAnswerError):
        asyncio.run(backend.run("fake.echo", {"words": "a"}))
    assert (records[0].outcome, records[0].error, records[0].answer_bytes) == ("failed", "bad_answer", 0)


def test_a_call_that_is_cancelled_is_recorded_as_cancelled() -> None:
    source = FakeTools()
    backend, records = gated(source)

    async def cancelled() -> None:
        call = asyncio.create_task(backend.run("fake.never", {}))
        await source.waiting.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(cancelled())
    assert [(one.tool, one.outcome) for one in records] == [("fake.never", "cancelled")]


def test_only_tools_that_may_be_called_are_found_and_described() -> None:
    backend, _ = gated(FakeTools(), allowed=["fake.echo", "fake.erase"])
    assert asyncio.run(backend.search("", 10)) == [{"name": ECHO.name, "description": ECHO.description}]
    assert "echo(args: {" in str(asyncio.run(backend.describe(["fake.echo"])))
    with pytest.raises(UnknownToolError):
        asyncio.run(backend.describe(["fake.erase"]))


def test_with_the_scope_to_write_a_tool_that_writes_is_called() -> None:
    backend, _ = gated(FakeTools(), scope=Scope.WRITE)
    assert asyncio.run(backend.run("fake.erase", {})) == {"text": "erased", "structured": None}


def test_a_name_that_could_act_on_a_terminal_is_inert_in_the_record() -> None:
    backend, records = gated(FakeTools({"s.t": (tool("s.t"), lambda _: Answer(text=""))}))
    with pytest.raises(UnknownToolError):
        asyncio.run(backend.run("\x1b[2J" + "n" * 500, {}))
    assert records[0].tool.isprintable()
    assert len(records[0].tool) < 300


@pytest.mark.threat("G1")
def test_a_tool_that_writes_is_not_called_where_no_record_of_it_can_be_kept() -> None:
    source = FakeTools()
    gate = Gate(source.tools, allowed=["fake.erase", "fake.echo"], scope=Scope.WRITE)

    async def full(record: AuditRecord) -> None:
        raise HarnessError(f"no room for {record.outcome}")

    backend = Gated(source, gate, clock=SystemClock(), audit=full)
    with pytest.raises(HarnessError, match="no room for failed"):  # that it could not begin is told as well
        asyncio.run(backend.run("fake.erase", {}))
    assert source.heard == []
    with pytest.raises(HarnessError, match="no room for ok"):  # what was read is not told
        asyncio.run(backend.run("fake.echo", {"words": "x"}))


@pytest.mark.threat("G1")
def test_a_tool_that_writes_leaves_a_record_before_it_is_called_and_one_after_it() -> None:
    source, heard = FakeTools(), []
    gate = Gate(source.tools, allowed=["fake.erase", "fake.echo"], scope=Scope.WRITE)

    async def keep(record: AuditRecord) -> None:
        heard.append((record.tool, record.outcome, record.writes, record.sequence, len(source.heard)))

    backend = Gated(source, gate, clock=SystemClock(), audit=keep)
    asyncio.run(backend.run("fake.erase", {}))
    asyncio.run(backend.run("fake.echo", {"words": "x"}))
    assert heard == [
        ("fake.erase", "begun", True, 1, 0),
        ("fake.erase", "ok", True, 1, 1),
        ("fake.echo", "ok", False, 2, 2),
    ]


def test_a_tool_that_writes_is_told_to_be_one_where_the_scope_forbids_it() -> None:
    backend, records = gated(FakeTools(), allowed=["fake.erase"])
    with pytest.raises(ScopeError):
        asyncio.run(backend.run("fake.erase", {}))
    assert [(one.decision, one.writes) for one in records] == [("scope", True)]


@pytest.mark.threat("G1")
def test_a_call_that_was_refused_on_its_way_leaves_a_record_like_any_other() -> None:
    source = FakeTools()
    backend, records = gated(source, allowed=["fake.echo", "fake.erase"])
    asyncio.run(backend.refused("fake.other", {"words": "planted"}))
    asyncio.run(backend.refused("fake.erase", {}))
    assert [(one.sequence, one.tool, one.decision, one.outcome, one.error, one.writes) for one in records] == [
        (1, "fake.other", "not_allowed", "refused", "unknown_tool", False),
        (2, "fake.erase", "not_allowed", "refused", "unknown_tool", True),
    ]
    assert source.heard == []
    assert "planted" not in repr(records)
