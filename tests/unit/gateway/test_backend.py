"""The tools of a workspace as a source: what is passed to the server, and how its answers are read."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code.backend import Answer
from fumehood.core.errors import FumehoodError, HarnessError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.backend import ToolRefusedError, Workspace, workspace
from fumehood.gateway.upstreams.served import ServedFolder

DEFINITION: dict[str, Any] = {
    "name": "read",
    "description": "Read.",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}

WORDS = [
    "tools",
    "name",
    "description",
    "inputSchema",
    "content",
    "text",
    "type",
    "structuredContent",
    "isError",
    "error",
]


class Server:
    """Answers every request with one result."""

    def __init__(self, result: JsonValue) -> None:
        self.heard: list[Any] = []
        self._result = result

    async def ask(self, method: str, params: Any, *, seconds: float) -> JsonValue:
        self.heard.append((method, params, seconds > 0))
        return self._result


def answered(result: JsonValue) -> Answer:
    made = Workspace(Server(result), {"tools": [DEFINITION]})  # type: ignore[arg-type]  # it has the one method
    return asyncio.run(made.call("workspace.read", {"path": "x"}))


def test_definitions_become_tools_of_the_workspace() -> None:
    server: Any = Server(None)
    more = {**DEFINITION, "name": "other", "annotations": {"readOnlyHint": "yes"}, "outputSchema": None}
    first, second, third = Workspace(server, {"tools": [DEFINITION, more, {**DEFINITION, "annotations": None}]}).tools
    assert (first.name, first.description, first.writes) == ("workspace.read", "Read.", False)
    assert first.output_schema == {"type": "object"}
    assert (second.name, second.writes, second.output_schema) == ("workspace.other", True, None)
    assert third.writes


@pytest.mark.parametrize("listed", [None, [], {}, {"tools": {}}, {"tools": [1]}, {"tools": [{"name": "x"}]}])
def test_a_list_that_is_none_is_a_fault(listed: Any) -> None:
    server: Any = Server(None)
    with pytest.raises(HarnessError):
        Workspace(server, listed)


def test_a_call_is_asked_by_the_tool_s_own_name() -> None:
    server: Any = Server({"content": []})
    asyncio.run(Workspace(server, {"tools": [DEFINITION]}).call("workspace.read", {"path": "x"}))
    assert server.heard == [("tools/call", {"name": "read", "arguments": {"path": "x"}}, True)]


def test_the_words_of_an_answer_are_joined_and_its_values_kept() -> None:
    content: Any = [{"type": "text", "text": "a"}, {"type": "image"}, 7, {"type": "text", "text": 1}]
    answer = answered({"content": [*content, {"type": "text", "text": "b"}], "structuredContent": {"n": 1}})
    assert answer == Answer(text="a\nb", structured={"n": 1})


def test_a_refusal_has_the_code_the_words_and_the_next_step() -> None:
    facts: Any = {"error": "not_found", "message": "nothing there", "remedy": "look"}
    with pytest.raises(ToolRefusedError) as caught:
        answered({"content": [], "structuredContent": facts, "isError": True})
    assert str(caught.value) == "not_found: nothing there (look)"


def test_a_refusal_without_values_has_its_text() -> None:
    with pytest.raises(ToolRefusedError, match=r"^just words$"):
        answered({"content": [{"type": "text", "text": "just words"}], "isError": True})


@pytest.mark.parametrize("result", [None, [], {}, {"content": "x"}])
def test_an_answer_that_is_no_result_is_a_fault(result: Any) -> None:
    with pytest.raises(HarnessError):
        answered(result)


@pytest.mark.sandbox
def test_a_real_workspace_is_listed_read_and_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    async def go() -> Answer:
        async with workspace(ServedFolder(folder=tmp_path, environ=os.environ)) as source:
            assert "workspace.read_file" in [tool.name for tool in source.tools]
            assert not any(tool.writes for tool in source.tools)
            with pytest.raises(ToolRefusedError, match="outside_workspace"):
                await source.call("workspace.read_file", {"path": "../x"})
            many = [source.call("workspace.read_file", {"path": "a.txt"}) for _ in range(16)]
            return (await asyncio.gather(*many))[-1]

    answer = asyncio.run(go())
    assert "two" in answer.text
    assert isinstance(answer.structured, dict)
    assert answer.structured["total_lines"] == 2


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_whatever_a_server_says_is_a_tool_an_answer_or_an_error_of_ours(listed: Any, result: Any) -> None:
    server: Any = Server(result)
    with contextlib.suppress(FumehoodError):
        assert all(tool.name.startswith("workspace.") for tool in Workspace(server, listed).tools)
    with contextlib.suppress(FumehoodError):
        answer = asyncio.run(Workspace(server, {"tools": [DEFINITION]}).call("workspace.read", {}))
        assert isinstance(answer.text, str)
        assert result.get("isError") is not True
