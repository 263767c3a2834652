"""Each call of a served tool leaves one record, whatever comes of it, and no answer is given without."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.budget import Budget
from fumehood.core.errors import (
    CancelledError,
    DeniedPathError,
    FumehoodError,
    HarnessError,
    NotFoundError,
    TimedOutError,
    UnknownToolError,
)
from fumehood.sandbox.containment import Containment
from fumehood.serve import recording
from fumehood.serve.recording import Recorded
from fumehood.serve.records import Record
from fumehood.wire.guarded import BadResultError, Guarded
from fumehood.wire.published import Caller

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
ANSWER = {"content": [], "structuredContent": {"lines": 1}, "isError": False}
CALLER = Caller(principal="token 0123456789ab")


class Fake:
    """One tool, `read`, which gives or raises what it was made with."""

    name, version, title, instructions = "fake", "1", "Fake", ""

    def __init__(self, outcome: Any = ANSWER) -> None:
        self.outcome = outcome

    def definitions(self) -> Sequence[dict[str, Any]]:
        output = {"type": "object", "properties": {"lines": {"type": "integer"}}}
        return [{"name": "read", "inputSchema": SCHEMA, "outputSchema": output}]

    def call(self, name: str, arguments: dict[str, Any], budget: Budget, caller: Caller) -> dict[str, Any]:
        del name, arguments, budget
        assert caller == CALLER
        if isinstance(self.outcome, FumehoodError) and not isinstance(self.outcome, HarnessError):
            return self.refused(self.outcome)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        found: dict[str, Any] = self.outcome
        return found

    def refused(self, error: FumehoodError) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"error": error.code, "message": error.message}, "isError": True}

    def discover(self) -> dict[str, Any]:
        return {}


class Kept:
    """Keeps records in a list, or fails."""

    containments: tuple[Containment, ...] = ()
    is_alive = True

    def __init__(self, failure: FumehoodError | None = None) -> None:
        self.records: list[Record] = []
        self.failure = failure
        self.asked = 0

    def ready(self) -> None:
        self.asked += 1

    def keep(self, record: Record) -> None:
        if self.failure is not None:
            raise self.failure
        self.records.append(record)


def called(outcome: Any, arguments: Any = None, name: str = "read") -> tuple[Any, Record]:
    """What came of one call, and its record."""
    kept = Kept()
    recorded = Recorded(Fake(outcome), kept)
    try:
        answer: Any = recorded.call(name, arguments or {"path": "a"}, Budget(), CALLER)
    except (FumehoodError, KeyError) as error:
        answer = error
    (record,) = kept.records
    return answer, record


@pytest.mark.threat("G1")
@pytest.mark.parametrize(
    ("outcome", "decision", "ended", "code"),
    [
        (ANSWER, "allowed", "ok", ""),
        (NotFoundError("x"), "allowed", "refused", "not_found"),
        (DeniedPathError("x"), "denied_path", "refused", "denied_path"),
        (TimedOutError("x"), "allowed", "failed", "timed_out"),
        (CancelledError("x"), "allowed", "cancelled", "cancelled"),
        (HarnessError("x"), "allowed", "failed", "harness"),
        (KeyError("x"), "allowed", "failed", ""),
        ({"content": [], "structuredContent": {"lines": "x"}}, "allowed", "failed", "bad_result"),
        ({"content": [], "isError": True}, "allowed", "failed", ""),
    ],
)
def test_a_record_says_what_was_decided_and_what_came_of_it(outcome: Any, decision: str, ended: str, code: str) -> None:
    answer, record = called(outcome)
    assert (record.decision, record.outcome, record.error) == (decision, ended, code)
    assert (record.number, record.principal, record.tool) == (1, CALLER.principal, "read")
    assert (record.arguments_bytes, len(record.arguments_sha256)) == (len(b'{"path":"a"}\n'), 64)
    assert (record.answer_bytes > 0) == isinstance(answer, dict)


@pytest.mark.threat("G1")
def test_a_call_that_never_reaches_its_tool_is_recorded_with_the_rule() -> None:
    answer, record = called(ANSWER, {"other": 1})
    assert (answer["structuredContent"]["error"], record.decision, record.outcome) == (
        "invalid_arguments",
        "arguments",
        "refused",
    )
    answer, record = called(ANSWER, name="r\x1b\n" + "x" * 5000)
    assert isinstance(answer, UnknownToolError)
    assert (record.decision, record.error) == ("not_allowed", "unknown_tool")
    assert record.tool.isprintable()
    assert len(record.tool) <= 240


@pytest.mark.threat("G1")
@pytest.mark.parametrize("outcome", [ANSWER, NotFoundError("x")])
def test_no_answer_is_given_of_which_no_record_could_be_kept(outcome: Any) -> None:
    recorded = Recorded(Fake(outcome), Kept(HarnessError("the disk is full")))
    answer: Any = recorded.call("read", {"path": "a"}, Budget(), CALLER)
    assert answer["isError"]
    assert answer["structuredContent"] == {"error": "harness", "message": "the disk is full"}


@pytest.mark.parametrize(
    ("outcome", "name", "kind"), [(KeyError("x"), "read", KeyError), (ANSWER, "no", UnknownToolError)]
)
def test_what_gives_no_answer_stays_what_it_is_where_no_record_could_be_kept(
    outcome: Any, name: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        Recorded(Fake(outcome), Kept(HarnessError("full"))).call(name, {}, Budget(), CALLER)


def test_a_result_that_does_not_fit_is_told_as_without_records() -> None:
    with pytest.raises(BadResultError):
        Guarded(Fake({"content": []})).call("read", {}, Budget(), CALLER)
    assert isinstance(called({"content": []})[0], BadResultError)


def test_arguments_that_are_no_json_have_no_digest() -> None:
    _, record = called(ANSWER, {"path": float("nan")})
    assert (record.arguments_sha256, record.arguments_bytes) == ("", 0)


@given(st.text(max_size=300))
def test_a_name_as_asked_is_inert_and_within_the_bound_of_a_record(name: str) -> None:
    _, record = called(ANSWER, name=name)
    assert record.tool.isprintable() or not record.tool
    assert record.tool.isascii()
    assert len(record.tool) <= 256


@given(st.dictionaries(st.text(), st.text()))
def test_equal_arguments_have_equal_digests_and_no_content_is_in_a_record(arguments: dict[str, str]) -> None:
    planted = {**arguments, "planted": "hunter2" * 3}
    first, second = (called(ANSWER, dict(planted))[1] for _ in range(2))
    assert first.arguments_sha256 == second.arguments_sha256
    assert "hunter2" not in repr(first)


def test_a_server_without_records_is_guarded_alone_and_one_with_them_waits_until_they_can_be_kept() -> None:
    assert type(recording.guarded(Fake, None)) is Guarded
    kept = Kept()
    stood: list[int] = []

    def stand(*others: Containment) -> Fake:
        assert others == kept.containments
        stood.append(kept.asked)
        return Fake()

    assert isinstance(recording.guarded(stand, kept), Recorded)
    assert stood == [1]
