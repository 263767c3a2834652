"""Every fixture server as a `dir` target without a network: its state, and the fact that it is made for."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Bench, Reviewed

pytestmark = pytest.mark.sandbox
Find = Callable[[str], Reviewed]

SERVERS = Path(__file__).parents[1] / "fixtures/servers"
ENDS = {name: (state, code) for name, (state, code) in tomllib.loads((SERVERS / "ends.toml").read_text()).items()}


PLAIN = ("deep", "malformed", "other-id", "slow")  # one message each, which the tests of the wire cover as well
EACH = [pytest.param(name, marks=pytest.mark.long if name in PLAIN else ()) for name in sorted(ENDS)]


def test_no_fixture_server_is_forgotten(server_folder: Callable[[str], Path]) -> None:
    folders = {path.name for path in server_folder("silent").parent.iterdir() if path.is_dir()} | {"safe"}
    assert folders == set(ENDS)


@pytest.mark.parametrize("name", EACH)
def test_each_server_ends_in_the_state_it_is_made_for(reviewed: Find, name: str) -> None:
    assert reviewed(name).ended == ENDS[name], reviewed(name).result["errors"]


def test_a_completed_review_shows_the_handshake_and_the_receipt(reviewed: Find) -> None:
    safe = reviewed("safe")
    (fact,) = safe.details("protocol.fact")
    assert fact["fact"] == "initialized"
    assert (fact["protocol_version"], fact["server_name"]) == ("2025-06-18", "fumehood-demo-server")
    assert fact["initialized_sent"] is True
    frames = [(f["direction"], f["kind"]) for f in safe.details("protocol.frame")]
    assert frames == [("sent", "request"), ("received", "response"), ("sent", "notification")]
    assert safe.changes("EXERCISE") == {f"{safe.workspace}/received.jsonl": "created"}
    assert safe.changes("INSTALL") == {}
    assert safe.steps == ["fetch", "install", "exercise"]


def test_nothing_is_asked_of_a_registry_that_is_not_needed(reviewed: Find) -> None:
    assert [row for row in reviewed("safe").result["observations"]["items"] if row["type"].startswith("network.")] == []


def test_a_second_answer_is_counted_and_changes_nothing(reviewed: Find) -> None:
    assert reviewed("answers-twice").collector("protocol", "EXERCISE")["counts"]["answers_beyond_the_first"] == 1
    assert reviewed("safe").collector("protocol", "EXERCISE")["counts"]["answers_beyond_the_first"] == 0


def test_requests_of_the_server_are_listed_and_answered(reviewed: Find) -> None:
    asking = reviewed("asking")
    received = [f for f in asking.details("protocol.frame") if f["direction"] == "received"]
    methods = {f["method"] for f in received if f["kind"] == "request"}
    assert methods == {"roots/list", "sampling/createMessage", "ping"}
    assert asking.changes("EXERCISE") == {f"{asking.workspace}/answers.jsonl": "created"}


def test_a_wrong_answer_is_told_with_its_places(reviewed: Find) -> None:
    assert "serverInfo" in reviewed("bad-shape").message


def test_a_build_is_a_phase_of_its_own(reviewed: Find) -> None:
    built = reviewed("build-required")
    assert built.steps == ["fetch", "install", "build", "exercise"]
    assert built.changes("PREPARE")[f"{built.workspace}/dist/index.js"] == "created"
    assert built.changes("INSTALL") == {}
    assert built.result["provenance"]["preparation"] == {"profile": "npm_build", "status": "completed"}
    assert built.result["provenance"]["entrypoint"] == "dist/index.js"
    assert built.output("stdout", "PREPARE").endswith("built dist/index.js\n")


def test_without_its_build_there_is_no_entrypoint(server_folder: Callable[[str], Path], bench: Bench) -> None:
    reviewed = bench.folder(server_folder("build-required"), entrypoint="dist/index.js")
    assert reviewed.ended == ("TARGET_FAILED", "no_entrypoint")
    assert reviewed.steps == ["fetch", "install"]


def test_an_error_reply_is_quoted_inert(reviewed: Find) -> None:
    assert "-32603" in reviewed("error-reply").message
    assert "no database" in reviewed("error-reply").message


def test_an_early_exit_tells_its_status(reviewed: Find) -> None:
    assert "status 0" in reviewed("exit-early").message
    assert "status 1" in reviewed("failing").message
    assert reviewed("failing").output("stderr", "EXERCISE") == "error: FIXTURE_TOKEN is not set\n"


def test_a_failed_hook_ends_the_review_before_the_server_starts(reviewed: Find) -> None:
    failed = reviewed("failing-hook")
    assert failed.steps == ["fetch", "install"]
    assert "hook: cannot go on" in failed.output("stderr", "INSTALL")
    exits = [(e["program"], e["status"]) for e in failed.details("process.exit", "INSTALL")]
    assert ("/usr/bin/sh", 3) in exits
    assert failed.rows("process.exec", "EXERCISE") == []


def test_an_entrypoint_that_a_hook_made_a_link_is_not_started(reviewed: Find) -> None:
    swapped = reviewed("link-swapping")
    assert swapped.steps == ["fetch", "install"]
    changes = swapped.changes("INSTALL")
    assert changes[f"{swapped.home}/outside.js"] == "created"
    assert changes[f"{swapped.workspace}/server.js"] == "changed"


@pytest.mark.parametrize("name", ["modern-only", "old-version"])
def test_another_protocol_is_no_sign_of_anything_unsafe(reviewed: Find, name: str) -> None:
    assert "no sign of anything unsafe" in reviewed(name).message


def test_what_the_server_offers_is_told(reviewed: Find) -> None:
    assert "2024-11-05" in reviewed("old-version").message


@pytest.mark.parametrize("name", EACH)
def test_every_sensor_of_every_phase_says_whether_it_worked(reviewed: Find, name: str) -> None:
    result = reviewed(name).result
    phases = {step["phase"] for step in result["execution"]["steps"]}
    for phase in phases:
        names = {c["name"] for c in result["collectors"] if c["phase"] == phase}
        assert {"layer", "strace", "egress", "output"} <= names
    assert [c for c in result["collectors"] if c["state"] != "active"] == []
    assert result["coverage"]["events_lost"] == 0
    assert len(reviewed(name).events.splitlines()) == result["coverage"]["events_written"]
    assert result["observations"]["total"] == result["coverage"]["events_written"]
