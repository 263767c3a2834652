"""Servers behind the gateway that are started by it: walls, eras, hostile ones, and none left over."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from e2e.bench import NOWHERE
from e2e.grounded import Grounded, attempt
from e2e.guarded import PYTHON
from fumehood.core import limits
from fumehood.core.errors import TimedOutError
from fumehood.gateway.guard.command import CommandError
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams.confined import Confined
from fumehood.gateway.upstreams.ground import OwnVariableError
from fumehood.gateway.upstreams.model import Connection, UpstreamError
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.wire.hosting import Era
from loopback.fixtures import NpmRegistry
from loopback.speaking import wait_until

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G6")]


async def hello(made: Connection) -> Any:
    return made.introduction.era, await attempt(made, "say", "hello")


def test_a_server_is_used_in_its_era_which_is_remembered(grounded: Grounded) -> None:
    legacy, modern = grounded.dial(), grounded.dial("modern", name="two")
    assert grounded.used(legacy, hello) == ("legacy", "hello")
    assert grounded.said.count("one| it begins") == 1
    for starts in (2, 3):  # the first time both eras are tried
        assert grounded.used(modern, hello) == ("modern", "hello")
        assert grounded.said.count("two| it begins") == starts


def test_many_ask_one_server_and_each_gets_its_own_answer(grounded: Grounded) -> None:
    async def many(made: Connection) -> Any:
        return await asyncio.gather(*(attempt(made, "say", str(n)) for n in range(200)))

    assert grounded.used(grounded.dial(), many) == [str(n) for n in range(200)]


@pytest.mark.threat("G2")
def test_a_server_sees_what_its_policy_names_and_a_bare_one_sees_more(grounded: Grounded) -> None:
    hall = grounded.hall
    hall.folder("home")
    secret, docs = hall.file("home/secret.txt", "a canary"), hall.folder("docs")
    hall.file("docs/a.txt", "what is allowed")
    own = hall.file("gateway.toml", "a canary")
    hall.variables["KEPT_NAME"] = "a canary"
    bare = hall.bare()
    bare.open()
    for path in (secret, own):
        result = bare.answer(bare.call("attempt", {"what": "read", "argument": str(path)}))["result"]
        assert result["structuredContent"]["text"] == "a canary"
    seen = bare.answer(bare.call("attempt", {"what": "environment"}))["result"]["structuredContent"]["text"]
    assert json.loads(seen)["KEPT_NAME"] == "a canary"
    bare.finish()

    async def look(made: Connection) -> None:
        assert await attempt(made, "read", f"{docs}/a.txt") == "what is allowed"
        for path in (secret, own):
            assert (await attempt(made, "read", str(path))).startswith("refused")
        assert (await attempt(made, "write", f"{docs}/b.txt")).startswith("refused")
        environ = json.loads(await attempt(made, "environment"))
        assert environ["GIVEN_NAME"] == "a canary"
        assert not {"KEPT_NAME", "OWN_TOKEN", "FUMEHOOD_SECRET"} & set(environ)
        assert await attempt(made, "folder") == str(docs)

    dial = grounded.dial(folder=str(docs), allow_read=(hall.server, str(docs)), env=("GIVEN_NAME",))
    grounded.used(dial, look)


@pytest.mark.threat("G2")
def test_a_server_reaches_no_service_of_this_machine(grounded: Grounded) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        port = listening.getsockname()[1]

        async def reach(made: Connection) -> str:
            return await attempt(made, "connect", f"127.0.0.1:{port}")

        assert grounded.used(grounded.dial(), reach).startswith("refused")
        with pytest.raises(BlockingIOError):
            listening.accept()
        with socket.create_connection(("127.0.0.1", port), 5):  # it was there
            listening.accept()[0].close()


@pytest.mark.threat("G2")
@pytest.mark.parametrize("name", ["OWN_TOKEN", "FUMEHOOD_SECRET"])
def test_what_is_the_gateway_s_own_is_passed_to_no_command(grounded: Grounded, name: str) -> None:
    with pytest.raises(OwnVariableError, match=name):
        grounded.used(grounded.dial(env=(name,)), hello)


@pytest.mark.threat("G2")
def test_what_guard_would_not_run_is_not_run(grounded: Grounded) -> None:
    program = grounded.hall.file("program", "#!/bin/sh\n")
    program.chmod(0o755)
    unseen = Confined("one", Server(command=(str(program),)), grounded.ground)
    with pytest.raises(CommandError, match="does not see it"):
        grounded.used(unseen, hello)
    with pytest.raises(CommandError, match="outside of every wall"):
        grounded.used(Confined("one", Server(command=("docker", "run", "x")), grounded.ground), hello)


def test_servers_side_by_side_are_told_apart(grounded: Grounded) -> None:
    async def go() -> list[str]:
        async with grounded.dial(name="a")(lambda *_: None) as one, grounded.dial(name="b")(lambda *_: None) as two:
            seen = [await attempt(made, "read", "/proc/self/status") for made in (one, two)]
            assert len(grounded.pids()) == 2
            return [next(line for line in text.splitlines() if line.startswith("Uid:")) for text in seen]

    uids = asyncio.run(go())
    assert (len(set(uids)) == 2) == (os.getuid() == 0)
    assert {"a| it begins", "b| it begins"} <= set(grounded.said)


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("huge", "a line over its bound"),
        ("deep", "nested deeper than"),
        ("flood", "more than it is asked for"),
        ("exit", "the server ended with 7"),
        ("crash", "the server was ended by SIGSEGV"),
        ("half", "the server ended with 0"),
        ("memory", "the server"),
    ],
)
def test_a_hostile_answer_is_an_error_of_ours(grounded: Grounded, behaviour: str, said: str) -> None:
    async def call(made: Connection) -> str:
        with pytest.raises(UpstreamError) as caught:
            await attempt(made, "say", "x")
        assert "it begins" not in str(caught.value)  # what it says on stderr: clients, and models, read this
        return caught.value.message

    dial = grounded.dial(behaviour, memory_bytes=64 * 2**20) if behaviour == "memory" else grounded.dial(behaviour)
    assert said in grounded.used(dial, call)


@pytest.mark.parametrize("behaviour", ["noise", "unasked", "loud", "children", "stubborn"])
def test_what_is_said_besides_reaches_nobody(grounded: Grounded, behaviour: str) -> None:
    async def twice(made: Connection) -> Any:
        return [await attempt(made, "say", "first") for _ in range(2)]

    assert grounded.used(grounded.dial(behaviour), twice) == ["first", "first"]


def test_a_server_that_asks_for_input_is_told_of_as_such(grounded: Grounded) -> None:
    dial = grounded.dial("input")
    dial._era = "modern"
    with pytest.raises(UpstreamError, match="asks for input"):
        grounded.used(dial, hello)


def test_one_that_never_introduces_itself_is_ended_at_its_deadline(
    grounded: Grounded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_OPEN_SECONDS", 2.0)
    with pytest.raises(TimedOutError, match=r"1 lines of it are no messages"):
        grounded.used(grounded.dial("mute"), hello)


def test_a_server_that_is_killed_in_a_call_is_told_at_once(grounded: Grounded) -> None:
    async def kill(made: Connection) -> tuple[str, str]:
        call = asyncio.create_task(attempt(made, "say", "x"))
        for _ in range(5):
            await asyncio.sleep(0)
        (pid,) = grounded.pids()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(UpstreamError) as caught:
            await call
        return caught.value.message, await made.lost()

    message, lost = grounded.used(grounded.dial("hang"), kill)
    assert message == lost
    assert "ended by SIGKILL" in message


def test_a_caller_that_fails_leaves_nothing(grounded: Grounded) -> None:
    async def fail(_: Connection) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        grounded.used(grounded.dial("stubborn"), fail)
    wait_until(lambda: grounded.pids() == [])


def test_a_changed_list_is_told(grounded: Grounded) -> None:
    async def call(made: Connection) -> None:
        await attempt(made, "say", "x")
        await attempt(made, "say", "x")

    grounded.used(grounded.dial("changing"), call)
    assert ("notifications/tools/list_changed", {}) in grounded.told


# --- packages of npm

OFFICIAL = "2026.8.31"


@pytest.fixture
def shopping(grounded: Grounded, npm_registry: NpmRegistry) -> Iterator[Grounded]:
    """A ground whose packages come from the caching registry."""
    for name in ("everything", "filesystem", "memory"):
        npm_registry.need(f"@modelcontextprotocol/server-{name}@{OFFICIAL}")
    sources = Sources(registry=Remote.parse(npm_registry.url), forge=Remote.parse(NOWHERE), ca_file=None)
    yield grounded.over(shop=replace(grounded.ground.shop, sources=lambda: sources))
    assert npm_registry.unreachable == []


def package(shopping: Grounded, name: str, *words: str, **policy: Any) -> Confined:
    """An official server by `npx`."""
    typed = ("npx", "-y", f"@modelcontextprotocol/server-{name}@{OFFICIAL}", *words)
    return Confined(name, Server(command=typed, policy=GuardPolicy(**policy)), shopping.ground)


@pytest.mark.registry
@pytest.mark.long
def test_real_servers_are_acquired_once_and_used_side_by_side(shopping: Grounded) -> None:
    docs = shopping.hall.folder("docs")
    shopping.hall.file("docs/a.txt", "what is allowed")
    dials = [
        package(shopping, "filesystem", str(docs), allow_read=(str(docs),)),
        package(shopping, "everything"),
        package(shopping, "memory"),
    ]

    async def call(made: Connection, name: str, progress: Any = None, **arguments: Any) -> Any:
        return await made.ask("tools/call", {"name": name, "arguments": arguments}, seconds=60, progress=progress)

    async def go() -> None:
        seen: list[Any] = []
        async with contextlib.AsyncExitStack() as stack:
            files, everything, memory = [await stack.enter_async_context(one(lambda *_: None)) for one in dials]
            assert {one.introduction.era for one in (files, everything, memory)} == {"legacy"}
            result = await call(files, "read_text_file", path=f"{docs}/a.txt")
            assert result["content"][0]["text"] == "what is allowed"
            assert (await call(everything, "echo", message="hello"))["content"][0]["text"] == "Echo: hello"
            await call(everything, "trigger-long-running-operation", seen.append, duration=1, steps=4)
            assert [one["progress"] for one in seen] == sorted(one["progress"] for one in seen)
            assert seen[-1]["total"] == 4
            assert "entities" in (await call(memory, "read_graph"))["content"][0]["text"]

    asyncio.run(go())
    assert sum("is acquired" in line for line in shopping.said) == 3
    asyncio.run(go())
    assert sum("is acquired" in line for line in shopping.said) == 3


NOT_OF_THE_SDK = (
    "*.pyc",
    "*mypy*",
    "*node*",
    "*gitleaks*",
    "*jsonschema*",
    "tree_sitter*",
    "pip",
    "setuptools",
    "grimp",
)
SDK = """
import asyncio, sys
sys.path[:] = [one for one in sys.path if one] + [{site!r}]
from mcp.server.mcpserver import Context, MCPServer
server = MCPServer("sdk")
@server.tool()
async def add(a: int, b: int, ctx: Context) -> int:
    await ctx.report_progress(1, 2, "half")
    return a + b
