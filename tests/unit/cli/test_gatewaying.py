"""`fumehood gateway` from its words to a client: what is refused is refused before anything starts."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fumehood.cli import gatewaying, guarding
from fumehood.cli.main import root
from fumehood.core.errors import FumehoodError
from fumehood.gateway.topology import read
from fumehood.wire import descriptors
from fumehood.wire.descriptors import Wire
from fumehood.wire.server_stdio import Ended

SERVER = """
import json, sys
tool = {"name": "t", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": [tool, {**tool, "name": "n" * 125}]} if asked["method"] == "tools/list" else {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    made = tmp_path / "gateway.toml"
    made.write_text('[gateway]\nshow = "direct"\n', encoding="utf-8")
    return made


@pytest.fixture
def run_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place through which a server of another uid can pass."""
    made = Path(f"/var/tmp/fumehood-gatewaycli-{os.getpid()}")
    made.mkdir(mode=0o711)
    made.chmod(0o711)
    monkeypatch.setenv("FUMEHOOD_SANDBOX__RUN_ROOT", str(made))
    yield
    assert [one.name for one in made.iterdir() if one.name != "slots"] == []
    shutil.rmtree(made)


def invoke(*words: str, home: Path) -> Result:
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": str(home / "cache")}
    return CliRunner().invoke(root, ["gateway", *words], env=environment)


def status_of(*words: str, home: Path) -> Any:
    """What the command ends with, where nothing was refused."""
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": ""}
    done = CliRunner().invoke(root, ["gateway", *words], env=environment, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Both ends that a client has: where it writes, and where it reads."""
    inward, outward = os.pipe(), os.pipe()
    monkeypatch.setattr(descriptors, "claim", lambda: Wire(reading=inward[0], writing=outward[1]))
    yield inward[1], outward[0]
    for one in (*inward, *outward):
        with contextlib.suppress(OSError):
            os.close(one)


def test_words_are_refused_before_anything_starts(tmp_path: Path, config: Path, wire: tuple[int, int]) -> None:
    os.close(wire[0])
    assert "no --config" in invoke(home=tmp_path).output
    misplaced = invoke("--config", str(config), "accept", home=tmp_path)
    assert (misplaced.exit_code, "--config belongs behind the command" in misplaced.output) == (2, True)
    config.write_text("[servers.a]\ncommand = []\nuse = 1\n", encoding="utf-8")
    error = invoke("--config", str(config), home=tmp_path).exception
    assert isinstance(error, FumehoodError)
    assert "line 3: servers.a.use" in str(error)


@pytest.mark.sandbox
@pytest.mark.usefixtures("run_root")
def test_a_client_is_served_by_every_server_that_is_there(
    tmp_path: Path, config: Path, wire: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("hello\n", encoding="utf-8")
    servers = f"""
[gateway]
show = "direct"
audit_file = "{tmp_path}/audit.jsonl"
[servers.command]
command = ["/usr/bin/python3", "-c", {json.dumps(SERVER)}]
[servers.docs]
workspace = "docs"
[servers.far]
url = "http://127.0.0.1:9/mcp"
[servers.keyless]
url = "http://127.0.0.1:9/mcp"
token_env = "FUMEHOODTEST_NOT_SET"
[servers.off]
command = ["none"]
enabled = false
"""
    config.write_text(servers, encoding="utf-8")
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    call = {"name": "docs__read_file", "arguments": {"path": "a.txt"}}
    for ident, method, params in ((1, "initialize", info), (2, "tools/list", {}), (3, "tools/call", call)):
        os.write(wire[0], json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode())
        os.write(wire[0], b"\n")
    os.close(wire[0])
    said: list[str] = []
    monkeypatch.setattr(guarding, "say", said.append)
    monkeypatch.setattr(gatewaying.blueprint, "__defaults__", (said.append,))
    done = invoke("--config", str(config), home=tmp_path)
    assert done.exception is None, done.exception
    answers = [json.loads(line) for line in os.read(wire[1], 1_000_000).splitlines()]
    by_id = {one["id"]: one["result"] for one in answers if "id" in one}
    names = [one["name"] for one in by_id[2]["tools"]]
    assert names[0] == "command__t"
    assert "docs__read_file" in names
    text = by_id[3]["content"][0]["text"]
    assert "hello" in text
    assert text.count("begins]") == 1  # the fence of the gate, and none of the served workspace's own
    assert len([line for line in said if "n" * 60 in line and "left out" in line]) == 1, said
    assert any(line.startswith("far: is down") for line in (one.removeprefix("fumehood: ") for one in said)), said
    keyless = "keyless: is down: token_env: the variable FUMEHOODTEST_NOT_SET is not set"
    assert any(keyless in one and "not tried again" in one for one in said), said
    assert said[0] == f"fumehood: 4 servers of {config} are started; switched off: 1"
    events = [json.loads(line)["event"] for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert [(one["source"], one["tool"], one["outcome"]) for one in events] == [("gateway", "docs__read_file", "ok")]


def test_the_start_says_how_many_servers_there_are_and_who_is_left_out() -> None:
    bare = '[servers.a]\nworkspace = "/srv"\n'
    roles = f"{bare}[roles.r]\n"

    def told(text: str, *, local: bool = True) -> list[str]:
        return [*gatewaying.told(read.parse(text, "g.toml", "/"), "g.toml", local=local)]

    assert told("") == ["no servers of g.toml are started"]
    assert told(bare) == ["1 server of g.toml is started"]
    assert "may use nothing" in told(roles)[1]
    assert len(told(roles, local=False)) == len(told(f'[gateway]\nlocal_role = "r"\n{roles}')) == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_listener_ends_with_the_status_of_its_signal(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    places: list[str] = []

    async def http(hosted: Any, door: Any, told: Any) -> int:
        with contextlib.closing(door):
            places.extend(door.places)
            told.announce("")
        assert hosted.name == "fumehood-gateway"
        return number

    sdk = SimpleNamespace(Hosted=lambda host, _: host, Serving=SimpleNamespace, http=http)
    monkeypatch.setattr(gatewaying, "_load", lambda: sdk)
    assert status_of("--config", str(config), "--transport", "http", "--port", "0", home=tmp_path) == status
    assert places[0].endswith("/mcp")


@pytest.mark.parametrize(("ended", "status"), [(Ended.END_OF_INPUT, 0), (Ended.STALLED, 1), (Ended.INTERRUPTED, 130)])
@pytest.mark.usefixtures("wire")
def test_a_client_of_a_pipe_says_how_it_ends(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, ended: Ended, status: int
) -> None:
    async def stdio(hosted: Any, given: Wire) -> Ended:
        del hosted, given
        return ended

    monkeypatch.setattr(gatewaying, "_load", lambda: SimpleNamespace(Hosted=lambda host, _: host, stdio=stdio))
    assert status_of("--config", str(config), home=tmp_path) == status
