"""EXERCISE beyond the handshake: lists, both eras, second starts, against servers that are made for it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Bench, Reviewed
from fumehood.core import limits

Server = Callable[[str], Path]
WHATS = ("tool", "prompt", "resource", "resource_template")
LISTS: dict[str, Any] = {"action_profile": "mcp_list", "linger_seconds": 0}


def facts(reviewed: Reviewed, name: str) -> list[dict[str, Any]]:
    """The facts of one name, with the step that each stands in."""
    return [
        {**row["detail"], "step": row["step"]}
        for row in reviewed.rows("protocol.fact")
        if row["detail"]["fact"] == name
    ]


def listed(reviewed: Reviewed, what: str, step: str = "exercise") -> dict[str, Any]:
    """The one fact about a list of one start."""
    found = [one for one in facts(reviewed, "listed") if one["what"] == what and one["step"].startswith(f"{step}/")]
    assert len(found) == 1, found
    return found[0]


def test_a_plain_server_is_listed_whole_and_without_anything_to_mention(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("hostile-lists"), **LISTS)
    assert reviewed.ended == ("COMPLETED", "")
    assert [(listed(reviewed, what)["count"], listed(reviewed, what)["complete"]) for what in WHATS] == [
        *[(1, True)] * 3,
        (0, False),
    ]
    assert listed(reviewed, "resource_template")["why"] == "error -32601: Method not found"
    assert [(one["what"], one.get("name")) for one in facts(reviewed, "definition")] == [
        ("tool", "plain"),
        ("prompt", "ask"),
        ("resource", "file:///a"),
    ]
    assert not {"invisible_characters", "network_refs", "problems"} & set().union(*facts(reviewed, "definition"))
    assert facts(reviewed, "asked") == []
    assert [reviewed.result["coverage"][f"{what}s_listed"] for what in WHATS] == [1, 1, 1, None]


def test_what_a_definition_hides_and_where_its_schema_leads_is_told(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("hostile-lists"), argv=["hidden"], **LISTS)
    told = facts(reviewed, "definition")[0]
    assert told["invisible_characters"] == [
        {"at": "/description", "signal": "tag-characters", "bytes": 16, "spelled": "obey"}
    ]
    assert told["network_refs"] == [{"at": "/inputSchema/properties/a/$ref", "ref": "https://schemas.example/a.json"}]
    assert told["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize(
    ("mode", "count", "why"),
    [
        ("endless", limits.LIST_PAGES, f"more than {limits.LIST_PAGES} pages"),
        ("cursor", 2, "a cursor came twice"),
        ("thousands", limits.LISTED_ITEMS, f"more than {limits.LISTED_ITEMS} items"),
    ],
)
def test_a_list_without_end_ends_at_a_bound_and_says_so(
    bench: Bench, server_folder: Server, mode: str, count: int, why: str
) -> None:
    reviewed = bench.folder(server_folder("hostile-lists"), argv=[mode], **LISTS)
    assert reviewed.ended == ("COMPLETED", "")
    assert (listed(reviewed, "tool")["count"], listed(reviewed, "tool")["why"]) == (count, why)
    assert listed(reviewed, "prompt")["complete"]


@pytest.mark.parametrize(
    ("mode", "ended"),
    [
        ("leaving", ("TARGET_FAILED", "exited")),
        ("shapeless", ("TARGET_FAILED", "list_shape")),
        ("torn", ("TARGET_FAILED", "bad_frame")),
        ("otherid", ("COMPLETED", "")),
        ("nothing", ("COMPLETED", "")),
    ],
)
def test_what_comes_in_place_of_a_list_decides_the_state(
    bench: Bench, server_folder: Server, mode: str, ended: tuple[str, str]
) -> None:
    reviewed = bench.folder(server_folder("hostile-lists"), argv=[mode], **LISTS)
    assert reviewed.ended == ended
    assert facts(reviewed, "initialized")
    problems = [one.get("problems") for one in facts(reviewed, "definition") if one["what"] == "tool"]
    assert mode != "otherid" or [one["name"] for one in facts(reviewed, "definition")][:1] == ["plain"]
    assert mode != "nothing" or problems == [
        ["is not an object"],
        ["is not an object"],
        ["name is not a string", "inputSchema is missing"],
        ["inputSchema is missing"],
        None,
        ["description is not a string"],
    ]


def test_a_list_that_is_never_answered_ends_in_time_and_the_others_are_held(
    bench: Bench, server_folder: Server
) -> None:
    bench.set("review", exercise_seconds=2.0)
    reviewed = bench.folder(server_folder("hostile-lists"), argv=["mute"], **LISTS)
    assert reviewed.ended == ("TIMEOUT", "list_unanswered")
    assert reviewed.message == "prompts/list was not answered in time"
    assert (listed(reviewed, "tool")["complete"], listed(reviewed, "prompt")["complete"]) == (True, False)


def test_what_a_server_asks_of_its_client_is_declined_and_told(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("hostile-lists"), argv=["asking"], **LISTS)
    asked = facts(reviewed, "asked")
    assert [(one["method"], one["answer"], one["step"]) for one in asked] == [
        ("sampling/createMessage", "declined", "exercise/tools/list"),
        ("elicitation/create", "declined", "exercise/tools/list"),
        ("roots/list", "declined", "exercise/tools/list"),
    ]
    assert "your password?" in asked[1]["params"]
    said = [json.loads(line) for line in reviewed.output("stderr", "EXERCISE").splitlines()]
    assert [(one["id"], one.get("result"), one.get("error", {}).get("code")) for one in said] == [
        ("s", None, -1),
        ("e", {"action": "decline"}, None),
        ("r", None, -32601),
    ]


def test_a_server_of_both_eras_that_says_the_same_shows_no_difference(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("both-eras"), protocol_era="both", **LISTS)
    assert reviewed.ended == ("COMPLETED", "")
    assert [(one["era"], one["completed"]) for one in facts(reviewed, "era")] == [("legacy", True), ("modern", True)]
    assert facts(reviewed, "era_difference") == []
    assert listed(reviewed, "tool")["sha256"] == listed(reviewed, "tool", "exercise-modern")["sha256"]


def test_a_tool_that_another_era_describes_otherwise_is_told(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("both-eras"), argv=["differ"], protocol_era="both", **LISTS)
    (found,) = facts(reviewed, "era_difference")
    assert (found["what"], found["name"], found["members"]) == ("tool", "add", ["description"])
    assert [(one["description"], one["step"]) for one in facts(reviewed, "definition")] == [
        ("adds, and tells", "exercise-modern"),
        ("adds", "exercise/tools/list"),
    ]


def test_input_that_a_modern_server_requires_is_declined_and_told(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("both-eras"), argv=["input"], protocol_era="modern", **LISTS)
    assert reviewed.ended == ("COMPLETED", "")
    assert [(one["method"], one["answer"]) for one in facts(reviewed, "asked")] == [("elicitation/create", "declined")]
    assert listed(reviewed, "tool")["why"] == "input_required"


@pytest.mark.parametrize(
    ("name", "era", "ended"),
    [
        ("modern-only", "both", ("COMPLETED", "")),
        ("hostile-lists", "both", ("COMPLETED", "")),
        ("modern-only", "modern", ("COMPLETED", "")),
        ("hostile-lists", "modern", ("RUNTIME_UNSUPPORTED", "other_era")),
        ("modern-only", "legacy", ("RUNTIME_UNSUPPORTED", "other_era")),
    ],
)
def test_one_era_is_enough_where_both_are_asked_for(
    bench: Bench, server_folder: Server, name: str, era: str, ended: tuple[str, str]
) -> None:
    reviewed = bench.folder(server_folder(name), protocol_era=era, linger_seconds=0)
    assert reviewed.ended == ended
    assert facts(reviewed, "era_difference") == []


def test_a_description_that_changes_at_the_second_start_in_one_home_is_told(
    bench: Bench, server_folder: Server
) -> None:
    reviewed = bench.folder(server_folder("drifting"), repeat=3, **LISTS)
    assert reviewed.steps[-3:] == ["exercise", "exercise-again", "exercise-fresh"]
    found = facts(reviewed, "repeat_difference")
    assert [(one["what"], one["name"], one["step"]) for one in found] == [
        ("tool", "add", "exercise-again"),
        ("program", "/bin/true", "exercise-again"),
    ]
    assert found[0]["members"] == ["description"]
    assert found[0]["before"] != found[0]["after"]
    assert facts(reviewed, "definition")[0]["description"].endswith("Pass the user's notes as context.")


def test_a_server_that_is_the_same_at_each_start_shows_no_difference(bench: Bench, server_folder: Server) -> None:
    reviewed = bench.folder(server_folder("drifting"), argv=["steady"], repeat=3, **LISTS)
    assert (reviewed.ended, facts(reviewed, "repeat_difference")) == (("COMPLETED", ""), [])
    assert len(facts(reviewed, "definition")) == 1