@server.tool()
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"
server.run()
"""


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_of_the_python_sdk_is_used_in_each_era(grounded: Grounded, era: Era) -> None:
    site = next(one for one in sys.path if one.endswith("site-packages"))
    copied = shutil.copytree(site, grounded.hall.place / "site", ignore=shutil.ignore_patterns(*NOT_OF_THE_SDK))
    program = grounded.hall.file("sdk.py", SDK.format(site=str(copied)))
    policy = GuardPolicy(allow_read=(str(program), str(copied)))
    dial = Confined("sdk", Server(command=(PYTHON, str(program)), policy=policy), grounded.ground)
    dial._era = era
    seen: list[Any] = []

    async def add(made: Connection) -> Any:
        call: Any = {"name": "add", "arguments": {"a": 1, "b": 2}}
        await made.ask("tools/call", {"name": "change", "arguments": {}}, seconds=60)
        result: Any = await made.ask("tools/call", call, seconds=60, progress=seen.append)
        with pytest.raises(TimedOutError):
            await made.ask("tools/list", {}, seconds=0)
        listed: Any = await made.ask("tools/list", {}, seconds=60)
        assert [one["name"] for one in listed["tools"]] == ["add", "change"]
        return made.introduction, result["structuredContent"]

    introduction, result = grounded.used(dial, add)
    assert (introduction.era, introduction.server["name"], result) == (era, "sdk", {"result": 3})
    assert seen == [{"progress": 1, "total": 2, "message": "half"}]
    changed = ("notifications/tools/list_changed", {}) in grounded.told
    assert changed == (era == "modern")  # the SDK's server tells a listener alone, which the legacy era has not
