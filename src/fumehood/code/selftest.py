"""Try the containment of programs on this machine, each program with the walls and without them.

Invariants: what is planted (files that everybody may read, a folder that everybody may write, a listener on loopback, a
variable) is of this run and taken away afterwards, by the next self test where this one is killed; the programs are
those that come with fumehood, and no others are ever run without walls; with the walls they have every ambient
capability of Deno back, so that hygiene proves nothing.

Not promised: that what is not tried holds.
"""

import asyncio
import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Final

from fumehood.code import trials
from fumehood.code.job import Job, JobLimits, JobResult
from fumehood.code.run import Ground, run_job
from fumehood.code.trials import Kind, Outcome, Report, Trial, Tried
from fumehood.code.unconfined import UnsafeGround, run_unconfined
from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox import slots
from fumehood.sandbox.programs import janitor

PROGRAMS: Final = "selftest.js"
_HYGIENE: Final = b"  removeAmbient();\n"
_PREFIX: Final = "fumehood-selftest-"
_MAKING_SECONDS: Final = 5.0  # from a folder's making to its lock: far below a millisecond
_VARIABLE: Final = "FUMEHOOD_MARK"
_LIMITS: Final = JobLimits(wall_seconds=20, cpu_seconds=1, memory_bytes=limits.CODE_MEMORY_BYTES_MIN)
_PLANTED: Final = ("secret.txt", "secret.json", "secret.js")
_MARK_BYTES: Final = 12
_REQUEST_BYTES: Final = 4096  # of a request to the listener: Deno's are below 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Canary:
    """What programs are after."""

    folder: Path
    mark: str
    port: int

    def filled(self, program: str, deno: Path) -> str:
        """`deno` is the one program that is on every machine with a runner, and can read a file."""
        places = {"@FOLDER@": str(self.folder), "@PORT@": str(self.port), "@DENO@": str(deno)}
        for name, place in places.items():
            program = program.replace(name, place)
        return program

    def disturbed(self) -> bool:
        """Whether anything was made in the folder; it is taken away again."""
        made = [path for path in self.folder.iterdir() if path.name not in _PLANTED]
        for path in made:
            path.unlink()
        return bool(made)


class _Echo:
    """A `ToolBackend` with one tool."""

    async def search(self, query: str, limit: int) -> JsonValue:
        del query, limit
        return [{"name": "echo", "description": "Give back what it is given."}]

    async def describe(self, names: Sequence[str]) -> JsonValue:
        return ", ".join(names)

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        del name
        return {"echo": arguments}


async def selftest(ground: Ground, sha256: str, progress: Callable[[Tried], None]) -> Report:
    """Try everything, one program after the other; `sha256` is that of the Deno of `ground`."""
    if _HYGIENE not in ground.parts.harness:
        raise HarnessError("the harness has no hygiene that could be taken away")
    parts = replace(ground.parts, harness=ground.parts.harness.replace(_HYGIENE, b""))
    bare = replace(ground, parts=parts)
    _sweep(Path(tempfile.gettempdir()))
    tried: list[Tried] = []
    containment: dict[str, str] = {}
    async with _planted() as canary:
        for trial in trials.read((resources.files("fumehood.data") / PROGRAMS).read_text(encoding="utf-8")):
            confined, one = await _try(trial, bare, canary)
            containment = confined.containment or containment
            tried.append(one)
            progress(one)
    return Report(
        ok=all(one.outcome is Outcome.HELD for one in tried),
        deno=str(parts.deno),
        deno_sha256=sha256,
        trials=tuple(tried),
        containment=containment,
    )


async def _try(trial: Trial, ground: Ground, canary: _Canary) -> tuple[JobResult, Tried]:
    job = Job(code=canary.filled(trial.program, ground.parts.deno), tools=("echo",), limits=_LIMITS)
    confined = await run_job(job, _Echo(), ground)
    disturbed = canary.disturbed()
    free = None if trial.kind is Kind.WORKS else await _free(job, ground, canary)
    found = trials.judge(trial, confined, free, canary.mark)
    if disturbed:
        found = Tried(
            name=trial.name, kind=trial.kind, outcome=Outcome.NOT_HELD, with_walls="left something in a folder outside"
        )
    return confined, found


async def _free(job: Job, ground: Ground, canary: _Canary) -> JobResult:
    with _place() as place:
        harness = Path(place) / "harness.js"
        harness.write_bytes(ground.parts.harness)
        unsafe = UnsafeGround(deno=ground.parts.deno, harness=harness, folder=Path(place), mark=canary.mark)
        result = await run_unconfined(job, _Echo(), unsafe)
    canary.disturbed()
    return result


@contextlib.asynccontextmanager
async def _planted() -> AsyncIterator[_Canary]:
    """Files, a listener and a variable with a mark that nothing else on this machine holds."""
    mark = f"mark{secrets.token_hex(_MARK_BYTES)}"

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError):  # a request is read first: unread, it would reset the answer
            async with asyncio.timeout(limits.CODE_SELFTEST_SECONDS):
                await reader.read(_REQUEST_BYTES)
        with contextlib.suppress(OSError):
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(mark)}\r\nConnection: close\r\n\r\n{mark}".encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    with _place() as place, _variable(mark):
        folder = _written(place, mark)
        server = await asyncio.start_server(say, "127.0.0.1", 0)
        async with server:
            port: int = server.sockets[0].getsockname()[1]
            yield _Canary(folder=folder, mark=mark, port=port)


@contextlib.contextmanager
def _place() -> Iterator[str]:
    """A folder of our own, held by a lock for as long as it is used."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as place:
        lock = slots.try_lock(Path(place))
        try:
            yield place
        finally:
            if lock is not None:
                os.close(lock)


def _sweep(folder: Path) -> None:
    """Take away what a self test that was killed has left: ours, held by nobody, and not being made just now."""
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = slots.try_lock(path)
            if lock is None:
                continue
            try:
                found = os.fstat(lock)
                if found.st_uid == os.geteuid() and time.time() - found.st_ctime > _MAKING_SECONDS:
                    janitor.purge(str(path))
            finally:
                os.close(lock)


def _written(place: str, mark: str) -> Path:
    """The files; whoever reaches their folder may read and write there."""
    folder = Path(place)
    for name, text in zip(_PLANTED, (mark, f'{{"mark": "{mark}"}}', f'export default "{mark}";'), strict=True):
        (folder / name).write_text(text)
    folder.chmod(0o777)
    return folder


@contextlib.contextmanager
def _variable(mark: str) -> Iterator[None]:
    """A variable of this process, for as long as it is looked for."""
    os.environ[_VARIABLE] = mark
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
