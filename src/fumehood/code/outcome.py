"""What came of a run: one state, from everything that is known at its end. Pure.

What counts, in this order: the first terminal event of the bridge, if it is a result, a violation or a limit; then a
bound that the sandbox held (deadline, memory); then why the runner itself ended the child; then how the child went.
A child that went before it was ready never ran the program: that is the runner's trouble, not the program's.

Invariants: every combination has exactly one state; a value is there exactly when the state is `ok`, an error in
every other; whatever could not be measured is said.

Not promised: that `out_of_memory` and `child_exit` are told apart in every case. Without a cgroup they are by V8's and
Rust's last words on stderr, which a program that took its process over may write too; it deceives its own author.

Source: `docs/reference/code.md`.
"""

import enum
import signal
from dataclasses import dataclass
from typing import Final, assert_never

from fumehood.code import positions
from fumehood.code.events import Account, Ended, Finished, OverLimit, Violation
from fumehood.code.job import Job, JobResult, LogLine, ProgramError, State, Usage
from fumehood.core import limits
from fumehood.sandbox.containment import Containment, WallState
from fumehood.sandbox.spec import End, Exit

FIRST_LIMITATION: Final = (
    "value, error, logs and the arguments of calls are what the child said, and a program may say anything"
)
_LAST_WORDS: Final = (b"out of memory", b"memory allocation of ", b"Out of memory")  # V8's and Rust's
_NO_THREAD: Final = b"unable to create worker threads"  # Deno's, where there is no memory for a stack; it exits with 1
_MUCH: Final = 0.5  # of the memory: at such an end 0.7 to 0.84 of it had been seen (40 runs of four workers that grow)
_ABORTS: Final = frozenset({signal.SIGTRAP, signal.SIGABRT, signal.SIGILL, signal.SIGSEGV})  # V8 traps, Rust aborts
_CPU_SIGNALS: Final = frozenset({signal.SIGXCPU, signal.SIGKILL})  # at RLIMIT_CPU: soft, and hard
_NO_BUFFER: Final = "Array buffer allocation failed"  # V8's RangeError
_NAMES: Final = {
    State.TIMEOUT_WALL: "WallTimeExceeded",
    State.TIMEOUT_CPU: "CpuTimeExceeded",
    State.OUT_OF_MEMORY: "OutOfMemory",
    State.OUTPUT_LIMIT: "OutputLimitExceeded",
    State.CALL_LIMIT: "CallLimitExceeded",
    State.PROTOCOL_VIOLATION: "ProtocolViolation",
    State.CHILD_EXIT: "ChildExit",
    State.CANCELLED: "Cancelled",
    State.RUNNER_UNAVAILABLE: "RunnerUnavailable",
}


class Stop(enum.StrEnum):
    """Why the runner itself ended a child that had not finished."""

    WALL = "wall"
    CPU = "cpu"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the runner knows of a child's end, beside what passed over the bridge."""

    exit: Exit | None = None  # None: no child ran to an end
    stop: Stop | None = None
    stderr: bytes = b""  # its first bytes or its last
    trouble: str = ""  # why there was no child, fit for a stranger
    containment: Containment | None = None
    wall_seconds: float | None = None  # of the whole run, where the runner timed it
    notes: tuple[str, ...] = ()  # further limitations


def conclude(job: Job, account: Account, ending: Ending) -> JobResult:
    """The result of one run."""
    state, words = decide(job, account, ending)
    terminal = account.terminal
    usage = _usage(ending)
    return JobResult(
        state=state,
        ok=state is State.OK,
        value=terminal.value if isinstance(terminal, Finished) else None,
        error=_error(job, account, state, words),
        logs=tuple(LogLine(level=one.level, message=positions.logged(one.message, job.code)) for one in account.logs),
        calls=account.calls,
        usage=usage,
        containment=walls(ending.containment),
        limitations=(*_limitations(account, usage), *_polled(usage, ending.containment), *ending.notes),
    )


def decide(job: Job, account: Account, ending: Ending) -> tuple[State, str]:
    """The state of a run, and why in a sentence; no words for `ok` and for what the program threw."""
    match account.terminal:
        case Finished() as finished:
            return _finished(finished), ""
        case Violation(reason=reason):
            return State.PROTOCOL_VIOLATION, f"the child broke the protocol: {reason}"
        case OverLimit(state=state, reason=reason):
            return state, reason
        case Ended() | None:
            return _bounded(job, ending) or _stopped(job, ending) or _gone(job, account, ending)
        case _:
            assert_never(account.terminal)


def walls(containment: Containment | None) -> dict[str, str]:
    """Each wall and its state, with the reason of one that lacks."""
    if containment is None:
        return {}
    return {
        wall.name: f"{wall.state.value}: {wall.why}" if wall.state is WallState.UNAVAILABLE else wall.state.value
        for wall in containment.walls
    }


def _error(job: Job, account: Account, state: State, words: str) -> ProgramError | None:
    if not isinstance(account.terminal, Finished):
        return ProgramError(name=_NAMES[state], message=words)
    return positions.read(account.terminal.error, job.code) if account.terminal.error else None


