"""mcp_call: every tool is called, and what the machine did meanwhile stands under the tool that was called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Bench, Reviewed
from fumehood.core import limits

Server = Callable[[str], Path]
CALLS: dict[str, Any] = {"action_profile": "mcp_call", "network_mode": "SINKHOLE", "linger_seconds": 0}


def facts(reviewed: Reviewed, name: str) -> list[dict[str, Any]]:
    return [row["detail"] for row in reviewed.rows("protocol.fact") if row["detail"]["fact"] == name]


def where(reviewed: Reviewed, kind: str, **has: object) -> set[str]:
    """The steps of the rows of a type in EXERCISE that have this in their detail."""
    return {
        row["step"]
        for row in reviewed.rows(kind, "EXERCISE")
        if all(row["detail"].get(key) == value for key, value in has.items())
    }


def test_what_a_tool_does_stands_under_the_tool_and_nowhere_else(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("calling"), argv=["echo", "runs", "writes", "posts"], **CALLS)

    assert reviewed.ended == ("COMPLETED", "")
    assert where(reviewed, "process.exec", program="/bin/echo") == {"exercise/tools/call:runs"}
    written = {"exercise/tools/call:writes"}
    assert where(reviewed, "filesystem.created", path=f"{reviewed.workspace}/written-by-a-tool.txt") == written
    posts = {"exercise/tools/call:posts"}
    assert where(reviewed, "network.dns", name="mail.example") == posts
    assert where(reviewed, "network.http", target="/from-a-tool") == posts
    assert where(reviewed, "network.connect", port=80) == posts
    coverage = reviewed.result["coverage"]
    assert (coverage["tools_listed"], coverage["tools_called"]) == (4, 4)
    called = facts(reviewed, "called")
    assert [(one["tool"], one["call"], one["members"]) for one in called] == [
        *((name, 1, "required") for name in ("echo", "runs", "writes", "posts")),
        *((name, 2, "all") for name in ("echo", "runs", "writes", "posts")),
    ]
    assert {one["valid"] for one in called} == {True}
    assert called[0]["text"] == "you said The weather is fine."
    assert called[6]["arguments"] == '{"message":"The weather is fine.","path":"{workspace}/package.json"}'


def test_a_tool_that_does_nothing_leaves_nothing(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("calling"), **CALLS)

    assert reviewed.ended == ("COMPLETED", "")
    assert reviewed.changes("EXERCISE") == {}
    assert where(reviewed, "process.exec") == {"exercise/initialize"}
    for kind in ("network.dns", "network.http"):
        assert where(reviewed, kind) == set()
    assert facts(reviewed, "not_called") == facts(reviewed, "call_difference") == []


@pytest.mark.threat("R33")
def test_each_way_in_which_a_call_ends_is_told_and_the_next_tool_is_called(
    bench: Bench, server_folder: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TOOL_CALL_SECONDS", 2.0)
    argv = ["fails", "refuses", "changes", "floods", "large", "never", "echo", "ends"]
    reviewed = bench.folder(server_folder("calling"), argv=argv, **CALLS)

    assert reviewed.ended == ("TARGET_FAILED", "exited")
    assert "tools/call:ends was not answered" in reviewed.message
    outcomes = {one["tool"]: one["outcome"] for one in facts(reviewed, "called")}
    assert outcomes == {
        "fails": "tool_error",
        "refuses": "error",
        "changes": "result",
        "floods": "result",
        "large": "unreadable",
        "never": "timeout",
        "echo": "result",
        "ends": "ended",
    }
    assert reviewed.result["coverage"]["tools_called"] == len(argv)


def test_a_description_that_changes_once_a_tool_was_used_is_told(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("calling"), argv=["changes"], **CALLS)

    (changed,) = facts(reviewed, "call_difference")
    assert (changed["what"], changed["name"], changed["members"]) == ("tool", "changes", ["description"])
    assert [one["description"] for one in facts(reviewed, "definition")] == ["Used before.", "A tool."]


def test_two_reviews_send_the_same_whatever_the_folder_is_called(bench: Bench, server_folder: Server) -> None:
    one, other = (bench.folder(server_folder("calling"), **CALLS) for _ in range(2))

    sent = [[call["arguments_sha256"] for call in facts(each, "called")] for each in (one, other)]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 2
    assert [fact["seed"] for fact in facts(one, "inputs")] == [fact["seed"] for fact in facts(other, "inputs")]
