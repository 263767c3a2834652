"""Run a program on a runner elsewhere: one WebSocket, the calls answered by our own tools, one result.

Invariants:
- The program is never run here instead, whatever happens: what cannot be run there is `runner_unavailable`, with what
  to do.
- The token goes into the first message, and into nothing else: no header, no URL, no log, no error.
- One address: no proxy of the environment, no redirect; certificates of `wss` are checked; no compression.
- Everything is bounded: the handshake, the size and number of messages, the whole run.
- What the runner says passes `BackendEnd`; tools run behind the backend's own gate.

Not promised: that a run which broke had not begun. Its result then says which calls had reached the tools.
"""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from fumehood.code.asking import ask, end
from fumehood.code.backend import RefusalKeeper, ToolBackend
from fumehood.code.job import CallRecord, Job, JobResult, ProgramError, State
from fumehood.code.requests import RunTool
from fumehood.code.service.backendend import Ask, BackendEnd, Broken, Busy, Done, Heard, Refused, Reply, Terminal
from fumehood.code.service.door import Dialed
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FumehoodError, HarnessError, LimitError

ELSEWHERE: Final = "logs, calls, usage and containment are what the runner said, which ran the program elsewhere"
_PATH: Final = "/run"
_LOG: Final = logging.getLogger(__name__)
_QUIET: Final = logging.getLogger(f"{__name__}.frames")  # at DEBUG the library shows frames, and the token in one
_QUIET.setLevel(logging.CRITICAL + 1)
_REMEDIES: Final = {
    "bad_token": "code.runner_token_file has to hold a token whose SHA-256 stands in the runner's code.token_file",
    "draining": "start the runner again, or name another one in code.runner_url",
    "bad_job": "the runner may be of another version",
    "bad_message": "the runner may be of another version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A runner elsewhere, and the token that it takes. `jitter` spreads those who were told busy: 0 to 1."""

    url: str  # ws or wss, host and port
    token: str
    jitter: Callable[[], float] = random.random

    def __repr__(self) -> str:
        """Without the token."""
        return f"Runner(url={self.url!r})"


async def run_remote(job: Job, backend: ToolBackend, runner: Runner, cancel: asyncio.Event | None = None) -> JobResult:
    """Run one program there. `cancel` ends it, with the state `cancelled`; a cancelled task ends it and raises."""
    opening = _opening(job, runner.token)
    if isinstance(opening, JobResult):
        return opening
    for turn in range(limits.CODE_BUSY_TRIES):
        visit = _Visit(job, backend, runner.url)
        ended = await visit.pay(opening, cancel or asyncio.Event())
        match ended:
            case Done(result=result):
                return msgspec.structs.replace(result, limitations=(*result.limitations, ELSEWHERE))
            case Refused(code=code, reason=reason):
                return _unavailable(f"the runner refused: {reason}", _REMEDIES.get(code, "see the runner's log"))
            case Broken(reason=reason):
                return _broken(reason, visit)
            case Busy(retry_after_seconds=seconds):
                if turn + 1 < limits.CODE_BUSY_TRIES:
                    await _patience(max(seconds, limits.CODE_BUSY_SECONDS) * 2**turn, runner, cancel)
            case _:
                assert_never(ended)
        if cancel is not None and cancel.is_set():
            return _ended_early(State.CANCELLED, "Cancelled", "the run was cancelled before it began")
    remedy = "try again later, raise the runner's code.runs, or name another one in code.runner_url"
    return _unavailable(f"the runner was busy {limits.CODE_BUSY_TRIES} times", remedy)


def _opening(job: Job, token: str) -> bytes | JobResult:
    """The first message, or why there is none."""
    try:
        return BackendEnd(job, SystemClock()).opening(token)
    except LimitError as error:
        return _unavailable(f"the job was not sent: {error.message}", error.remedy)
    except ValueError:
        return _unavailable("the job was not sent: its input is no JSON", "give it a JSON value")


class _Once(connect):
    """A connection to where it was asked for."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Follow nobody."""
        return exc


class _Visit:
    """One connection, from its handshake to its end."""

    def __init__(self, job: Job, backend: ToolBackend, url: str) -> None:
        self._job = job
        self._backend = backend
        self._url = url
        self._end = BackendEnd(job, SystemClock())
        self._tools: set[asyncio.Task[None]] = set()
        self.sent = False  # the job went out: it may have begun

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls that reached us."""
        return self._end.calls

    async def pay(self, opening: bytes, cancel: asyncio.Event) -> Terminal:
        """Send the job, answer its calls, and say how it ended."""
        most = self._job.limits.wall_seconds + limits.CODE_LINK_SLACK_SECONDS
        try:
            async with _opened(self._url) as connection, asyncio.timeout(most):
                self.sent = True
                await connection.send(opening, text=True)
                await self._converse(connection, cancel)
        except TimeoutError:
            self._end.gone(f"no result within {most:g} s" if self.sent else "it does not answer")
        except ConnectionClosed:
            self._end.gone("the connection was lost")
        except (OSError, InvalidHandshake, InvalidURI, ValueError) as error:
            self._end.gone(_how(error))
        if self._end.terminal is None:
            raise HarnessError("a link ended without an end")
        return self._end.terminal

    async def _converse(self, connection: ClientConnection, cancel: asyncio.Event) -> None:
        cancelling = asyncio.ensure_future(self._cancelled(connection, cancel))
        try:
            while self._end.terminal is None:
                said = await connection.recv()
                heard = self._end.hear(said.encode()) if isinstance(said, str) else self._end.hear_binary()
                await self._take(connection, heard)
        finally:
            await end([cancelling, *self._tools])

    async def _take(self, connection: ClientConnection, heard: Heard) -> None:
        match heard:
            case Ask() as asked:
                task = asyncio.ensure_future(self._answer(connection, asked))
                self._tools.add(task)
                task.add_done_callback(self._tools.discard)
            case Reply(data=data, refused=refused):
                if refused is not None:
                    await self._keep(refused)
                await connection.send(data, text=True)
            case _:  # a line, which stands in the result too, or the end
                pass

    async def _keep(self, refused: RunTool) -> None:
        """Let the backend take note of a refusal, which stands whether that can be done or not."""
        try:
            if isinstance(self._backend, RefusalKeeper):
                await self._backend.refused(refused.name, refused.arguments)
        except FumehoodError as error:
            _LOG.error("a refusal has no record", extra={"error": error.code})

    async def _answer(self, connection: ClientConnection, asked: Ask) -> None:
        """Call one tool and tell the runner; a fault of the tools' is that call's failure, and ends nothing else."""
        try:
            data = self._end.answer(asked.id, await ask(self._backend, asked.request))
        except FumehoodError as error:
            data = self._end.refuse(asked.id, error)
        except Exception:  # noqa: BLE001 - a rim: a backend of somebody else may raise anything
            _LOG.exception("a tool failed in a way that it does not name")
            data = self._end.refuse(asked.id, HarnessError("the tool failed"))
        if data:
            with contextlib.suppress(ConnectionClosed):
                await connection.send(data, text=True)

    async def _cancelled(self, connection: ClientConnection, cancel: asyncio.Event) -> None:
        await cancel.wait()
        with contextlib.suppress(ConnectionClosed):
            await connection.send(self._end.cancelling(), text=True)
        await asyncio.sleep(limits.CODE_STOP_SECONDS)
        self._end.gone("it did not end when it was cancelled")
        connection.transport.abort()


def _opened(url: str) -> _Once:
    context: ssl.SSLContext | None = None
    if url.startswith("wss:"):
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    return _Once(
        url.rstrip("/") + _PATH,
        ssl=context,
        compression=None,
        proxy=None,
        user_agent_header=None,
        open_timeout=limits.CODE_LINK_OPEN_SECONDS,
        ping_interval=limits.CODE_LINK_PING_SECONDS,
        ping_timeout=limits.CODE_LINK_PONG_SECONDS,
        close_timeout=limits.CODE_LINK_CLOSE_SECONDS,
        max_size=limits.CODE_LINK_RESULT_BYTES,
        max_queue=limits.CODE_LINK_FRAMES,
        write_limit=limits.CODE_LINK_WRITE_BYTES,
        create_connection=Dialed,
        logger=_QUIET,
    )


async def _patience(seconds: float, runner: Runner, cancel: asyncio.Event | None) -> None:
    """Wait half of the time at least, and no longer than all of it, or until nobody wants the run any more."""
    waited = min(seconds, limits.CODE_BUSY_SECONDS_MAX) * (0.5 + runner.jitter() / 2)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(waited):
            await (cancel or asyncio.Event()).wait()


def _how(error: Exception) -> str:
    match error:
        case InvalidStatus():
            return f"it answers HTTP {error.response.status_code}, and no WebSocket"
        case ssl.SSLError():
            return "TLS failed: its certificate has to be one that this machine trusts, for the name in the URL"
        case OSError():
            return error.strerror or "the connection was lost"
        case InvalidURI() | ValueError():
            return "code.runner_url is no address: write ws://HOST:PORT or wss://HOST:PORT"
        case _:
            return "it does not speak WebSocket"


def _broken(reason: str, visit: _Visit) -> JobResult:
    if not visit.sent:
        return _unavailable(
            f"the runner was not reached: {reason}", "see code.runner_url, and whether a runner is there"
        )
    made = len(visit.calls)
    words = f"the run broke: {reason}; the program may have run, and {made} calls had reached its tools"
    remedy = "see what they did before it is sent again; the runner's log may say more"
    return msgspec.structs.replace(_unavailable(words, remedy), calls=visit.calls)


def _unavailable(words: str, remedy: str) -> JobResult:
    return _ended_early(State.RUNNER_UNAVAILABLE, "RunnerUnavailable", f"{words} ({remedy})")


def _ended_early(state: State, name: str, words: str) -> JobResult:
    return JobResult(state=state, ok=False, error=ProgramError(name=name, message=words))