def _finished(finished: Finished) -> State:
    error = finished.error
    if error is None:
        return State.OK
    if error.phase == "load":
        return State.SYNTAX_ERROR
    if error.name == "RangeError" and error.message == _NO_BUFFER:
        return State.OUT_OF_MEMORY
    return State.USER_ERROR


def _bounded(job: Job, ending: Ending) -> tuple[State, str] | None:
    """The state of a child that the sandbox ended at one of its bounds."""
    match ending.exit.end if ending.exit else None:
        case End.DEADLINE:
            return _wall(job)
        case End.MEMORY:
            return _memory(job)
        case End.LAYER:
            return State.OUTPUT_LIMIT, "the program wrote more to disk than it may"
        case End.OUTPUT:
            return State.OUTPUT_LIMIT, f"more than {limits.CODE_STDERR_BYTES} bytes on stderr"
        case End.CPU:
            return _cpu(job)
        case _:
            return None


def _stopped(job: Job, ending: Ending) -> tuple[State, str] | None:
    """The state of a child that its runner ended."""
    if ending.stop is Stop.CANCELLED or (ending.exit and ending.exit.end is End.CANCELLED):
        return State.CANCELLED, "the run was cancelled"
    if ending.stop is Stop.CPU:
        return _cpu(job)
    if ending.stop is Stop.WALL:
        return _wall(job)
    return None


def _gone(job: Job, account: Account, ending: Ending) -> tuple[State, str]:
    """The state of a child that went by itself."""
    left = ending.exit
    if left is None or left.end is End.STOPPED:
        return State.RUNNER_UNAVAILABLE, ending.trouble or "the child was ended before it could give a result"
    if _starved(job, ending, left):
        return _memory(job)
    if not account.ready:
        return State.RUNNER_UNAVAILABLE, f"the child ended before it was ready: {how(left)}"
    if left.signal in _CPU_SIGNALS and _used(left) >= job.limits.cpu_seconds:
        return _cpu(job)
    return State.CHILD_EXIT, f"the child ended without a result: {how(left)}"


def _starved(job: Job, ending: Ending, left: Exit) -> bool:
    """Whether a child went for want of memory: it says so, or, where no cgroup would tell, it had much of it."""
    aborted = left.signal in _ABORTS
    if aborted and any(words in ending.stderr for words in _LAST_WORDS):
        return True
    if ending.containment is None or _is_counted(ending.containment):
        return False
    had_much = (left.peak_memory_bytes or 0) >= _MUCH * job.limits.memory_bytes
    return had_much and (aborted or _NO_THREAD in ending.stderr)


def _used(left: Exit) -> float:
    """CPU seconds at most: where nothing measures them, one core's worth of the time that passed."""
    return left.wall_seconds if left.cpu_seconds is None else left.cpu_seconds


def how(left: Exit) -> str:
    """How a child went, in words."""
    if left.signal is None:
        return f"exit status {left.status}"
    known = {one.value: one.name for one in signal.Signals}
    return known.get(left.signal, f"signal {left.signal}")


def _wall(job: Job) -> tuple[State, str]:
    return State.TIMEOUT_WALL, f"the run took longer than {job.limits.wall_seconds:g} s"


def _cpu(job: Job) -> tuple[State, str]:
    return State.TIMEOUT_CPU, f"the program computed for longer than {job.limits.cpu_seconds:g} s"


def _memory(job: Job) -> tuple[State, str]:
    most = job.limits.memory_bytes // limits.MIB
    return State.OUT_OF_MEMORY, f"the program needed more memory than {most} MiB in all, or than V8's heap has of them"


def _usage(ending: Ending) -> Usage | None:
    left = ending.exit
    wall = ending.wall_seconds if ending.wall_seconds is not None else left.wall_seconds if left else None
    if wall is None:
        return None
    cpu = left.cpu_seconds if left else None
    return Usage(
        wall_milliseconds=max(0.0, wall * 1000),
        cpu_milliseconds=None if cpu is None else cpu * 1000,
        peak_memory_bytes=left.peak_memory_bytes if left else None,
    )


def _limitations(account: Account, usage: Usage | None) -> list[str]:
    found = [FIRST_LIMITATION]
    if usage is None or usage.cpu_milliseconds is None:
        found.append("CPU time: not measured")
    if usage is None or usage.peak_memory_bytes is None:
        found.append("peak memory: not measured")
    if account.logs_dropped:
        found.append(f"logs: {account.logs_dropped} lines after the first {limits.CODE_LOG_LINES} are not kept")
    if account.ignored_bytes:
        found.append(f"output: {account.ignored_bytes} bytes after the end are not read")
    return found


def _polled(usage: Usage | None, containment: Containment | None) -> list[str]:
    """What is only as true as it can be seen from time to time: where no cgroup counts, processes are looked at."""
    if usage is None or containment is None:
        return []
    seen = {"peak memory": usage.peak_memory_bytes, "CPU time": usage.cpu_milliseconds}
    names = [name for name, value in seen.items() if value is not None]
    if not names or _is_counted(containment):
        return []
    return [f"{' and '.join(names)}: as seen every {limits.WATCH_SECONDS * 1000:g} ms, where no cgroup counts them"]


def _is_counted(containment: Containment) -> bool:
    """Whether a cgroup counts the memory, and says when it ended a child."""
    return any(wall.name == "memory" and "cgroup v" in wall.how for wall in containment.walls)
