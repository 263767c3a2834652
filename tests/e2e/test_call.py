"""`fumehood call`, `tools` and `config` as a person uses them: statuses, streams, nothing left behind."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from served import world
from served.talk import FUMEHOOD


def run(
    *words: str, stdin: bytes = b"", cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **(more or {})}
    return subprocess.run(
        [FUMEHOOD, *words], input=stdin, capture_output=True, check=False, timeout=60, cwd=cwd, env=environment
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(world.make(tmp_path_factory.mktemp("world")).root)


@pytest.mark.sandbox
def test_data_is_on_stdout_and_nothing_on_stderr(root: str) -> None:
    done = run("call", "read_file", '{"path": "src/main.py"}', "--workspace", root)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"def main():" in done.stdout
    assert done.stdout.endswith(b".\n")


@pytest.mark.sandbox
def test_a_refusal_is_words_and_status_one(root: str) -> None:
    done = run("call", "read_file", '{"path": "../x"}', "--workspace", root)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"outside_workspace" in done.stderr
    assert b"next step" in done.stderr


@pytest.mark.sandbox
def test_json_is_one_document_also_for_a_refusal(root: str) -> None:
    for arguments, status in (('{"path": "src/main.py"}', 0), ('{"path": "nothing"}', 1)):
        done = run("call", "read_file", arguments, "--workspace", root, "--json")
        document = json.loads(done.stdout)
        assert done.returncode == status
        assert document["isError"] is bool(status)
        assert set(document) <= {"content", "structuredContent", "isError", "_meta"}


@pytest.mark.sandbox
def test_arguments_may_come_from_stdin(root: str) -> None:
    done = run("call", "read_file", "-", "--workspace", root, stdin=b'{"path": "src/main.py"}')
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "read_file", "[]", "--workspace", "."], "no JSON object"),
        (["call", "read_file", "{", "--workspace", "."], "the arguments are not JSON: line 1, column 2"),
        (["call", "read_file", '{"path": "x"}'], "--workspace"),
        (["call", "read_file", '{"path": "x"}', "--workspace", ".", "--workspace", "src"], "exactly one"),
        (["serve"], "--workspace"),
        (["serve", "--workspace", ".", "--workspace", "src"], "exactly one"),
        (["serve", "--workspace", "no-such-folder"], "no-such-folder"),
        (["config", "--client", "cursor", "serve"], "--workspace"),
        (["config", "--client", "nobody", "serve", "--workspace", "."], "claude-code"),
    ],
)
def test_what_is_wrong_is_refused_with_two_and_said(root: str, words: list[str], said: str) -> None:
    done = run(*words, cwd=Path(root))
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


@pytest.mark.sandbox
def test_an_unknown_tool_is_refused(root: str) -> None:
    done = run("call", "write_file", "{}", "--workspace", root)
    assert done.returncode == 2
    assert done.stderr == b"fumehood: there is no tool 'write_file' (`fumehood tools` lists them)\n"


@pytest.mark.sandbox
@pytest.mark.threat("T11")
@pytest.mark.parametrize(
    "text",
    ["[workspace]\nunsafe_folow_links = true\n", "[workspace\n", '[content]\nrules_file = "/nowhere"\n', "x = 1\n"],
)
def test_a_broken_configuration_starts_nothing(root: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    done = run("--settings", str(file), "call", "read_file", '{"path": "src/main.py"}', "--workspace", root)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.sandbox
@pytest.mark.threat("T11")
def test_an_empty_configuration_means_the_defaults_with_every_control(root: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("")
    done = run("--settings", str(file), "call", "read_file", '{"path": ".git/config"}', "--workspace", root)
    assert done.returncode == 1
    assert b"denied_path" in done.stderr


def test_the_tools_are_listed_for_people_and_for_programs() -> None:
    names = [line.split()[0] for line in run("tools").stdout.decode().splitlines()]
    assert names == [tool["name"] for tool in json.loads(run("tools", "--json").stdout)]
    assert len(names) == 8


def test_the_configuration_of_a_client_starts_this_program(root: str) -> None:
    done = run("config", "--client", "claude-code", "serve", "--workspace", ".", cwd=Path(root))
    server = json.loads(done.stdout)["mcpServers"]["fumehood"]
    assert server["args"] == ["serve", "--workspace", root]
    assert Path(server["command"]).is_file()
    assert b".mcp.json" in done.stderr


CONFIG = ("config", "--client", "cursor", "serve")


def test_what_a_client_would_lose_or_misread_is_said(root: str) -> None:
    done = run(*CONFIG, "--workspace", "a$HOME", cwd=Path(root), more={"FUMEHOOD_CONTENT__DATAMARKING": "true"})
    assert done.returncode == 0
    assert b"not carried over: FUMEHOOD_CONTENT__DATAMARKING" in done.stderr
    assert b"holds `$`" in done.stderr
    assert b"there is no folder" in done.stderr
    assert run(*CONFIG, "--workspace", ".", cwd=Path(root)).stderr.count(b"\n") == 1


def test_a_listening_server_is_named_with_its_token_only_where_a_file_has_some(tmp_path: Path) -> None:
    words = (*CONFIG, "--transport", "http")
    tokens, issuer = {"FUMEHOOD_HTTP__TOKEN_FILE": str(tmp_path)}, {"FUMEHOOD_HTTP__OAUTH_ISSUER": "https://id.example"}
    named = json.loads(run(*words, more=tokens).stdout)["mcpServers"]["fumehood"]
    assert named["headers"] == {"Authorization": "Bearer ${env:MCP_FUMEHOOD_TOKEN}"}
    assert b"asks for no token" not in run(*words, more=tokens).stderr + run(*words, more=issuer).stderr
    assert b"asks for no token: http.token_file" in run(*words).stderr
    assert json.loads(run(*words, more=issuer).stdout)["mcpServers"]["fumehood"] == {"url": "http://127.0.0.1:8765/mcp"}


@pytest.mark.parametrize("more", [{"FUMEHOOD_HTTP__PORT": "0"}, {"FUMEHOOD_HTTP__UNIX_SOCKET": "/run/fumehood/socket"}])
def test_a_place_that_no_clients_file_can_name_is_refused(more: dict[str, str]) -> None:
    done = run(*CONFIG, "--transport", "http", more=more)
    assert (done.returncode, done.stdout) == (3, b"")


@pytest.mark.threat("T11")
@pytest.mark.parametrize("command", [("call", "list_directory"), ("serve",), ("config", "--client", "cursor", "serve")])
@pytest.mark.parametrize("place", ["inside", "a link inside", "a link to the inside"])
def test_a_workspace_does_not_configure_its_own_walls(tmp_path: Path, command: tuple[str, ...], place: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    inside, outside = folder / "settings.toml", tmp_path / "settings.toml"
    real, link = (outside, inside) if place == "a link inside" else (inside, outside)
    real.write_text("")
    link.symlink_to(real)
    named = outside if place == "a link to the inside" else inside
    done = run("--settings", str(named), *command, "--workspace", str(folder))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"its own walls" in done.stderr


@pytest.mark.threat("T11")
def test_a_workspace_does_not_bring_its_own_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('[[rules]]\nid = "x"\nregex = "x"\n')
    more = {"FUMEHOOD_CONTENT__RULES_FILE": str(tmp_path / "rules.toml")}
    done = run("call", "list_directory", "--workspace", str(tmp_path), more=more)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"lies in the workspace" in done.stderr
