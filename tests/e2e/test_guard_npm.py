"""`fumehood guard -- npx NAME@VERSION`: acquired once, scripts off, kept by integrity, started without a network."""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from e2e.bench import NOWHERE
from e2e.guarded import PYTHON, Guarded, Hall
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FailedError
from fumehood.core.sections import Settings
from fumehood.gateway.guard import acquire, command
from fumehood.gateway.guard.acquire import CacheError, Shop
from fumehood.gateway.guard.installed import NoProgramError
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.sandbox.hostfacts import HostFacts
from loopback.fixtures import NpmRegistry
from loopback.packages import Package
from loopback.registry import Fault, LoopbackRegistry

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G2")]
SERVER = """#!/usr/bin/env node
const fs = require("fs");
const net = require("net");
const words = require("left");
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const text = (id, words) => send({ id, result: { content: [], structuredContent: { text: words } } });
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const { protocolVersion } = params;
    send({ id, result: { protocolVersion, capabilities: {}, serverInfo: { name: words, version: "1" } } });
  } else if (method === "tools/list") {
    send({ id, result: { tools: [{ name: "look", inputSchema: { type: "object" } }] } });
  } else if (method === "tools/call") {
    const { what, port } = params.arguments;
    if (what === "arguments") text(id, process.argv.slice(2).join(" "));
    if (what === "scripts") text(id, String(fs.existsSync(__dirname + "/ran.txt")));
    if (what === "write") {
      fs.writeFile(__dirname + "/changed.txt", "x", (error) => text(id, error ? error.code : "wrote"));
    }
    if (what === "connect") {
      const socket = net.connect(port, "registry.internal");
      socket.on("connect", () => text(id, "connected")).on("error", (error) => text(id, error.code));
    }
  }
});
"""


def published(
    registry: LoopbackRegistry, version: str = "1.0.0", files: dict[str, bytes] | None = None, **manifest: Any
) -> None:
    """The server and its one dependency, with an install script that leaves a trace."""
    registry.publish(
        Package(manifest={"name": "left", "version": "1.0.0"}, files={"index.js": b"module.exports = 'left'"})
    )
    whole = {
        "name": "@a/server",
        "version": version,
        "bin": {"server": "bin.js"},
        "dependencies": {"left": "1.0.0"},
        "scripts": {"postinstall": "echo ran > ran.txt"},
        **manifest,
    }
    registry.publish(
        Package(manifest=whole, files={"bin.js": SERVER.encode(), **(files or {})}, executable=("bin.js",))
    )


@dataclass(frozen=True, slots=True)
class Npx:
    """`npx WORDS` behind guard, with a registry and a cache of the test's own."""

    hall: Hall
    registry: LoopbackRegistry
    host: HostFacts

    def __call__(self, *words: str) -> Guarded:
        """Start it."""
        hall = self.hall
        return hall.held(Guarded(hall.argv("--", "npx", "-y", *words), "legacy", hall.environment, Path("/")))

    @property
    def kept(self) -> list[Path]:
        """The folders of the cache."""
        return sorted((self.hall.place / "cache" / "fumehood" / "packages").iterdir())


