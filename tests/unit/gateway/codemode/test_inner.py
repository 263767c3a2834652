"""A program's calls are its guest's calls at the one gate; what comes back are values."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fumehood.code.backend import RefusalKeeper
from fumehood.core.errors import UnknownToolError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.codemode import inner
from fumehood.gateway.codemode.inner import Inner, InnerRefusedError
from fumehood.gateway.gate.model import Guest, Offered, Way

Offer = Callable[..., Offered]
Calls = Any
TEXT: Any = {"type": "text", "text": "words"}


@pytest.fixture
def within(calls: Calls, guest: Guest, make_offer: Offer) -> Inner:
    calls.add(make_offer("files__read", "Read a file."))
    return Inner(calls, guest, calls.offered(guest), Way())


def test_a_call_is_the_programs_own_at_the_gate(within: Inner, calls: Calls, guest: Guest) -> None:
    assert asyncio.run(within.run("files__read", {"path": "a"})) == {"text": "done", "structured": None}
    assert calls.heard == [("files__read", {"path": "a"}, guest)]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [TEXT, TEXT]}, {"text": "words\nwords", "structured": None}),
        ({"content": [TEXT], "structuredContent": {"a": 1}}, {"text": "words", "structured": {"a": 1}}),
        ({"content": []}, {"text": "", "structured": None}),
        ({"content": "none"}, {"text": "", "structured": None}),
        (
            {"content": [{"type": "image", "data": "AAAA"}, TEXT]},
            {"text": "words", "structured": None, "others": ["image"]},
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "inside"}}]},
            {"text": "inside", "structured": None},
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA"}}, "noise"]},
            {"text": "", "structured": None, "others": ["resource"]},
        ),
    ],
)
def test_a_program_gets_words_and_values_and_is_told_of_what_it_does_not_get(result: Any, value: Any) -> None:
    assert inner.value(result) == value


@pytest.mark.parametrize(
    ("structured", "words"),
    [
        ({"error": "read_only", "message": "it writes", "remedy": "read"}, "read_only: it writes (read)"),
        ({"anything": 1}, "words"),
        (None, "words"),
    ],
)
def test_a_refusal_is_thrown_with_the_code_of_the_rule(structured: Any, words: str) -> None:
    with pytest.raises(InnerRefusedError) as refused:
        inner.value({"content": [TEXT], "structuredContent": structured, "isError": True})
    assert str(refused.value) == words
    with pytest.raises(InnerRefusedError, match="said nothing"):
        inner.value({"content": [], "isError": True})


@pytest.mark.threat("G20")
def test_a_call_of_a_tool_that_was_not_given_is_refused_and_recorded_by_the_gate(within: Inner, calls: Calls) -> None:
    assert isinstance(within, RefusalKeeper)
    with pytest.raises(InnerRefusedError, match="unknown_tool"):
        asyncio.run(within.refused("files__erase", {}))
    assert calls.denied == ["files__erase"]


def test_a_program_searches_and_reads_only_what_it_was_given(calls: Calls, guest: Guest, make_offer: Offer) -> None:
    calls.add(make_offer("files__read", "Read a file."))
    calls.add(make_offer("files__erase", "Erase a file."))
    within = Inner(calls, guest, [one for one in calls.offered(guest) if one.name == "files__read"], Way())
    assert asyncio.run(within.search("file", 10)) == [{"name": "files__read", "description": "Read a file."}]
    assert "files__read" in str(asyncio.run(within.describe(["files__read"])))
    with pytest.raises(UnknownToolError, match=r"amcp\.search\(query\) finds those"):
        asyncio.run(within.describe(["files__erase"]))
    within.close()


def test_each_call_that_has_ended_is_one_notification(calls: Calls, guest: Guest, make_offer: Offer) -> None:
    calls.add(make_offer("files__read"))
    told: list[JsonObject] = []
    within = Inner(calls, guest, calls.offered(guest), Way(progress=told.append))

    async def twice() -> None:
        await within.run("files__read", {})
        with pytest.raises(InnerRefusedError):
            await within.run("do what the page says", {})

    asyncio.run(twice())
    assert told == [
        {"progress": 1, "message": "the program has called files__read"},
        {"progress": 2, "message": "the program has called a tool that it was not given"},
    ]


def test_the_progress_of_an_inner_call_is_not_that_of_the_program(
    calls: Calls, guest: Guest, make_offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.add(make_offer("files__read"))
    ways: list[Way] = []
    heard = type(calls).call

    async def call(self: Any, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        ways.append(way)
        return await heard(self, guest, name, arguments, way)  # type: ignore[no-any-return]  # of a fixture

    monkeypatch.setattr(type(calls), "call", call)
    trace: JsonObject = {"traceparent": "00-1"}
    within = Inner(calls, guest, calls.offered(guest), Way(progress=lambda _: None, trace=trace))
    asyncio.run(within.run("files__read", None))
    assert [(way.progress, way.trace) for way in ways] == [(None, trace)]
