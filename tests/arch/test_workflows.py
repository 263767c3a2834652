"""What the workflows promise, read from the files themselves; each promise has a mutation that breaks it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github/workflows"
NAMES = ("ci.yml", "codeql.yml", "runtime-review.yml", "runtime-reviews.yml")
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
# What a pull request's author chooses; none of it may reach any workflow.
FOREIGN = ("github.event", "github.head_ref", "github.actor", "github.ref_name", "secrets.", "vars.")


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def load(text: str) -> Any:
    yaml = YAML(typ="safe")
    return yaml.load(text)


def jobs(text: str) -> Iterator[dict[str, Any]]:
    yield from load(text)["jobs"].values()


def steps(text: str) -> Iterator[dict[str, Any]]:
    for job in jobs(text):
        yield from job["steps"]


def unpinned(text: str) -> list[str]:
    lines = [line.strip().removeprefix("- ") for line in text.splitlines() if "uses:" in line]
    return [line for line in lines if not PINNED.search(line)]


def in_every_workflow(text: str) -> list[str]:
    """What breaks a promise that every workflow makes."""
    document = load(text)
    checkouts = [step for step in steps(text) if "actions/checkout@" in step.get("uses", "")]
    checks = {
        "an action is not pinned": bool(unpinned(text)),
        "permissions at the top": document["permissions"] != {},
        "another runner": any(job["runs-on"] != "ubuntu-24.04" for job in jobs(text)),
        "no time limit": any("timeout-minutes" not in job for job in jobs(text)),
        "an error is ignored": "continue-on-error" in text,
        "credentials are kept": any(step["with"]["persist-credentials"] is not False for step in checkouts),
        "a trigger with the base's rights": any(word in text for word in ("pull_request_target", "workflow_run")),
        "foreign data": any(word in text for word in FOREIGN),
        "an expression inside a script": any("${{" in step.get("run", "") for step in steps(text)),
    }
    return [name for name, broken in checks.items() if broken]


def in_the_review(text: str) -> list[str]:
    """What breaks a promise of the workflow that runs a target from outside."""
    document = load(text)
    triggers = document.get("on", document.get(True))  # YAML 1.1 reads `on` as true
    uploads = [step["with"] for step in steps(text) if "upload-artifact@" in step.get("uses", "")]
    nodes = [step["with"] for step in steps(text) if "setup-node@" in step.get("uses", "")]
    checks = {
        "another trigger": list(triggers) != ["workflow_dispatch"],
        "another input": list(triggers["workflow_dispatch"]["inputs"]) != ["request_json"],
        "a permission": any("permissions" in job for job in jobs(text)),
        "the request elsewhere than in the environment": text.count("inputs.") != 1
        or "REQUEST_JSON: ${{ inputs.request_json }}" not in text,
        "the request as a word of a script": '"$REQUEST_JSON"' not in text or text.count("$REQUEST_JSON") != 1,
        "another Node": [node["node-version"] for node in nodes] != ["24"],
        "another artifact": [(u["name"], u["path"].rpartition("}}")[2], u["retention-days"]) for u in uploads]
        != [("mcp-runtime-result", "/mcp-runtime-result/result.json", 3)],
        "a readable checkout": 'chmod -R go-rwx "$GITHUB_WORKSPACE"' not in text,
    }
    return [name for name, broken in checks.items() if broken]


def in_the_matrix(text: str) -> list[str]:
    """What breaks a promise of the workflow that runs many targets, one a machine."""
    document = load(text)
    triggers = document.get("on", document.get(True))
    scripts = [step.get("run", "") for step in steps(text)]
    checks = {
        "another trigger": list(triggers) != ["workflow_dispatch"],
        "another input": list(triggers["workflow_dispatch"]["inputs"]) != ["requests_jsonl"],
        "a permission": any("permissions" in job for job in jobs(text)),
        "the requests elsewhere than in the environment": text.count("inputs.")
        != text.count("REQUESTS_JSONL: ${{ inputs.requests_jsonl }}"),
        "a request as a word of a script": any(
            "$REQUESTS_JSONL" in line
            and not line.strip().removeprefix("count=$(").startswith("printf '%s\\n' \"$REQUESTS_JSONL\" |")
            for script in scripts
            for line in script.splitlines()
        ),
        "one machine for several": document["jobs"]["review"]["strategy"]["matrix"].keys() != {"line"},
        "a readable checkout": 'chmod -R go-rwx "$GITHUB_WORKSPACE"' not in text,
    }
    return [name for name, broken in checks.items() if broken]


@pytest.mark.parametrize("name", NAMES)
def test_every_workflow_keeps_the_promises_of_all(name: str) -> None:
    assert in_every_workflow(read(name)) == []


def test_there_is_no_workflow_without_these_checks() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.threat("R14")
def test_the_review_takes_one_request_as_data_and_keeps_one_file() -> None:
    assert in_the_review(read("runtime-review.yml")) == []


def test_only_the_review_can_be_dispatched_or_takes_an_input() -> None:
    for name in NAMES[:2]:
        assert "workflow_dispatch" not in read(name)
        assert "inputs." not in read(name)


@pytest.mark.threat("R14")
def test_the_reviews_take_their_requests_as_data_and_a_machine_each() -> None:
    assert in_the_matrix(read("runtime-reviews.yml")) == []


@pytest.mark.threat("R14")
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("  workflow_dispatch:", "  push:\n  workflow_dispatch:", "another trigger"),
        ("    steps:", "    permissions: {contents: read}\n    steps:", "a permission"),
        ("umask 077", "echo ${{ inputs.requests_jsonl }}", "the requests elsewhere than in the environment"),
        ("umask 077", 'eval "$REQUESTS_JSONL"', "a request as a word of a script"),
        ("        line: ", "        worker: [1]\n        line: ", "one machine for several"),
        ("chmod -R go-rwx", "true", "a readable checkout"),
    ],
)
def test_a_workflow_of_many_that_breaks_its_promise_is_found(old: str, new: str, finding: str) -> None:
    text = read("runtime-reviews.yml")
    assert old in text
    assert finding in in_the_matrix(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("@df4cb1c069e1874edd31b4311f1884172cec0e10 # v6.0.3", "@v6", "an action is not pinned"),
        ("permissions: {}", "permissions: write-all", "permissions at the top"),
        ("runs-on: ubuntu-24.04", "runs-on: self-hosted", "another runner"),
        ("timeout-minutes: 20", "env: {}", "no time limit"),
        ("timeout-minutes: 20", "timeout-minutes: 20\n    continue-on-error: true", "an error is ignored"),
        ("persist-credentials: false", "persist-credentials: true", "credentials are kept"),
        ("workflow_dispatch:", "pull_request_target:", "a trigger with the base's rights"),
        ("inputs.request_json", "github.event.pull_request.title", "foreign data"),
        ("umask 077", "echo ${{ inputs.request_json }}", "an expression inside a script"),
    ],
)
def test_a_workflow_that_breaks_a_promise_of_all_is_found(old: str, new: str, finding: str) -> None:
    text = read("runtime-review.yml")
    assert old in text
    assert finding in in_every_workflow(text.replace(old, new))


@pytest.mark.threat("R14")
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("  workflow_dispatch:", "  push:\n  workflow_dispatch:", "another trigger"),
        ("      request_json:\n", "      other: {}\n      request_json:\n", "another input"),
        ("    steps:", "    permissions: {contents: read}\n    steps:", "a permission"),
        ("umask 077", "echo ${{ inputs.request_json }}", "the request elsewhere than in the environment"),
        ("umask 077", 'eval "$REQUEST_JSON"', "the request as a word of a script"),
        ('node-version: "24"', 'node-version: "22"', "another Node"),
        ("retention-days: 3", "retention-days: 90", "another artifact"),
        ("result/result.json", "result", "another artifact"),
        ("chmod -R go-rwx", "true", "a readable checkout"),
    ],
)
def test_a_review_workflow_that_breaks_its_promise_is_found(old: str, new: str, finding: str) -> None:
    text = read("runtime-review.yml")
    assert old in text
    assert finding in in_the_review(text.replace(old, new))
