"""serve.service: calls in, results out, with the real controls and a tool of the test's own."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content.control import Controls
from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError, HarnessError, NotFoundError, UnknownToolError
from fumehood.core.untrusted import Untrusted
from fumehood.serve import registry
from fumehood.serve.context import Context
from fumehood.serve.service import Service
from fumehood.serve.tool import Arguments, Schema, Tool, ToolName
from fumehood.wire import schema
from fumehood.wire.published import LOCAL

INPUT: Schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
OUTPUT: Schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOKEN = "ghp_" + "A" * 36


def tool(run: Callable[[Arguments, Context], Answer], **changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "name": ToolName("read"),
        "title": "Read",
        "description": "Read.",
        "input_schema": INPUT,
        "output_schema": OUTPUT,
        "run": run,
    }
    return Tool(**{**fields, **changes})


def answering(text: bytes, **facts: Any) -> Callable[[Arguments, Context], Answer]:
    return lambda _arguments, _context: Answer(
        passages=(Passage(text=Untrusted(text, source="file"), first_line=1),), facts={"path": "a", **facts}
    )


def refusing(error: Exception) -> Callable[[Arguments, Context], Answer]:
    def run(_arguments: Arguments, _context: Context) -> Answer:
        raise error

    return run


def service(*tools: Tool, **more: Any) -> Service:
    controls = Controls(key=b"k" * 32)
    return Service(tools=tools, context=lambda _: cast("Context", None), controls=controls, version="0", **more)


def call(one: Tool) -> Any:
    return service(one).call("read", {}, Budget(), LOCAL)


def test_a_result_has_two_halves_and_fits_its_output_schema() -> None:
    one = tool(answering(b"hello\n"))
    result = call(one)
    assert result["isError"] is False
    assert "hello" in result["content"][0]["text"]
    assert "hello" not in json.dumps(result["structuredContent"])
    assert schema.problems(registry.output_schema(one), result["structuredContent"]) == []


def test_a_refusal_is_a_result_with_code_and_remedy_that_fits_the_schema_too() -> None:
    one = tool(refusing(NotFoundError("'x' does not exist", remedy="list the folder above it")))
    result = call(one)
    facts = result["structuredContent"]
    assert (result["isError"], facts["error"], facts["remedy"]) == (True, "not_found", "list the folder above it")
    assert schema.problems(registry.output_schema(one), facts) == []
    assert "list the folder above it" in result["content"][0]["text"]
    assert facts["redaction"] == {"applied": False, "count": 0, "rules": {}}


def test_a_fault_of_ours_says_the_next_step_too_and_its_cause_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    facts = call(tool(refusing(HarnessError("ripgrep ended with status 9"))))["structuredContent"]
    assert (facts["error"], "log" in facts["remedy"]) == ("harness", True)
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.threat("T11")
def test_what_weakens_a_control_stands_in_every_result_and_refusal() -> None:
    names = ("content.unsafe_no_scanning", "workspace.unsafe_follow_links")
    for run in (answering(b"hello\n"), refusing(NotFoundError("'x' does not exist", remedy="look"))):
        result = cast("dict[str, Any]", service(tool(run), weakened=names).call("read", {}, Budget(), LOCAL))
        assert result["structuredContent"]["weakened"] == [*names]
        assert schema.problems(registry.output_schema(tool(run)), result["structuredContent"]) == []
        assert "weakened" not in call(tool(run))["structuredContent"]


def test_a_result_of_neither_kind_does_not_fit() -> None:
    one = tool(answering(b""))
    assert schema.problems(registry.output_schema(one), {"path": "a"}) != []
    assert schema.problems(registry.output_schema(one), {"error": "not_found"}) != []


@pytest.mark.threat("T4")
@given(text=st.text(max_size=30), place=st.sampled_from(["text", "fact", "key", "error"]))
def test_no_byte_of_the_envelope_holds_a_credential(text: str, place: str) -> None:
    runs = {
        "text": answering(f"{text} {TOKEN}\n".encode("utf-8", "replace")),
        "fact": answering(b"", note=[{"deep": f"{text} {TOKEN}"}]),
        "key": answering(b"", note={f"{text} {TOKEN}": 1}),
        "error": refusing(NotFoundError(f"{text!a} {TOKEN} does not exist", remedy="x")),
    }
    assert TOKEN not in json.dumps(call(tool(runs[place])))


@pytest.mark.threat("T10")
def test_what_is_no_error_of_ours_is_left_to_the_rim() -> None:
    with pytest.raises(ZeroDivisionError):
        call(tool(refusing(ZeroDivisionError("/srv/secret/place"))))


def test_an_unknown_tool_is_no_result() -> None:
    with pytest.raises(UnknownToolError, match="no such tool"):
        service(tool(answering(b""))).call("write", {}, Budget(), LOCAL)


@pytest.mark.threat("T8")
def test_an_answer_that_no_client_could_take_is_refused() -> None:
    line = b"x" * 1000 + b"\n"
    result = call(tool(answering(line * (limits.ENVELOPE_BYTES // 6 // 1000 + 1))))
    assert result["structuredContent"]["error"] == "too_large"


@pytest.mark.threat("T12")
@pytest.mark.parametrize(
    "change",
    [
        {"input_schema": {**INPUT, "additionalProperties": True}},
        {"input_schema": {"type": "string"}},
        {"input_schema": {**INPUT, "properties": {"a": {"$ref": "http://127.0.0.1/x"}}}},
        {"output_schema": {**OUTPUT, "allOf": [{"items": [{"$ref": "file:///etc/passwd"}]}]}},
        {"output_schema": {**OUTPUT, "$id": "http://127.0.0.1/"}},
    ],
)
def test_a_schema_that_is_open_or_leads_outside_is_not_published(change: dict[str, Any]) -> None:
    with pytest.raises(HarnessError):
        service(tool(answering(b""), **change))


def test_two_tools_of_one_name_are_not_published_and_a_local_reference_is() -> None:
    with pytest.raises(HarnessError):
        service(tool(answering(b"")), tool(answering(b"")))
    local = {**INPUT, "$defs": {"p": {"type": "string"}}, "properties": {"path": {"$ref": "#/$defs/p"}}}
    assert service(tool(answering(b""), input_schema=local)).definitions()[0]["inputSchema"] == local


def test_every_definition_says_that_it_only_reads() -> None:
    (definition,) = service(tool(answering(b""))).definitions()
    annotations = cast("dict[str, Any]", definition["annotations"])
    assert annotations["readOnlyHint"] is True
    assert annotations["destructiveHint"] is False
    assert annotations["openWorldHint"] is False


def test_a_refusal_from_in_front_of_the_tools_has_the_same_shape() -> None:
    class BusyHereError(FumehoodError):
        code = "busy"

    result = service(tool(answering(b""))).refused(BusyHereError("too many calls", remedy="try again"))
    assert cast("dict[str, Any]", result["structuredContent"])["error"] == "busy"
    assert result["isError"] is True
