"""What is printed for a client's file is read as the client reads it, and what it starts answers."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from e2e.guarded import PYTHON, Guarded, Hall
from fumehood.cli.clients import CLIENTS

pytestmark = pytest.mark.sandbox


def printed(hall: Hall, client: str, *words: str) -> str:
    """What `fumehood config` prints for a client."""
    argv = [sys.executable, "-m", "fumehood", "config", "--client", client, *words]
    done = subprocess.run(argv, env=hall.environment, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def entry(client: str, text: str) -> dict[str, Any]:
    """The one server of a piece, by the parser and the key of its client."""
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    servers = document[{"codex": "mcp_servers", "vscode": "servers"}.get(client, "mcpServers")]
    [found] = servers.values()
    assert found.get("type", "stdio") == "stdio"
    assert ("type" in found) == (client in {"claude-code", "vscode"})
    return dict(found)


def started(hall: Hall, client: str, *words: str) -> Guarded:
    """What a client starts that has the piece in its file: in some folder, with its own environment and no shell."""
    found = entry(client, printed(hall, client, *words))
    argv = [found["command"], *found["args"]]
    assert os.access(argv[0], os.X_OK)
    return hall.held(Guarded(argv, "legacy", hall.environment, Path("/")))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_starts_the_workspace_server(hall: Hall, client: str) -> None:
    folder = hall.folder("project $HOME")
    folder.joinpath("hello.txt").write_text("hello", encoding="utf-8")
    server = started(hall, client, "serve", "--workspace", str(folder))
    assert server.open()["serverInfo"]["name"] == "fumehood"
    listed = server.answer(server.call("list_directory", {}))["result"]
    assert "hello.txt" in json.dumps(listed)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_starts_a_server_behind_guard(hall: Hall, client: str) -> None:
    words = ("guard", "--allow-read", hall.server, "--name", "notes", "--", PYTHON, hall.server)
    server = started(hall, client, *words)
    assert "fumehood guard" in server.open()["instructions"]
    assert [tool["name"] for tool in server.result("tools/list")["tools"]] == ["attempt"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_starts_a_gateway(hall: Hall, client: str) -> None:
    folder = hall.folder("project")
    folder.joinpath("hello.txt").write_text("hello", encoding="utf-8")
    file = hall.file("gateway.toml", f'[servers.here]\nworkspace = "{folder}"\n')
    server = started(hall, client, "gateway", "--config", str(file))
    assert server.open()["serverInfo"]["name"]
    listed = server.answer(server.call("here__list_directory", {}))["result"]
    assert "hello.txt" in json.dumps(listed)
