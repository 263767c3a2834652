"""A call passes the gate when the job names its tool, its scope covers it and its arguments fit; else it does not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faketools import ECHO, ERASE, MISSING, tool
from fumehood.code.backend import Answer, Tool
from fumehood.code.gate import Allow, BadAnswerError, Deny, Gate, Rule, Scope, ScopeError, write
from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError, TooLargeError, UnknownToolError

TOOLS = [ECHO, MISSING, ERASE]
NAMES = [one.name for one in TOOLS]
FITS: Any = {"words": "hello"}


def denied(gate: Gate, name: str, arguments: Any) -> Deny:
    decision = gate.decide(name, write(arguments))
    assert isinstance(decision, Deny)
    return decision


def taking(properties: Any, **more: Any) -> Gate:
    """A gate before one tool `s.t`."""
    return Gate([tool("s.t", properties=properties, **more)], allowed=["s.t"])


def test_a_call_that_fits_is_allowed() -> None:
    assert Gate(TOOLS, allowed=NAMES).decide("fake.echo", write(FITS)) == Allow(tool=ECHO, arguments=FITS)


@pytest.mark.threat("C1")
@pytest.mark.parametrize("name", ["fake.missing", "fake.nothing", "FAKE.ECHO", "fake.echo ", "", "fake.echo\0"])
def test_a_tool_that_the_job_does_not_name_is_refused_as_if_it_did_not_exist(name: str) -> None:
    decision = denied(Gate(TOOLS, allowed=["fake.echo"]), name, {})
    assert decision.rule is Rule.NOT_ALLOWED
    assert isinstance(decision.error, UnknownToolError)
    assert "is no tool of this run" in decision.error.message


@pytest.mark.threat("C1")
def test_nothing_is_allowed_by_an_empty_list() -> None:
    gate = Gate(TOOLS, allowed=())
    assert gate.tools == []
    assert denied(gate, "fake.echo", FITS).rule is Rule.NOT_ALLOWED


@pytest.mark.threat("C1")
def test_a_tool_that_writes_needs_the_scope_to_write() -> None:
    reading, writing = Gate(TOOLS, allowed=NAMES), Gate(TOOLS, allowed=NAMES, scope=Scope.WRITE)
    decision = denied(reading, "fake.erase", {})
    assert decision.rule is Rule.SCOPE
    assert isinstance(decision.error, ScopeError)
    assert ERASE not in reading.tools
    assert isinstance(writing.decide("fake.erase", write({})), Allow)


def test_a_tool_of_which_nobody_says_that_it_reads_writes() -> None:
    unsaid = Tool(name="s.t", description="", input_schema={"type": "object"})
    assert denied(Gate([unsaid], allowed=["s.t"]), "s.t", {}).rule is Rule.SCOPE


@pytest.mark.threat("C1")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "words"),
        ({"words": 7}, "$.words"),
        ({"words": "a", "more": 1}, "more"),
        ([], "no object"),
        (None, "no object"),
        ("words", "no object"),
        ({"words": float("nan")}, "no JSON"),
        ({"words": "x" * limits.CODE_MESSAGE_BYTES}, "bytes"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_parameters_of_the_tool(arguments: Any, problem: str) -> None:
    decision = denied(Gate(TOOLS, allowed=NAMES), "fake.echo", arguments)
    assert decision.rule is Rule.ARGUMENTS
    assert isinstance(decision.error, InvalidArgumentsError)
    assert problem in decision.error.message
    assert decision.error.remedy == "it takes words (string, required)"


def test_the_parameters_are_listed_with_the_required_ones_first_and_cut() -> None:
    many: dict[str, Any] = {f"p{i}": {"type": "string"} for i in range(limits.CODE_LISTED_PARAMETERS + 9)}
    gate = taking({**many, "last": {"type": ["string", "null"]}, "any": True}, required=["last"])
    remedy = denied(gate, "s.t", {}).error.remedy
    assert remedy.startswith("it takes last (string or null, required), p0 (string), ")
    assert remedy.endswith(", …")
    assert denied(taking({}), "s.t", {"a": 1}).error.remedy == "it takes no parameters"
    assert denied(taking({"any": True}), "s.t", {"b": 1}).error.remedy == "it takes any"


def test_no_value_of_the_arguments_stands_in_the_refusal() -> None:
    error = denied(Gate(TOOLS, allowed=NAMES), "fake.echo", {"words": ["planted-value"]}).error
    assert "planted-value" not in str(error)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "not one of objects"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/"}}}, "no pointer within"),
        ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "not a JSON Schema"),
        ({"type": "object", "not": {"properties": {"a": {"pattern": "(?=a)"}}}}, "no linear form"),
    ],
)
def test_a_tool_whose_schema_cannot_be_held_is_left_out_with_the_reason(schema: Any, reason: str) -> None:
    unfit = Tool(name="s.unfit", description="", input_schema=schema, writes=False)
    gate = Gate([unfit, ECHO], allowed=["s.unfit", "fake.echo"])
    assert reason in gate.left_out["s.unfit"]
    assert gate.tools == [ECHO]
    assert denied(gate, "s.unfit", {}).rule is Rule.NOT_ALLOWED


@pytest.mark.threat("C1")
def test_arguments_that_would_take_endless_steps_are_refused_unchecked() -> None:
    doubling = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(25)} | {
        "d25": {"type": "string"}
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubling}
    gate = Gate([Tool(name="s.t", description="", input_schema=schema, writes=False)], allowed=["s.t"])
    assert "cannot be checked" in denied(gate, "s.t", {"a": "x"}).error.message
    assert isinstance(gate.decide("s.t", write({})), Allow)


def test_tools_are_named_once_each_and_only_when_they_may_be_called() -> None:
    gate = Gate(TOOLS, allowed=["fake.echo", "fake.missing"])
    assert gate.named(["fake.missing", "fake.echo", "fake.missing"]) == [MISSING, ECHO]
    with pytest.raises(UnknownToolError, match="erase"):
        gate.named(["fake.echo", "fake.erase"])


def test_an_answer_that_fits_is_passed_with_both_halves() -> None:
    gate = Gate(TOOLS, allowed=NAMES)
    answer = Answer(text="hi", structured={"length": 2})
    assert gate.passed(ECHO, answer).value == {"text": "hi", "structured": {"length": 2}}
    assert gate.passed(MISSING, Answer(text="x")).value == {"text": "x", "structured": None}


@pytest.mark.parametrize("structured", [None, {}, {"length": "2"}, [1], {"length": float("inf")}])
def test_an_answer_that_does_not_fit_its_own_schema_is_not_passed(structured: Any) -> None:
    with pytest.raises(BadAnswerError, match=r"output schema|passed on"):
        Gate(TOOLS, allowed=NAMES).passed(ECHO, Answer(text="", structured=structured))


def test_an_answer_that_is_no_json_is_not_passed() -> None:
    with pytest.raises(BadAnswerError, match="no JSON"):
        Gate(TOOLS, allowed=NAMES).passed(MISSING, Answer(text="\ud800"))


@pytest.mark.threat("C1")
def test_an_answer_larger_than_a_child_is_sent_is_not_passed() -> None:
    with pytest.raises(TooLargeError, match="bytes"):
        Gate(TOOLS, allowed=NAMES).passed(MISSING, Answer(text="x" * limits.CODE_ANSWER_BYTES))


def test_as_many_tools_are_offered_as_a_run_may_have() -> None:
    many = [tool(f"s.t{i}") for i in range(limits.CODE_TOOLS + 5)]
    assert len(Gate(many, allowed={one.name for one in many}).tools) == limits.CODE_TOOLS


def test_a_digest_tells_equal_arguments_from_others() -> None:
    same, again, other = (write({"a": number}).digest() for number in (1, 1, 2))
    assert same == again != other
    assert len(same) == 64
    assert write({"a": float("nan")}).digest() == write({"a": float("nan")}).data.decode() == ""


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from([*NAMES, "other"]) | st.text(max_size=20), JSON | st.just(FITS), st.sets(st.sampled_from(NAMES)))
def test_only_a_named_tool_that_reads_and_arguments_that_fit_are_ever_allowed(
    name: str, arguments: Any, allowed: set[str]
) -> None:
    match Gate(TOOLS, allowed=allowed).decide(name, write(arguments)):
        case Allow(tool=chosen):
            assert chosen.name == name
            assert name in allowed
            assert not chosen.writes
            assert isinstance(arguments, dict)
            json.dumps(arguments, allow_nan=False)
        case Deny(error=error):
            assert str(error).isprintable()