@pytest.fixture
def npx(hall: Hall, registry: LoopbackRegistry, review_host: HostFacts) -> Npx:
    hall.variables |= {"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url, "XDG_CACHE_HOME": str(hall.place / "cache")}
    return Npx(hall, registry, review_host)


def look(server: Guarded, what: str, **more: Any) -> str:
    """What the server finds."""
    answer = server.answer(server.call("look", {"what": what, **more}))["result"]
    return str(answer["structuredContent"]["text"])


def test_a_package_is_acquired_once_and_started_without_a_network(npx: Npx) -> None:
    published(npx.registry)
    first = npx("@a/server@1.0.0", "one", "--two")
    assert first.open()["serverInfo"]["name"] == "left"
    assert look(first, "arguments") == "one --two"
    assert look(first, "scripts") == "false"
    assert look(first, "write") == "EROFS"
    port = int(npx.registry.url.rstrip("/").rpartition(":")[2])
    assert look(first, "connect", port=port) != "connected"
    said = first.finish()[2]
    assert "fumehood: acquired @a/server@1.0.0, sha512-" in said
    assert "install scripts of 1 did not run" in said
    (folder,) = npx.kept
    record = json.loads((folder / "fumehood.json").read_text(encoding="utf-8"))
    assert (record["name"], record["packages"], record["install_scripts"]) == ("@a/server", 2, 1)
    npx.registry.break_package("@a/server", Fault.NOT_FOUND)
    second = npx("@a/server@1.0.0")
    second.open()
    assert look(second, "arguments") == ""
    assert "acquired" not in second.finish()[2]


@pytest.mark.parametrize(
    ("manifest", "words", "status", "said"),
    [
        ({}, ("@a/server@2.0.0",), 1, "the registry has no such version"),
        ({}, ("@a/none@1.0.0",), 1, "the registry has no such package"),
        (
            {"bin": {"x": "bin.js", "y": "z.js"}},
            ("@a/server@1.0.0",),
            3,
            "none of its own name: x, y",
        ),
        ({"bin": "none.js"}, ("@a/server@1.0.0",), 1, "the package: "),
        ({"bin": {}}, ("@a/server@1.0.0",), 3, "has no program"),
        ({}, ("@a/server",), 2, "no version is named (write the exact one: npx -y @a/server@1.2.3;"),
    ],
)
def test_what_cannot_be_acquired_is_refused_and_nothing_is_kept(
    npx: Npx,
    manifest: dict[str, Any],
    words: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    published(npx.registry, **manifest)
    server = npx(*words)
    ended, messages, told = server.finish()
    assert (ended, messages) == (status, []), told
    assert said in told
    if status != 2:
        assert npx.kept == []


def test_a_cut_tarball_has_another_integrity(npx: Npx) -> None:
    published(npx.registry)
    npx.registry.break_package("@a/server", Fault.CUT_TARBALL)
    assert npx("@a/server@1.0.0").finish()[0] != 0
    assert npx.kept == []


def test_a_second_integrity_of_one_version_is_refused(npx: Npx) -> None:
    published(npx.registry)
    npx("@a/server@1.0.0").finish()
    (folder,) = npx.kept
    shutil.copytree(folder, folder.with_name(folder.name[:-16] + "0" * 16), symlinks=True)
    status, _, said = npx("@a/server@1.0.0").finish()
    assert (status, "was acquired with two integrities" in said) == (2, True)


def test_a_cache_that_others_may_change_is_refused(npx: Npx) -> None:
    published(npx.registry)
    npx("@a/server@1.0.0").finish()
    (folder,) = npx.kept
    folder.chmod(0o777)
    status, _, said = npx("@a/server@1.0.0").finish()
    assert (status, "may be changed by others" in said) == (2, True)
    folder.chmod(0o755)
    (folder / "fumehood.json").write_text("{}", encoding="utf-8")
    assert "its record cannot be read" in npx("@a/server@1.0.0").finish()[2]


def shop(npx: Npx, said: list[str]) -> Shop:
    """The same cache, for a call in this process."""
    sources = Sources(registry=Remote.parse(npx.registry.url), forge=Remote.parse(NOWHERE), ca_file=None)
    return Shop(
        cache=npx.hall.place / "cache" / "fumehood" / "packages",
        host=npx.host,
        settings=Settings(),
        sources=lambda: sources,
        clock=SystemClock(),
        say=said.append,
    )


def test_a_package_that_is_there_asks_nobody(npx: Npx) -> None:
    published(npx.registry)
    said: list[str] = []
    wanted = command.package("@a/server@1.0.0", ("--x",))
    first = asyncio.run(acquire.get(wanted, shop(npx, said)))
    npx.registry.break_package("@a/server", Fault.NOT_FOUND)
    second = asyncio.run(acquire.get(wanted, shop(npx, said)))
    assert first == second
    assert (first.arguments, first.record.program) == (("--x",), "bin.js")
    assert [line.partition(",")[0] for line in said] == ["@a/server@1.0.0 is acquired", "acquired @a/server@1.0.0"]
    assert [path.name for path in npx.kept] == [Path(first.folder).name]


def test_what_a_registry_has_not_is_told_by_kind(npx: Npx) -> None:
    published(npx.registry, files={"other.sh": b"#!/bin/sh\n"}, bin="other.sh")
    for word, kind in (("@a/server@3.0.0", FailedError), ("@a/server@1.0.0", NoProgramError)):
        with pytest.raises(kind):
            asyncio.run(acquire.get(command.package(word), shop(npx, [])))
    assert npx.kept == []


def test_the_cache_lies_where_a_server_of_another_uid_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert acquire.cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/fumehood/packages")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert acquire.cache_folder({"HOME": "/root"}) == Path("/var/cache/fumehood/packages")
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert acquire.cache_folder({"HOME": "/h"}) == Path("/h/.cache/fumehood/packages")
    with pytest.raises(CacheError, match="there is no home"):
        acquire.cache_folder({})


OFFICIAL = "2026.8.31"


@pytest.fixture
def nowhere() -> Iterator[TextIO]:
    with Path("/dev/null").open("w", encoding="utf-8") as opened:
        yield opened


async def used(
    command: list[str], environment: dict[str, str], call: tuple[str, Any], nowhere: TextIO, *, modern: bool
) -> tuple[list[str], Any]:
    """What the SDK's own client gets: names of tools, and the answer to each call."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd="/")
    async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
        await (session.discover() if modern else session.initialize())
        names = [tool.name for tool in (await session.list_tools()).tools]
        return names, await session.call_tool(*call)


LONG = pytest.mark.long


@pytest.mark.registry
@pytest.mark.parametrize(
    ("name", "call", "said"),
    [
        pytest.param("everything", ("echo", {"message": "hello"}), "hello", marks=LONG),
        ("filesystem", ("read_text_file", {"path": "{docs}/a.txt"}), "canary of docs"),
        pytest.param("filesystem", ("read_text_file", {"path": "{place}/server.py"}), "denied", marks=LONG),
        pytest.param("memory", ("read_graph", {}), "entities", marks=LONG),
    ],
)
def test_real_servers_are_used_by_the_sdks_client(
    real: Hall, nowhere: TextIO, name: str, call: tuple[str, dict[str, str]], said: str
) -> None:
    docs = real.folder("docs")
    real.file("docs/a.txt", "canary of docs")
    package = f"@modelcontextprotocol/server-{name}@{OFFICIAL}"
    words = [str(docs)] if name == "filesystem" else []
    argv = real.argv("--allow-read", str(docs), "--", "npx", "-y", package, *words)
    given = {key: value.format(docs=docs, place=real.place) for key, value in call[1].items()}
    names, result = asyncio.run(used(argv, real.environment, (call[0], given), nowhere, modern=False))
    assert call[0] in names
    assert said in result.content[0].text


@pytest.fixture
def real(hall: Hall, npm_registry: NpmRegistry) -> Iterator[Hall]:
    """A hall whose registry is the caching one."""
    for name in ("everything", "filesystem", "memory"):
        npm_registry.need(f"@modelcontextprotocol/server-{name}@{OFFICIAL}")
    hall.variables |= {"FUMEHOOD_REVIEW__NPM_REGISTRY": npm_registry.url, "XDG_CACHE_HOME": str(hall.place / "cache")}
    yield hall
    assert npm_registry.unreachable == []


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
def test_the_sdks_client_takes_what_guard_passes_on_in_both_eras(hall: Hall, nowhere: TextIO, modern: bool) -> None:
    argv = hall.argv("--allow-read", hall.server, "--", PYTHON, hall.server)
    call = ("attempt", {"what": "say", "argument": "hello"})
    names, result = asyncio.run(used(argv, hall.environment, call, nowhere, modern=modern))
    assert names == ["attempt"]
    assert result.content[0].text.splitlines()[1] == "hello"
    assert result.structured_content == {"text": "hello"}
