"""A laboratory for programs: real children behind every wall, and permissive ones that show what the walls stop."""

import asyncio
import contextlib
import json
import os
import re
import secrets
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Ready, Send
from fumehood.code.job import Job, JobLimits, JobResult
from fumehood.code.outcome import Ending, conclude
from fumehood.code.requests import RunTool
from fumehood.code.run import Ground, prepare, run_job
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.probe import runtime
from fumehood.sandbox.start import AsItIs
from fumehood.sandbox.supervise import Wiring

ATTEMPTS = Path(__file__).parents[2] / "fixtures" / "code"
# The form is said in the folder's README.
HEAD = re.compile(
    r"^//== (?P<name>[\w-]+): (?P<kind>\w+)(?P<succeeds> !)?(?: -> (?P<states>[a-z_ ]+))?\n", re.MULTILINE
)
_OURS = b"it is us"
HYGIENE = b"  removeAmbient();\n"
TOOLS = ("x", "slow", "after-result")
SETS = {
    "leak": ("leak", "perm"),
    "forgery": ("forge", "after"),
    "excess": ("dos", "mem"),
    "oddity": ("info",),
    "giveaway": ("leak",),
    "attempt": ("leak", "perm", "forge", "after", "dos", "mem", "info"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One program that tries something."""

    name: str
    kind: str
    program: str
    succeeds: bool  # in a child without walls
    states: tuple[str, ...]


def attempts() -> Iterator[Attempt]:
    for path in sorted(ATTEMPTS.glob("*.js")):
        text = path.read_text(encoding="utf-8")
        heads = list(HEAD.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            yield Attempt(
                name=head["name"],
                kind=head["kind"],
                program=text[head.end() : following.start() if following else len(text)].strip(),
                succeeds=head["succeeds"] is not None,
                states=tuple((head["states"] or "").split()),
            )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, kinds in SETS.items():
        if name in metafunc.fixturenames:
            wanted = [one for one in attempts() if one.kind in kinds and (name != "giveaway" or one.succeeds)]
            metafunc.parametrize(name, wanted, ids=[one.name for one in wanted])


@pytest.fixture(scope="session")
def every_attempt() -> dict[str, Attempt]:
    """All of them by name."""
    return {one.name: one for one in attempts()}


@dataclass(slots=True)
class Tools:
    """A backend that says what it was asked, and remembers."""

    called: list[str] = field(default_factory=list)

    async def search(self, query: str, limit: int) -> JsonValue:
        return [{"name": "x", "description": f"{query} {limit}"}]

    async def describe(self, names: Sequence[str]) -> JsonValue:
        return "\n".join(names)

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        self.called.append(name)
        if name == "slow":
            await asyncio.sleep(0)
        return {"echo": arguments}


@dataclass(slots=True, kw_only=True)
class Canary:
    """What a program is after: files with a random mark, a listener, a variable."""

    folder: Path
    mark: str
    port: int
    reached: list[bytes]

    def filled(self, program: str, harness: str, import_map: str) -> str:
        places = {
            "CANARY_URL": f"file://{self.folder}/",
            "CANARY_FOLDER": f"{self.folder}/",
            "CANARY_RELATIVE": f"./{os.path.relpath(self.folder, Path(harness).parent)}/",
            "HARNESS_URL": f"file://{harness}",
            "IMPORT_MAP_URL": f"file://{import_map}",
            "PORT": str(self.port),
        }
        for name, value in places.items():
            program = program.replace(f"@{name}@", value)
        return program

    def given_away(self, result: JobResult) -> bool:
        """Whether the mark stands anywhere in a result, or the listener was reached since the last look."""
        return self.mark in msgspec.json.encode(result).decode() or bool(self._visits())

    def _visits(self) -> list[bytes]:
        """Who reached the listener. It serves one after the other: once we are answered, nobody is before us."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(_OURS)
            connection.recv(1000)
        visits = [words for words in self.reached if words != _OURS]
        self.reached.clear()
        return visits


@pytest.fixture
def canary() -> Iterator[Canary]:
    mark = f"mark{secrets.token_hex(8)}"
    module = b"\0asm\1\0\0\0\1\5\1\x60\0\1\x7f\3\2\1\0\7\7\1\3run\0\0\n\6\1\4\0\x41\x2a\x0b"  # run() is 42
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-")))
        folder.chmod(0o777)  # whoever could reach it could read and write it
        (folder / "secret.txt").write_text(mark)
        (folder / "secret.json").write_text(json.dumps({"k": mark}))
        (folder / "secret.js").write_text(f"globalThis.postMessage?.('{mark}'); export default '{mark}'")
        (folder / "secret.ts").write_text(f"const mark: string = '{mark}'; export default mark")
        (folder / "secret.cjs").write_text(f"module.exports = '{mark}'")
        (folder / "secret.wasm").write_bytes(module)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        reached: list[bytes] = []
        thread = threading.Thread(target=_serve, args=(listener, reached))
        thread.start()
        stack.callback(thread.join)
        stack.callback(listener.shutdown, socket.SHUT_RDWR)
        yield Canary(folder=folder, mark=mark, port=listener.getsockname()[1], reached=reached)


def _serve(listener: socket.socket, reached: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(1)
            words = b""
            with contextlib.suppress(OSError):
                words = connection.recv(1000)
            reached.append(words)
            with contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.fixture(scope="session")
def found() -> runtime.Runtime:
    """The wheel's Deno."""
    found = runtime.find({})
    assert found.runtime is not None, found.problem
    return found.runtime


@pytest.fixture(scope="session")
def ground(found: runtime.Runtime) -> Iterator[Ground]:
    """This host's children; the folders of their runs are nobody else's."""
    with tempfile.TemporaryDirectory(prefix="fumehood-code-", dir="/var/tmp") as folder:
        yield prepare(probe.probe_host({}, quick=True, run_root=Path(folder)), found)


@pytest.fixture(scope="session")
def bare(ground: Ground) -> Ground:
    """Children whose programs get every ambient capability of Deno back: the walls alone hold."""
    assert HYGIENE in ground.parts.harness
    return replace(ground, parts=replace(ground.parts, harness=ground.parts.harness.replace(HYGIENE, b"")))


@pytest.fixture(params=probe.possible_routes(os.geteuid()), ids=str)
def routed(request: pytest.FixtureRequest, ground: Ground, found: runtime.Runtime) -> Ground:
    """The same children by each route that this user may take."""
    return prepare(replace(ground.host, routes=(request.param,)), found)


RunProgram = Callable[..., JobResult]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def run(tools: Tools) -> RunProgram:
    """Run a program in a child of `ground` and give the result."""

    def one(ground: Ground, program: str, **limits: Any) -> JobResult:
        job = Job(code=program, input={"a": 1}, tools=TOOLS, limits=JobLimits(**limits))
        return asyncio.run(run_job(job, tools, ground))

    return one


Alone = Callable[..., JobResult]
PERMISSIVE = ("-A", "--no-lock", "--no-config")


@pytest.fixture
def alone(bare: Ground, canary: Canary, tools: Tools, tmp_path: Path) -> Alone:
    """Run a program in a Deno that no sandbox holds, with words of its command line."""
    harness = tmp_path / "harness.js"
    harness.write_bytes(bare.parts.harness)
    import_map = tmp_path / "import_map.json"
    import_map.write_bytes(bare.parts.import_map.replace(b"file:///harness.js", f"file://{harness}".encode()))

    async def talk(program: str, words: Sequence[str]) -> JobResult:
        job = Job(code=canary.filled(program, str(harness), str(import_map)), tools=TOOLS)
        child = await asyncio.create_subprocess_exec(
            bare.parts.deno,
            *("run", "--quiet", "--location=http://a.invalid/", *words, str(harness)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"DENO_DIR": str(tmp_path / "deno"), "HOME": "/nowhere", "NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
            cwd=tmp_path,
        )
        bridge = Bridge(job, SystemClock())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await _serve_bridge(bridge, child, tools)
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.communicate()  # closes the pipes
        return conclude(job, bridge.account(), Ending())

    def one(program: str, words: Sequence[str] = PERMISSIVE, *, mapped: bool = False) -> JobResult:
        return asyncio.run(talk(program, [*words, f"--import-map={import_map}"] if mapped else words))

    return one


class Permitted(AsItIs):
    """Takes Deno's own layers away: every permission is given, and there is no import map."""

    def command(self, words: Sequence[str]) -> list[str]:
        kept = [
            word for word in words if not word.startswith(("--deny", "--no-", "--cached", "--import-map", "--node-"))
        ]
        at = kept.index("--quiet")
        return [*kept[:at], *PERMISSIVE, *kept[at:]]


@pytest.fixture
def permitted(bare: Ground) -> Ground:
    """Children behind the sandbox alone."""
    return replace(bare, wiring=Wiring(unsafe_reshape=Permitted()))


async def _serve_bridge(bridge: Bridge, child: asyncio.subprocess.Process, tools: Tools) -> None:
    assert child.stdin and child.stdout  # noqa: PT018  # pipes, as asked for
    while bridge.terminal is None:
        data = await child.stdout.read(65536)
        for event in bridge.feed(data) if data else bridge.closed():
            match event:
                case Ready():
                    child.stdin.write(bridge.opening())
                case Send(data=line):
                    child.stdin.write(line)
                case Call(id=number, request=RunTool(name=name, arguments=arguments)):
                    for answer in bridge.answer(number, await tools.run(name, arguments)):
                        if isinstance(answer, Send):
                            child.stdin.write(answer.data)
