"""cli.review, cli.render, cli.start: requests printed, results validated, settings read late."""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fumehood.cli import main as cli
from fumehood.cli import render, start
from fumehood.cli.review import asked
from fumehood.core import logs
from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.sections import Settings
from fumehood.core.settings import SettingsError
from fumehood.review import files, request, source
from fumehood.review.request import RequestRefusedError
from fumehood.review.source import Wishes

SHA = "0123456789abcdef0123456789abcdef01234567"
RESULT: dict[str, Any] = {
    "schema_version": 1,
    "request": {},
    "environment": {"harness_version": "0", "system": "Linux", "machine": "x", "kernel": "6"},
    "provenance": {
        "kind": "dir",
        "pinned": False,
        "preparation": {"profile": "NONE", "status": "not_requested"},
    },
    "execution": {"status": "COMPLETED", "started_at": "a", "ended_at": "b"},
    "collectors": [],
    "observations": {},
    "containment": [],
    "limitations": ["one"],
    "coverage": {},
}


def run(*words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fumehood", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


class Command:
    """The command line with this test's fixtures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return run(*words, monkeypatch=self._monkeypatch, capsys=self._capsys)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def fumehood(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("text", ["npm:@scope/package@1.2.3", f"github:owner/repository@{SHA}", "dir:somewhere"])
def test_a_printed_request_is_one_document_that_is_accepted(text: str, fumehood: Command) -> None:
    status, out, err = fumehood("review", "request", text, "--entrypoint", "index.js")
    assert status == 0
    assert list(json.loads(out))[:2] == ["schema_version", "target"]
    assert request.parse(out.encode()).entrypoint == "index.js"
    assert ("relative to the request" in err) == text.startswith("dir:")


def test_options_reach_the_request(fumehood: Command) -> None:
    words = ["--argv", "{workspace}", "--argv", "-v", "--allow", "api.example.com:443", "--timeout", "7"]
    _, out, _ = fumehood("review", "request", "npm:a@1.0.0", *words, "--question", "why?", "--network", "ALLOWLIST")
    made = request.parse(out.encode())
    assert (made.argv, made.allow, made.timeout_seconds) == (("{workspace}", "-v"), ("api.example.com:443",), 7)
    assert made.question == "why?"


def test_a_refused_request_prints_each_reason_and_ends_with_2(fumehood: Command) -> None:
    status, out, err = fumehood("review", "request", "npm:a@latest", "--timeout", "1", "--network", "HOST")
    assert status == 2
    assert out == ""
    assert all(word in err for word in ("target.version", "timeout_seconds", "network_mode", "does not know"))


def test_a_wrong_source_ends_with_2_and_shows_the_forms(fumehood: Command) -> None:
    status, out, err = fumehood("review", "request", "\x1b[31mx")
    assert (status, out) == (2, "")
    assert "npm:NAME@VERSION" in err
    assert "\x1b" not in err


def write(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def whole() -> dict[str, Any]:
    made = request.to_value(
        request.convert(
            {
                "schema_version": 1,
                "target": {"kind": "git", "repository": "o/r", "ref": SHA},
                "adapter": "node_stdio",
                "action_profile": "mcp_initialize",
                "network_mode": "OPEN",
                "credentials": "NONE",
                "question": "?",
                "entrypoint": "a.js",
                "evidence": ["process"],
                "timeout_seconds": 5,
            }
        )
    )
    return {**RESULT, "request": made}


def test_a_result_that_fits_ends_with_0(tmp_path: Path, fumehood: Command) -> None:
    status, out, err = fumehood("review", "validate", write(tmp_path / "r.json", whole()))
    assert (status, out) == (0, "")
    assert "fits the schema" in err


def test_a_result_that_does_not_fit_ends_with_1_and_lists_why(tmp_path: Path, fumehood: Command) -> None:
    value = {**whole(), "verdict\x1b": "x", "execution": {"status": "FINE", "started_at": "a", "ended_at": "b"}}
    status, out, _ = fumehood("review", "validate", write(tmp_path / "r.json", value))
    assert status == 1
    assert "execution.status: " in out
    assert r"verdict\x1b" in out
    assert "\x1b" not in out


def test_a_flood_of_problems_is_cut(tmp_path: Path, fumehood: Command) -> None:
    value = {**whole(), "limitations": [7] * 5000}
    status, out, _ = fumehood("review", "validate", write(tmp_path / "r.json", value))
    assert status == 1
    assert len(out.splitlines()) == 51
    assert "more" in out.splitlines()[-1]


def test_of_a_large_document_that_is_no_result_the_first_reason_is_told(tmp_path: Path, fumehood: Command) -> None:
    value = {**whole(), "limitations": [7] * 100_000}
    status, out, _ = fumehood("review", "validate", write(tmp_path / "r.json", value))
    assert status == 1
    assert len(out.splitlines()) == 1
    assert "limitations" in out


def test_a_large_result_that_fits_ends_with_0(tmp_path: Path, fumehood: Command) -> None:
    value = {**whole(), "limitations": ["x" * 1000] * 1000}
    assert fumehood("review", "validate", write(tmp_path / "r.json", value))[0] == 0


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1,"a":2}', b"[" * 100, b"\xff"])
def test_what_is_no_json_is_unreadable(data: bytes, tmp_path: Path, fumehood: Command) -> None:
    (tmp_path / "r.json").write_bytes(data)
    assert fumehood("review", "validate", str(tmp_path / "r.json"))[0] == 2


def test_what_is_no_regular_file_is_unreadable(tmp_path: Path, fumehood: Command) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("none", "fifo", ".", "fifo/below"):
        status, _, err = fumehood("review", "validate", str(tmp_path / name))
        assert status == 2
        assert "regular file" in err or "cannot be read" in err


def test_a_file_is_read_whole_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 300_000)
    assert len(files.read(path, size=300_000)) == 300_000
    with pytest.raises(files.UnreadableFileError, match="more than 299999 bytes"):
        files.read(path, size=299_999)


def test_a_request_file_is_relative_to_its_own_folder(tmp_path: Path) -> None:
    value = {**whole()["request"], "schema_version": 2, "target": {"kind": "dir", "path": "server"}}
    named = asked(write(tmp_path / "q.json", value), Wishes())
    assert named.beside == tmp_path
    assert named.request.target == request.DirTarget(path="server")


def test_a_source_may_name_any_folder(tmp_path: Path) -> None:
    named = asked(f"dir:{tmp_path}", Wishes(entrypoint="a.js"))
    assert named.beside == tmp_path
    assert named.request.target == request.DirTarget(path=".")


def test_options_beside_a_request_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="says everything itself"):
        asked(write(tmp_path / "q.json", {}), Wishes(entrypoint="a.js"))
    with pytest.raises(RequestRefusedError):
        asked(write(tmp_path / "q.json", {}), Wishes())


def test_a_stdout_that_is_full_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fumehood.cli.render.click.echo", full)
    with pytest.raises(HarnessError, match="stdout cannot be written: No space"):
        render.document({})
    with pytest.raises(HarnessError):
        render.data("x")


def test_every_command_of_review_refuses_unknown_settings(monkeypatch: pytest.MonkeyPatch, fumehood: Command) -> None:
    monkeypatch.setenv("FUMEHOOD_COLOUR", "blue")
    for words in (["request", "npm:a@1.0.0"], ["validate", "r.json"]):
        status, _, err = fumehood("review", *words)
        assert status == 2
        assert "FUMEHOOD_COLOUR" in err


def test_terminal_text_is_inert() -> None:
    assert render.inert("a\x1b[0m\u202e\ud800\x00b\n\tc é") == "a\\x1b[0m\\u202e\\ud800\\x00b\n\tc é"


@pytest.fixture
def quiet_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    levels: list[str] = []
    monkeypatch.setattr(logs, "configure", levels.append)
    return levels


def started(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What `start` gives to a command that is run with these words."""
    made: list[Settings] = []
    monkeypatch.setitem(cli.COMMANDS, "probe", ("none:none", "a probe"))
    command = click.Command("probe", callback=lambda: made.append(start.start()))
    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: command)
    done = CliRunner().invoke(cli.root, [*words, "probe"], standalone_mode=False)
    if done.exception:
        raise done.exception
    return made[0]


