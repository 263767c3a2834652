"""cli.clients: what each client's own parser makes of the snippet."""

import importlib.util
import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fumehood.cli import clients
from fumehood.cli.clients import CLIENTS, Listening, Started
from fumehood.cli.main import root
from fumehood.core import settings
from fumehood.core.errors import RefusedError, UnsupportedError
from fumehood.core.sections import Settings

ROOT = Path(__file__).parents[3]
ARGV = ("/opt/venv/bin/fumehood", "serve", "--workspace", "/srv/a folder")
LISTENING = [name for name in CLIENTS if name != "claude-desktop"]


def entry(client: str, server: Started | Listening) -> dict[str, object]:
    """The one server that the client's parser would find."""
    text = clients.snippet(client, server).text
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    servers = document[{"codex": "mcp_servers", "vscode": "servers"}.get(client, "mcpServers")]
    assert list(servers) == ["fumehood"]
    found: dict[str, object] = servers["fumehood"]
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_told_the_command_and_its_arguments(client: str) -> None:
    found = entry(client, Started(argv=ARGV))
    assert found["command"] == ARGV[0]
    assert found["args"] == list(ARGV[1:])
    assert clients.snippet(client, Started(argv=ARGV)).where


@pytest.mark.parametrize("client", LISTENING)
def test_each_client_with_http_is_told_the_url_and_never_a_token(client: str) -> None:
    url = "https://127.0.0.1:8765/mcp"
    found = entry(client, Listening(url=url, token=True))
    assert url in found.values()
    assert "TOKEN" in json.dumps(found).upper()
    bare = entry(client, Listening(url=url, token=False))
    assert "uthorization" not in json.dumps(bare)
    assert "bearer_token_env_var" not in bare


@pytest.mark.parametrize("client", CLIENTS)
def test_a_guarded_server_has_its_own_name_and_its_whole_command(client: str, tmp_path: Path) -> None:
    words = [
        "--allow-read",
        "/srv/a b",
        "--env",
        "A_TOKEN",
        "--name",
        "my.notes",
        "--",
        "npx",
        "-y",
        "x@1.0.0",
        "--env",
        "y",
    ]
    done = CliRunner().invoke(root, ["config", "--client", client, "guard", *words], env={"HOME": str(tmp_path)})
    assert done.exception is None, done.exception
    text = done.stdout
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    servers = document[{"codex": "mcp_servers", "vscode": "servers"}.get(client, "mcpServers")]
    found = servers["my.notes"]
    argv = [found["command"], *found["args"]]
    assert argv[argv.index("guard") :] == [
        *("guard", "--allow-read", "/srv/a b", "--env", "A_TOKEN", "--", "npx", "-y", "x@1.0.0", "--env", "y")
    ]
    assert "the client has to give it: A_TOKEN" in done.stderr


def test_a_guarded_server_that_would_be_refused_is_refused_before_it_is_written(tmp_path: Path) -> None:
    for words in (["--", "docker", "run"], ["--", "npx", "x"], ["--allow-net", "x", "--", "node"]):
        done = CliRunner().invoke(root, ["config", "--client", "cursor", "guard", *words], env={"HOME": str(tmp_path)})
        assert isinstance(done.exception, RefusedError)
        assert done.stdout == ""


def test_the_variable_of_the_token_is_taken_for_no_setting() -> None:
    assert settings.load(environ={clients.TOKEN_VARIABLE: "x"}) == Settings()


def test_a_client_without_http_says_so() -> None:
    with pytest.raises(UnsupportedError) as error:
        clients.snippet("claude-desktop", Listening(url="http://127.0.0.1:1/mcp", token=False))
    assert "stdio" in error.value.remedy


def test_a_prompt_for_the_token_stands_beside_the_server_in_vscode() -> None:
    document = json.loads(clients.snippet("vscode", Listening(url="http://h/mcp", token=True)).text)
    assert document["inputs"][0]["id"] in document["servers"]["fumehood"]["headers"]["Authorization"]
    assert document["inputs"][0]["password"] is True


