"""cli.serve, cli.call, cli.tools and cli.config in this process: what each asks for, and what it prints."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.cli import main as cli
from fumehood.serve import server, walls

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line; the walls of this very process are only pretended."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(
        walls, "stand", lambda root, settings, *, http: walls.foresee(walls.ruleset(root, settings, http=http))
    )

    def words(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fumehood", *argv])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return words


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a.txt").write_text("one line\n")
    return str(tmp_path / "folder")


@pytest.mark.parametrize(("transport", "method"), [("stdio", "over_stdio"), ("http", "over_http")])
def test_serve_hands_settings_and_folder_to_its_transport(
    run: Run, folder: str, monkeypatch: pytest.MonkeyPatch, transport: str, method: str
) -> None:
    given: list[Any] = []

    def serve(*both: Any) -> int:
        given.append(both)
        return 7

    monkeypatch.setattr(server, method, serve)
    assert run("serve", "--workspace", folder, "--transport", transport, "--port", "0")[0] == 7
    ((settings, root, records),) = given
    assert (settings.http.port, str(root), records) == (0, folder, None)


@pytest.mark.threat("G1")
def test_a_server_is_given_what_keeps_its_records_unless_its_caller_keeps_them(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def serve(_settings: object, _folder: object, records: object) -> int:
        given.append(records)
        return 7

    monkeypatch.setattr(server, "over_stdio", serve)
    monkeypatch.setenv("FUMEHOOD_LOG__AUDIT_FILE", str(tmp_path / "audit.jsonl"))
    assert run("serve", "--audited-by-caller", "--workspace", folder)[0] == 7
    tmp_path.chmod(0o700)
    assert run("serve", "--workspace", folder)[0] == 7
    assert [one is None for one in given] == [True, False]
    status, _, err = run("serve", "--workspace", str(tmp_path))
    assert (status, "it lies in the workspace" in err) == (2, True)


@pytest.mark.sandbox
def test_a_call_prints_what_the_tool_says(run: Run, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = run("call", "read_file", '{"path": "a.txt"}', "--workspace", folder)
    assert (status, "1\tone line\n" in out) == (0, True)
    status, out, _ = run("call", "read_file", '{"path": "none"}', "--workspace", folder, "--json")
    assert (status, json.loads(out)["structuredContent"]["error"]) == (1, "not_found")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"path": "../x"}')))
    status, out, err = run("call", "read_file", "-", "--workspace", folder)
    assert (status, out, "next step" in err) == (1, "", True)


@pytest.mark.parametrize("text", ["{", "[]", '{"path": 1, "path": 2}'])
def test_what_is_no_object_of_json_is_refused(run: Run, folder: str, text: str) -> None:
    assert run("call", "read_file", text, "--workspace", folder)[:2] == (2, "")


def test_the_tools_are_listed(run: Run) -> None:
    names = [line.split()[0] for line in run("tools")[1].splitlines()]
    assert names == [one["name"] for one in json.loads(run("tools", "--json")[1])]


@pytest.mark.parametrize("words", [["--workspace", "a", "--workspace", "b"], []])
def test_one_workspace_is_named(run: Run, words: list[str]) -> None:
    assert run("serve", *words)[0] == 2


def test_a_clients_configuration_carries_the_settings_and_says_what_it_cannot(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[log]\nlevel = 'info'\n")
    words = ("config", "--client", "gemini", "serve", "--workspace", folder)
    server_of = json.loads(run("--settings", str(file), *words)[1])["mcpServers"]["fumehood"]
    assert server_of["args"][-5:] == ["--settings", str(file), "serve", "--workspace", folder]
    monkeypatch.setenv("FUMEHOOD_LOG__LEVEL", "debug")
    assert "not carried over: FUMEHOOD_LOG__LEVEL" in run(*words)[2]
    assert "`$`" in run(*words[:-1], f"{folder}/$x")[2]


@pytest.mark.threat("T11")
def test_settings_in_the_served_folder_are_refused(run: Run, folder: str) -> None:
    file = Path(folder, "settings.toml")
    file.write_text("")
    assert "its own walls" in run("--settings", str(file), "serve", "--workspace", folder)[2]


def test_a_listening_server_is_named_by_its_url(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("config", "--client", "cursor", "serve", "--transport", "http")
    assert json.loads(run(*words, "--host", "::1")[1])["mcpServers"]["fumehood"]["url"] == "http://[::1]:8765/mcp"
    monkeypatch.setenv("FUMEHOOD_HTTP__TLS_CERTIFICATE", "/etc/cert")
    assert json.loads(run(*words)[1])["mcpServers"]["fumehood"]["url"].startswith("https://127.0.0.1")
    assert run(*words, "--port", "0")[0] == 3
