"""Servers behind the gateway, real ones behind walls: rug pulls are withheld, and a kill costs its own calls only."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import descendants
from e2e.grounded import Grounded
from e2e.guarded import PYTHON, SERVER
from fumehood.content.control import Controls
from fumehood.core.clock import SystemClock
from fumehood.gateway.topology import load
from fumehood.gateway.upstreams.accepted import Who, pins_of
from fumehood.gateway.upstreams.breaker import Pace
from fumehood.gateway.upstreams.confined import Confined
from fumehood.gateway.upstreams.identity import identity
from fumehood.gateway.upstreams.keepers import Keepers, keeping
from fumehood.gateway.upstreams.model import Standing, Up, UpstreamError, Withheld
from fumehood.gateway.upstreams.shared import Shared, Upstream
from loopback.speaking import wait_until

pytestmark = [pytest.mark.sandbox]

BOUND_SECONDS = 60.0
LEAST, LOAD = 5, 4  # calls of the other server between two kills; callers of each server
ECHO: dict[str, Any] = {"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}
TELL: dict[str, Any] = {"name": "tell", "description": "Tells.", "inputSchema": {"type": "object"}}
PULLS: list[tuple[str, dict[str, Any], str]] = [
    ("one character", {**ECHO, "description": "Echoes!"}, "changed 'echo'"),
    ("an invisible character", {**ECHO, "description": "Echoes.\u200b"}, "changed 'echo'"),
    ("a schema", {**ECHO, "inputSchema": {"type": "object", "properties": {"all": {}}}}, "changed 'echo'"),
    ("another name", {**ECHO, "name": "echo2"}, "renamed 'echo' to 'echo2'"),
]


class Site:
    """Two servers of one gateway.toml, `files` and `other`, each with its tools in a file."""

    def __init__(self, grounded: Grounded) -> None:
        self.grounded = grounded
        self.place = grounded.hall.place
        self.program = Path(shutil.copy(SERVER.with_name("changing.py"), self.place / "changing.py"))
        self.program.chmod(0o644)
        self.config = grounded.hall.file("gateway.toml", "")
        grounded.hall.folder("tools")
        for name in ("files", "other"):
            self.tools(name, ECHO, TELL)
        self.config.write_text("".join(map(self._entry, ("files", "other"))), encoding="utf-8")

    def _list(self, name: str) -> Path:
        return self.place / "tools" / f"{name}.json"

    def _entry(self, name: str) -> str:
        command = json.dumps([PYTHON, str(self.program), str(self._list(name))])
        seen = json.dumps([str(self.program), str(self.place / "tools")])
        return f"[servers.{name}]\ncommand = {command}\npolicy = {{ allow_read = {seen} }}\n"

    def tools(self, name: str, *definitions: dict[str, Any]) -> None:
        """What a server lists from now on."""
        self.grounded.hall.file(f"tools/{name}.json", json.dumps(definitions))

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[Keepers]:
        """Both, kept as the gateway keeps them; they start again sooner."""
        loaded = load.load(self.config)
        servers = [
            Upstream(
                who=Who(name=name, identity=identity(server, loaded.folder)),
                dial=Confined(name, server, self.grounded.ground),
            )
            for name, server in loaded.topology.servers.items()
        ]
        around = Shared(
            pins=pins_of(loaded, SystemClock(), config=str(self.config)),
            controls=Controls(key=b"k" * 32),
            say=self.grounded.said.append,
            chance=random.random,
            work=asyncio.to_thread,
            restarts=Pace(floor=0.05, ceiling=1.0, well=0.0),
        )
        async with keeping(servers, around) as keepers:
            await keepers.settled(BOUND_SECONDS)
            yield keepers

    async def accept(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`fumehood gateway accept WORDS`, in a process of its own."""
        argv = [sys.executable, "-m", "fumehood", "gateway", "accept", *words, "--config", str(self.config)]

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                argv, env=self.grounded.hall.environment, capture_output=True, text=True, timeout=60, check=False
            )

        return await asyncio.to_thread(run)

    def pid(self, name: str) -> int:
        """The process of a server itself, within its walls."""
        wanted = [PYTHON.encode(), str(self.program).encode(), str(self._list(name)).encode()]
        for pid in descendants():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:3] == wanted:
                    return pid
        raise LookupError(name)


@pytest.fixture
def site(grounded: Grounded, adopted: None) -> Iterator[Site]:
    del adopted
    before = set(descendants())
    yield Site(grounded)
    wait_until(lambda: set(descendants()) <= before)


async def call(keepers: Keepers, server: str, tool: str = "echo") -> Any:
    asked: Any = {"name": tool, "arguments": {}}
    answer: Any = await keepers.ask(server, "tools/call", asked, seconds=BOUND_SECONDS)
    return answer["content"][0]["text"]


async def until(keepers: Keepers, server: str, kind: type[Standing]) -> Any:
    """Its standing, once it is of this kind."""
    changed = asyncio.Event()
    end = keepers.watch(lambda *_: changed.set())
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while not isinstance(standing := keepers.standing(server), kind):
                await changed.wait()
                changed.clear()
            return standing
    finally:
        end()


