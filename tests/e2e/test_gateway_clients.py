"""Three real servers of npm and a served folder behind the gateway, used by the SDK's own client in both eras.

The program of the test reads with one server, computes with another, writes with a third, and stores with the fourth.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client

from e2e.gated import Gated, listed, open_for_all, run, text
from e2e.guarded import Hall
from loopback.fixtures import NpmRegistry

pytestmark = [pytest.mark.sandbox, pytest.mark.registry]
OFFICIAL = "2026.8.31"
SERVED = "docs__read_file"
TOKENS = {"writer": "w" * 43, "reader": "r" * 43}
WAYS = pytest.mark.parametrize(
    ("transport", "mode"),
    [
        ("stdio", "legacy"),
        pytest.param("stdio", "2026-07-28", marks=pytest.mark.long),
        pytest.param("http", "legacy", marks=pytest.mark.long),
        pytest.param("http", "2026-07-28", marks=pytest.mark.long),
    ],
)
PROGRAM = """
const read = await tools.docs__read_file({path: "numbers.txt"});
const [, a, b] = read.text.match(/are ([0-9]+) and ([0-9]+)/).map(Number);
const sum = await tools["everything__get-sum"]({a, b});
const total = Number(sum.text.match(/is ([0-9]+)/)[1]);
await tools.files__write_file({path: `${input.out}/sum.txt`, content: `total ${total}\\n`});
await tools.memory__create_entities({entities: [{name: "sum", entityType: "number", observations: [`${total}`]}]});
const graph = await tools.memory__read_graph({});
return {total, stored: graph.text.includes(`${total}`)};
"""
CONFIG = """
[gateway]
local_role = "{role}"
audit_file = "{place}/audit/log.jsonl"

[roles.writer]
access = "write"

[roles.reader]

[servers.everything]
command = ["npx", "-y", "@modelcontextprotocol/server-everything@{version}"]
reads = ["echo", "get-sum"]

[servers.files]
command = ["npx", "-y", "@modelcontextprotocol/server-filesystem@{version}", "{out}"]
reads = ["read_*", "list_*", "get_file_info"]
policy = {{ allow_write = ["{out}"] }}

[servers.memory]
command = ["npx", "-y", "@modelcontextprotocol/server-memory@{version}"]
reads = ["read_graph", "search_nodes", "open_nodes"]
policy = {{ env = ["MEMORY_FILE_PATH"] }}

[servers.docs]
workspace = "{docs}"
"""


@pytest.fixture
def gated(hall: Hall, npm_registry: NpmRegistry) -> Iterator[Gated]:
    """The four servers; the folder `docs` is served, `out` may be written."""
    for name in ("everything", "filesystem", "memory"):
        npm_registry.need(f"@modelcontextprotocol/server-{name}@{OFFICIAL}")
    hall.folder("docs")
    hall.file("docs/numbers.txt", "the numbers are 20 and 22\n")
    open_for_all(hall.folder("out"))
    hall.folder("audit", mode=0o700)
    hall.folder("config", mode=0o700)
    hall.variables |= {
        "FUMEHOOD_REVIEW__NPM_REGISTRY": npm_registry.url,
        "XDG_CACHE_HOME": str(hall.place / "cache"),
        "MEMORY_FILE_PATH": "/tmp/memory.json",
    }
    made = Gated(hall=hall, config=hall.place / "config" / "gateway.toml")
    configure(made, "writer")
    yield made
    assert npm_registry.unreachable == []


def configure(gated: Gated, role: str) -> None:
    place = gated.hall.place
    gated.write(CONFIG.format(role=role, place=place, version=OFFICIAL, out=place / "out", docs=place / "docs"))


class Person:
    """Somebody at the client, who allows each call that is asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "this call"})


@asynccontextmanager
async def reached(gated: Gated, transport: str, mode: str, role: str, **client: Any) -> AsyncIterator[Client]:
    """A client with a role: over a pipe the local user's, over HTTP that of its token."""
    if transport == "stdio":
        configure(gated, role)
        async with gated.over_stdio(mode, **client) as made:
            yield made
        return
    tokens = gated.config.with_name("tokens")
    lines = [f"{hashlib.sha256(word.encode()).hexdigest()} role:{name}\n" for name, word in TOKENS.items()]
    tokens.write_text("".join(lines), encoding="utf-8")
    tokens.chmod(0o600)
    gated.variables["FUMEHOOD_HTTP__TOKEN_FILE"] = str(tokens)
    async with gated.over_http() as listening, listening.client(mode, TOKENS[role], **client) as made:
        yield made


async def program(client: Client, gated: Gated, code: str = PROGRAM) -> Any:
    result: Any = await client.call_tool(
        "run_code", {"code": code, "input": {"out": str(gated.hall.place / "out")}, "timeout": 120}
    )
    return result


def recorded(gated: Gated) -> list[tuple[str, str, str]]:
    """Tool, decision and outcome of every call in the audit log, which holds."""
    path = gated.hall.place / "audit" / "log.jsonl"
    checked = [sys.executable, "-m", "fumehood", "audit", "verify", str(path)]
    subprocess.run(checked, check=True, capture_output=True, timeout=60, env=gated.environment)
    events = [json.loads(line)["event"] for line in path.read_bytes().splitlines()]
    return [(one["tool"], one["decision"], one["outcome"]) for one in events if one["kind"] == "call"]


@WAYS
def test_a_program_reads_with_one_server_computes_and_writes_with_others(
    gated: Gated, transport: str, mode: str
) -> None:
    person = Person()

    async def work() -> None:
        async with reached(gated, transport, mode, "writer", elicitation_callback=person) as client:
            await listed(client, "run_code", "files__write_file", "memory__read_graph", "everything__echo", SERVED)
            result = await program(client, gated)
            assert not result.is_error, text(result)
            assert result.structured_content["value"] == {"total": 42, "stored": True}

    run(work)
    assert (gated.hall.place / "out" / "sum.txt").read_text(encoding="utf-8") == "total 42\n"
    # What was read is not trusted: a person was asked before each of the two writes.
    assert len(person.asked) == 2
    assert "write_file" in person.asked[0]
    assert "create_entities" in person.asked[1]
    found = recorded(gated)
    assert ("docs__read_file", "allowed", "ok") in found
    for name in ("files__write_file", "memory__create_entities"):
        assert [(decision, outcome) for tool, decision, outcome in found if tool == name] == [
            ("approved", "begun"),
            ("approved", "ok"),
        ]


@WAYS
def test_the_same_program_in_a_role_without_write_is_refused(gated: Gated, transport: str, mode: str) -> None:
    person = Person()

    async def work() -> None:
        async with reached(gated, transport, mode, "reader", elicitation_callback=person) as client:
            seen = await listed(
                client, "run_code", "files__read_file", "memory__read_graph", "everything__echo", SERVED
            )
            assert [name for name in seen if name in {"files__write_file", "memory__create_entities"}] == []
            result = await program(client, gated)
            assert result.is_error
            assert "files__write_file" in text(result)
            by_name = PROGRAM.replace("tools.files__write_file(", 'amcp.run("files__write_file", ')
            asked = await program(client, gated, by_name)
            assert asked.is_error
            assert "files__write_file" in text(asked)
            direct: Any = await client.call_tool("everything__get-sum", {"a": 20, "b": 22})
            assert "42" in text(direct)

    run(work)
    assert not (gated.hall.place / "out" / "sum.txt").exists()
    assert person.asked == []
    found = recorded(gated)
    assert [one for one in found if one[0] == "files__write_file"] == [("files__write_file", "scope", "refused")]