def test_a_command_starts_with_the_settings_that_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_log: list[str]
) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[log]\nlevel = "info"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    assert started([], monkeypatch).log.level == "warning"
    assert started(["--settings", str(path)], monkeypatch).log.level == "info"
    assert quiet_log == ["warning", "info"]
    with pytest.raises(SettingsError):
        started(["--settings", str(tmp_path / "none")], monkeypatch)


@pytest.mark.parametrize("text", ["express@4.0.0", "https://host.invalid/a/b", "."])
def test_what_is_neither_a_file_nor_a_source_is_refused_with_the_forms_of_a_source(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        asked(text, Wishes())
    assert source.FORMS in refused.value.remedy


SERVER_JSON = {
    "name": "io.example/unit",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@unit/server",
            "version": "1.0.0",
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "positional", "value": "mcp"}],
            "environmentVariables": [{"name": "API_KEY", "isSecret": True, "isRequired": True}],
        },
        {"registryType": "pypi", "identifier": "unit-server", "version": "1.0", "transport": {"type": "stdio"}},
        {"registryType": "pypi", "identifier": "unit-server", "version": "v1", "transport": {"type": "stdio"}},
        {"registryType": "oci", "identifier": "x", "version": "1", "transport": {"type": "stdio"}},
    ],
}