@given(word=st.text(st.characters(exclude_categories=["Cs"]), max_size=30), client=st.sampled_from(list(CLIENTS)))
def test_any_folder_comes_out_of_the_clients_parser_as_it_went_in(word: str, client: str) -> None:
    argv = (*ARGV, word)
    assert entry(client, Started(argv=argv))["args"] == list(argv[1:])


GATEWAY = """
[servers.notes]
command = ["npx", "-y", "notes@1.0.0"]
[servers.notes.policy]
env = ["NOTES_KEY"]
[servers.issues]
url = "https://mcp.example.com/mcp"
token_env = "ISSUES_TOKEN"
"""


def of_gateway(client: str, folder: Path, *words: str, **environ: str) -> tuple[dict[str, object], str]:
    """The entry that is printed for a gateway, and what is said."""
    (folder / "gateway.toml").write_text(GATEWAY, encoding="utf-8")
    asked = ["config", "--client", client, "gateway", "--config", str(folder / "gateway.toml"), *words]
    done = CliRunner().invoke(root, asked, env={"HOME": str(folder), **environ})
    assert done.exception is None, done.exception
    document = tomllib.loads(done.stdout) if client == "codex" else json.loads(done.stdout)
    servers = document[{"codex": "mcp_servers", "vscode": "servers"}.get(client, "mcpServers")]
    [found] = servers.values()
    return found, done.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_told_how_to_start_a_gateway(client: str, tmp_path: Path) -> None:
    found, said = of_gateway(client, tmp_path)
    argv = [found["command"], *found["args"]]  # type: ignore[misc]  # a list of words
    assert argv[argv.index("gateway") :] == ["gateway", "--config", str(tmp_path / "gateway.toml")]
    assert "the client has to give it: NOTES_KEY, ISSUES_TOKEN; values belong into the `env` of this entry" in said


@pytest.mark.parametrize("client", LISTENING)
def test_each_client_with_http_is_told_where_a_gateway_listens(client: str, tmp_path: Path) -> None:
    found, said = of_gateway(client, tmp_path, "--transport", "http", "--port", "9000")
    assert "http://127.0.0.1:9000/mcp" in found.values()
    assert "asks for no token" in said
    assert "where the gateway is started these have to be set: NOTES_KEY, ISSUES_TOKEN" in said
    token = {"FUMEHOOD_HTTP__TOKEN_FILE": "/srv/tokens"}
    found, said = of_gateway(client, tmp_path, "--transport", "http", **token)
    assert "TOKEN" in json.dumps(found).upper()
    assert "asks for no token" not in said


def test_a_gateway_that_would_not_start_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[servers.a]\n", encoding="utf-8")
    asked = ["config", "--client", "cursor", "gateway", "--config", str(file)]
    done = CliRunner().invoke(root, asked, env={"HOME": str(tmp_path)})
    assert isinstance(done.exception, RefusedError)
    assert "line 1: servers.a: exactly one of command, url and workspace" in str(done.exception)
    assert done.stdout == ""


# --- the pages


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client_pages", ROOT / "scripts/client_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_of_a_client_has_what_the_command_prints(client: str) -> None:
    pages = script()
    text = pages.page(client).read_text(encoding="utf-8")
    assert text == pages.text(client), "run .venv/bin/python scripts/client_pages.py"
    found = [match["words"].split()[3] for match in pages.BLOCK.finditer(text)]
    assert set(found) == {"serve", "guard", "gateway"}
    assert all(f"--client {client} " in match["words"] for match in pages.BLOCK.finditer(text))
    assert text.count("```json") + text.count("```toml") == len(found)


@pytest.mark.parametrize("client", LISTENING)
def test_the_page_of_a_client_with_http_has_no_token_and_says_where_it_is(client: str) -> None:
    text = script().page(client).read_text(encoding="utf-8")
    assert "MCP_FUMEHOOD_TOKEN" in text or "fumehood-token" in text
    assert "--transport http" in text