@pytest.mark.threat("G4")
@pytest.mark.parametrize(("definition", "said"), [one[1:] for one in PULLS], ids=[one[0] for one in PULLS])
def test_tools_that_changed_between_two_starts_are_withheld_until_a_command_accepts_them(
    site: Site, definition: dict[str, Any], said: str
) -> None:
    async def first() -> None:
        async with site.kept() as keepers:
            assert await call(keepers, "files") == "echo"

    async def second() -> None:
        async with site.kept() as keepers:
            standing = keepers.standing("files")
            assert isinstance(standing, Withheld)
            assert said in standing.reason
            assert keepers.listed("files").shown == ()
            with pytest.raises(UpstreamError, match="files: its tools are withheld"):
                await call(keepers, "files")
            assert await call(keepers, "other") == "echo"
            done = await site.accept("files")
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[1:] == [f"  {line}" for line in standing.difference[:-1]]
            await until(keepers, "files", Up)
            assert definition["name"] in {one["name"] for one in keepers.listed("files").shown}
            assert await call(keepers, "files", str(definition["name"]))

    asyncio.run(first())
    site.tools("files", definition, TELL)
    asyncio.run(second())


@pytest.mark.threat("G4")
def test_tools_that_change_on_the_open_connection_are_withheld_until_a_command_accepts_them(site: Site) -> None:
    async def pulls() -> None:
        async with site.kept() as keepers:
            for _, definition, said in PULLS[1::2]:
                site.tools("files", definition, TELL)
                assert await call(keepers, "files", "tell") == "tell"
                with pytest.raises(UpstreamError, match="files: its tools are withheld") as refused:
                    await call(keepers, "files", "echo")
                standing = keepers.standing("files")
                assert isinstance(standing, Withheld)
                assert said in standing.reason
                assert said not in str(refused.value)
                assert (await site.accept("files")).returncode == 0
                await until(keepers, "files", Up)
                site.tools("files", ECHO, TELL)
                await call(keepers, "files", "tell")
                await until(keepers, "files", Withheld)
                assert (await site.accept()).returncode == 0
                await until(keepers, "files", Up)
            assert (await site.accept()).returncode == 2  # nothing waits

    asyncio.run(pulls())
    assert sum(line.startswith("fumehood: files: is up") for line in site.grounded.said) == 1 + 2 * len(PULLS[1::2])


class Load:
    """Callers who ask all the time; what they got."""

    def __init__(self, keepers: Keepers, server: str) -> None:
        self._keepers = keepers
        self._server = server
        self.answers = 0
        self.errors: list[UpstreamError] = []

    async def run(self) -> None:
        """Ask again and again; after an error, once it is up."""
        while True:
            try:
                assert await call(self._keepers, self._server) == "echo"
                self.answers += 1
            except UpstreamError as error:
                self.errors.append(error)
                await until(self._keepers, self._server, Up)

    async def more(self, answers: int) -> None:
        """Wait for so many further answers."""
        wanted = self.answers + answers
        async with asyncio.timeout(BOUND_SECONDS):
            while self.answers < wanted:
                await call(self._keepers, self._server)


@contextlib.asynccontextmanager
async def loaded(keepers: Keepers, server: str) -> AsyncIterator[Load]:
    load = Load(keepers, server)
    tasks = [asyncio.create_task(load.run()) for _ in range(LOAD)]
    try:
        yield load
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


async def kill_in_calls(site: Site, keepers: Keepers) -> None:
    """One kill: each call that waits gets an error, and the next works."""
    held = [asyncio.create_task(call(keepers, "files", "hold")) for _ in range(3)]
    assert await call(keepers, "files") == "echo"  # so it has heard of the calls before
    assert not any(one.done() for one in held)
    os.kill(site.pid("files"), signal.SIGKILL)
    async with asyncio.timeout(BOUND_SECONDS):
        ended = await asyncio.gather(*held, return_exceptions=True)
    assert [type(one) for one in ended] == [UpstreamError] * 3
    assert all("files: the server was ended by SIGKILL" in str(one) for one in ended), ended
    await until(keepers, "files", Up)
    assert await call(keepers, "files") == "echo"


@pytest.mark.threat("G8")
@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_kill_in_the_middle_of_calls_costs_its_own_calls_and_nothing_else(site: Site, times: int) -> None:
    async def kills() -> None:
        async with site.kept() as keepers, loaded(keepers, "files") as files, loaded(keepers, "other") as other:
            stays = site.pid("other")
            for _ in range(times):
                await other.more(LEAST)
                await files.more(LEAST)
                await kill_in_calls(site, keepers)
            assert other.errors == []
            assert LOAD * times <= len(files.errors) <= 10 * LOAD * times  # a few until the loss is seen
            assert site.pid("other") == stays

    asyncio.run(kills())
    said = site.grounded.said
    assert sum("files: is down: the server was ended by SIGKILL" in line for line in said) == times
    assert not any("other: is down" in line for line in said)