def test_a_server_json_becomes_a_request_a_package_and_what_is_not_passed_on_is_said(
    fumehood: Command, tmp_path: Path
) -> None:
    path = tmp_path / "server.json"
    path.write_text(json.dumps(SERVER_JSON))
    status, out, err = fumehood("review", "request", str(path))
    made = [request.parse(line.encode()) for line in out.splitlines()]
    assert status == 0
    assert [one.adapter for one in made] == ["node_stdio", "python_stdio"]
    assert made[0].argv == ("mcp",)
    assert all(
        words in err for words in ("'API_KEY' (required)", "'oci' is not reviewed", "packages[2]: target.version")
    )


def test_one_package_of_a_server_json_is_a_document_and_takes_wishes(fumehood: Command, tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text(json.dumps(SERVER_JSON))
    words = ("--package", "1", "--as-of", "2026-05-31", "--argv", "x")
    status, out, _ = fumehood("review", "request", str(path), *words)
    made = request.parse(out.encode())
    assert (status, made.argv) == (0, ("x",))
    assert made.target == request.PypiTarget(name="unit-server", version="1.0", as_of="2026-05-31")


@pytest.mark.parametrize("words", [["--package", "3"], ["--package", "2"], ["--package", "9"]])
def test_a_package_that_is_not_reviewed_is_refused(fumehood: Command, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "server.json"
    path.write_text(json.dumps(SERVER_JSON))
    status, out, err = fumehood("review", "request", str(path), *words)
    assert (status, out) == (2, "")
    assert err


def test_a_server_json_is_no_request_to_run_and_a_package_is_of_a_server_json(
    fumehood: Command, tmp_path: Path
) -> None:
    path = tmp_path / "server.json"
    path.write_text(json.dumps(SERVER_JSON))
    status, _, err = fumehood("review", "run", str(path), "--out", str(tmp_path / "out"))
    assert (status, "review request" in err) == (2, True)
    assert fumehood("review", "request", "npm:a@1.0.0", "--package", "0")[0] == 2


def test_an_address_is_told_apart_from_a_file_that_is_not_there() -> None:
    with pytest.raises(RefusedError) as caught:
        asked("https://forge.example/a/b", Wishes())
    assert "'https://forge.example/a/b' is neither a request file nor a source" in caught.value.message
    assert source.FORMS in caught.value.remedy


def test_a_file_that_is_no_json_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text("nonsense")
    with pytest.raises(RefusedError, match=r"'bad\.json' is no request: not JSON: line 1, column 1"):
        asked(str(tmp_path / "bad.json"), Wishes())
    status, _, err = run("review", "validate", str(tmp_path / "bad.json"), monkeypatch=monkeypatch, capsys=capsys)
    assert status == 2
    assert "'bad.json' is no review result: not JSON" in err
