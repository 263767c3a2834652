"""Where programs of the gateway run: on this host once its walls were tried, or at the runner that the settings name.

Invariants: on this host no program runs before the self test counts (`code.attest`), and none where it failed, where
there is no Deno or no route to a sandbox, or where a file that was tested has been replaced since; the reason is told,
and programs are not offered then. Finding that out never delays the start: a program that comes meanwhile waits. With
`code.runner_url` nothing runs here, whatever becomes of it there. Children are started when the first program comes.
"""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fumehood.code import attest, grounding
from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult
from fumehood.code.pool import Pool
from fumehood.code.run import Ground
from fumehood.code.service.secret import read_token
from fumehood.core.errors import FumehoodError, UnsupportedError
from fumehood.core.sections import Settings
from fumehood.gateway.codemode.engine import Place

_AGAIN: Final = "start the gateway again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a place is made of."""

    settings: Settings
    trial: attest.Wanted  # where the record of the self test lies, and whom to tell
    changed: Callable[[], None] = lambda: None  # called when it turns out that no program runs here
    ground: Callable[[Settings], tuple[Ground, object]] = grounding.find
    require: Callable[[Ground, attest.Wanted], Awaitable[str]] = attest.require


class _Nowhere:
    """No place: programs are not wanted."""

    unavailable = "programs are not offered here"

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """Never."""
        del job, backend
        raise UnsupportedError(self.unavailable, remedy='gateway.show = "both"')


NOWHERE: Final[Place] = _Nowhere()


@contextlib.asynccontextmanager
async def opened(wanted: Wanted) -> AsyncIterator[Place]:
    """The place, until the block is left: then every program is cancelled. Errors: `SettingsError` for the runner's."""
    if wanted.settings.code.runner_url:
        yield _Elsewhere(wanted.settings)
        return
    async with contextlib.AsyncExitStack() as stack:
        here = _Here(wanted, stack)
        finding = asyncio.ensure_future(here.find())
        try:
            yield here
        finally:
            finding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await finding


class _Here:
    """The host that the gateway runs on."""

    def __init__(self, wanted: Wanted, stack: contextlib.AsyncExitStack) -> None:
        """Nothing is known. `stack` ends what is opened."""
        self._wanted = wanted
        self._stack = stack
        self._known = asyncio.Event()
        self._opening = asyncio.Lock()
        self._ground: Ground | None = None
        self._seal: attest.Seal | None = None
        self._pool: Pool | None = None
        self.unavailable = ""

    async def find(self) -> None:
        """Find out whether programs may run, and say so."""
        wanted, reason = self._wanted, "nobody could find out whether programs may run here"
        try:
            ground, _ = await asyncio.to_thread(wanted.ground, wanted.settings)
            self._seal = attest.Seal(ground)
            await asyncio.to_thread(attest.facts, ground)  # reads and digests Deno: kept for the next look
            wanted.trial.say(await wanted.require(ground, wanted.trial))
            self._ground, reason = ground, ""
        except FumehoodError as error:
            reason = str(error)
        except OSError as error:
            reason = error.strerror or reason
        finally:
            self.unavailable = reason
            self._known.set()
        if reason:
            wanted.trial.say(f"no program runs here, and run_code is not offered: {reason}")
            wanted.changed()

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """One program in a child of its own."""
        await self._known.wait()
        if self._ground is None or self._seal is None:
            raise UnsupportedError(self.unavailable)
        if replaced := self._seal.broken():
            raise UnsupportedError(f"{replaced} was replaced after the self test", remedy=_AGAIN)
        pool = await self._opened(self._ground)
        return await pool.run(job, backend)

    async def _opened(self, ground: Ground) -> Pool:
        """The pool, made for the first program."""
        async with self._opening:
            if self._pool is None:
                code = self._wanted.settings.code
                self._pool = await self._stack.enter_async_context(Pool(ground, runs=code.runs, warm=code.warm))
        return self._pool


class _Elsewhere:
    """The runner of `code.runner_url`, which has tried its own walls."""

    def __init__(self, settings: Settings) -> None:
        """Look at the token, so that one that cannot be read stops the start."""
        self._url = settings.code.runner_url or ""
        self._file = settings.code.runner_token_file
        read_token(self._file)
        missing = importlib.util.find_spec("websockets") is None
        self.unavailable = "the extra `code` is not installed: websockets is missing" if missing else ""

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """One program there; the token is read each time, so that it can be rotated."""
        from fumehood.code.dialing import Runner, run_remote  # noqa: PLC0415 - brings the extra `code`

        return await run_remote(job, backend, Runner(url=self._url, token=read_token(self._file)))
