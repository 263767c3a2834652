"""code.outcome: one state for every way in which a run can end."""

import dataclasses
import itertools
import signal
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code import job as jobs
from fumehood.code import outcome
from fumehood.code.events import Account, Ended, Finished, OverLimit, Terminal, Violation
from fumehood.code.job import CallRecord, Job, JobLimits, LogLine, State
from fumehood.code.messages import Thrown
from fumehood.code.outcome import Ending, Stop
from fumehood.core import jsonio, limits
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import End, Exit

JOB = Job(code="return 1", limits=JobLimits(cpu_seconds=2, wall_seconds=9))
VALIDATOR = jsonschema_rs.Draft202012Validator(jobs.result_schema())
HEAP = b"\n# Fatal JavaScript out of memory: Reached heap limit\n#\n"
RUST = b"memory allocation of 50000000 bytes failed\n"


def account(terminal: Terminal | None = None, *, ready: bool = True, **more: Any) -> Account:
    base = Account(
        ready=ready, terminal=terminal, logs=(), logs_dropped=0, calls=(), received_bytes=17, ignored_bytes=0
    )
    return dataclasses.replace(base, **more)


def left(
    end: End = End.EXITED, *, status: int | None = None, number: int | None = None, cpu: float | None = 0.5
) -> Exit:
    return Exit(
        end=end,
        status=status,
        signal=number,
        wall_seconds=1.5,
        cpu_seconds=cpu,
        peak_memory_bytes=40 * limits.MIB,
        stop_seconds=0.01,
    )


def memory(how: str) -> Containment:
    return Containment(route="user", walls=(Wall(name="memory", state=WallState.ENFORCED, how=how),))


def thrown(name: str = "Error", message: str = "x", phase: Any = "run") -> Finished:
    return Finished(error=Thrown(name=name, message=message, phase=phase))


TRAP, ABORT, KILL, XCPU, SYS = signal.SIGTRAP, signal.SIGABRT, signal.SIGKILL, signal.SIGXCPU, signal.SIGSYS
OK, OVER = Finished(value=1), OverLimit(state=State.OUTPUT_LIMIT, reason="too much")
STOPPED, EXITED = left(End.STOPPED), left(status=0)
TABLE: dict[str, tuple[Account, Ending, State]] = {
    "a value": (account(OK), Ending(exit=STOPPED), State.OK),
    "a value, and then an exit": (account(OK), Ending(exit=left(status=1)), State.OK),
    "a value, and then a crash": (account(OK), Ending(exit=left(End.SIGNALLED, number=ABORT), stderr=RUST), State.OK),
    "a value, and then the deadline": (account(OK), Ending(exit=left(End.DEADLINE)), State.OK),
    "a value, and then out of memory": (account(OK), Ending(exit=left(End.MEMORY)), State.OK),
    "a value, and then a cancel": (account(OK), Ending(exit=STOPPED, stop=Stop.CANCELLED), State.OK),
    "thrown": (account(thrown()), Ending(exit=STOPPED), State.USER_ERROR),
    "a SyntaxError that was thrown": (account(thrown("SyntaxError")), Ending(exit=STOPPED), State.USER_ERROR),
    "not read": (account(thrown("SyntaxError", phase="load")), Ending(exit=STOPPED), State.SYNTAX_ERROR),
    "no buffer": (
        account(thrown("RangeError", "Array buffer allocation failed")),
        Ending(exit=STOPPED),
        State.OUT_OF_MEMORY,
    ),
    "another RangeError": (account(thrown("RangeError", "out of range")), Ending(exit=STOPPED), State.USER_ERROR),
    "a violation": (account(Violation(reason="r")), Ending(exit=STOPPED), State.PROTOCOL_VIOLATION),
    "a violation, then the deadline": (
        account(Violation(reason="r")),
        Ending(exit=left(End.DEADLINE)),
        State.PROTOCOL_VIOLATION,
    ),
    "too much output": (account(OVER), Ending(exit=STOPPED), State.OUTPUT_LIMIT),
    "too much output and memory": (account(OVER), Ending(exit=left(End.MEMORY)), State.OUTPUT_LIMIT),
    "too many calls": (
        account(OverLimit(state=State.CALL_LIMIT, reason="r")),
        Ending(exit=STOPPED),
        State.CALL_LIMIT,
    ),
    "the deadline": (account(Ended()), Ending(exit=left(End.DEADLINE)), State.TIMEOUT_WALL),
    "the deadline, before the end was seen": (account(), Ending(exit=left(End.DEADLINE)), State.TIMEOUT_WALL),
    "the deadline of the runner": (account(Ended()), Ending(exit=STOPPED, stop=Stop.WALL), State.TIMEOUT_WALL),
    "the deadline before ready": (account(ready=False), Ending(exit=left(End.DEADLINE)), State.TIMEOUT_WALL),
    "memory by its cgroup": (account(Ended()), Ending(exit=left(End.MEMORY)), State.OUT_OF_MEMORY),
    "memory, while it was cancelled": (
        account(Ended()),
        Ending(exit=left(End.MEMORY), stop=Stop.CANCELLED),
        State.OUT_OF_MEMORY,
    ),
    "V8's heap": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=TRAP), stderr=HEAP),
        State.OUT_OF_MEMORY,
    ),
    "Rust's allocator": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=ABORT), stderr=RUST),
        State.OUT_OF_MEMORY,
    ),
    "V8's heap before ready": (
        account(Ended(), ready=False),
        Ending(exit=left(End.SIGNALLED, number=TRAP), stderr=HEAP),
        State.OUT_OF_MEMORY,
    ),
    "an abort that says nothing": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=ABORT)),
        State.CHILD_EXIT,
    ),
    "the words without the abort": (account(Ended()), Ending(exit=left(status=1), stderr=HEAP), State.CHILD_EXIT),
    "CPU by the runner": (account(Ended()), Ending(exit=STOPPED, stop=Stop.CPU), State.TIMEOUT_CPU),
    "CPU by its soft limit": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=XCPU, cpu=2.0)),
        State.TIMEOUT_CPU,
    ),
    "CPU by its hard limit": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=KILL, cpu=2.1)),
        State.TIMEOUT_CPU,
    ),
    "killed long before": (account(Ended()), Ending(exit=left(End.SIGNALLED, number=KILL)), State.CHILD_EXIT),
    "killed by its filter": (
        account(Ended()),
        Ending(exit=left(End.SIGNALLED, number=SYS, cpu=9.0)),
        State.CHILD_EXIT,
    ),
    "an exit": (account(Ended()), Ending(exit=EXITED), State.CHILD_EXIT),
    "an exit before ready": (account(Ended(), ready=False), Ending(exit=left(status=1)), State.RUNNER_UNAVAILABLE),
    "a signal before ready": (
        account(Ended(), ready=False),
        Ending(exit=left(End.SIGNALLED, number=SYS)),
        State.RUNNER_UNAVAILABLE,
    ),
    "too much on disk": (account(Ended()), Ending(exit=left(End.LAYER)), State.OUTPUT_LIMIT),
    "cancelled": (account(Ended()), Ending(exit=STOPPED, stop=Stop.CANCELLED), State.CANCELLED),
    "a task that was cancelled": (account(Ended()), Ending(exit=left(End.CANCELLED)), State.CANCELLED),
    "cancelled before there was a child": (account(ready=False), Ending(stop=Stop.CANCELLED), State.CANCELLED),
    "cancelled as it went": (account(Ended()), Ending(exit=EXITED, stop=Stop.CANCELLED), State.CANCELLED),
    "no child": (account(ready=False), Ending(trouble="Deno is missing"), State.RUNNER_UNAVAILABLE),
    "ended for no reason": (account(), Ending(exit=STOPPED), State.RUNNER_UNAVAILABLE),
}


@pytest.mark.parametrize(("passed", "ending", "state"), TABLE.values(), ids=TABLE)
def test_a_run_ends_in_the_state_that_its_end_says(passed: Account, ending: Ending, state: State) -> None:
    result = outcome.conclude(JOB, passed, ending)
    assert result.state is state
    VALIDATOR.validate(jsonio.parse(msgspec.json.encode(result)))


def test_each_state_stands_in_the_table() -> None:
    assert {state for _, _, state in TABLE.values()} == set(State)


def _terminals() -> Iterator[Terminal | None]:
    yield from (None, Ended(), OK, thrown(), thrown(phase="load"), Violation(reason="r"), OVER)


@pytest.mark.parametrize("end", [*End, None])
def test_each_combination_has_a_value_or_an_error_and_fits_the_published_schema(end: End | None) -> None:
    numbers: list[int | None] = [None, TRAP, KILL, XCPU, SYS, 63]
    for terminal, stop, number, ready in itertools.product(_terminals(), [None, *Stop], numbers, [False, True]):
        ending = Ending(exit=None if end is None else left(end, number=number, cpu=3), stop=stop, stderr=HEAP)
        result = outcome.conclude(JOB, account(terminal, ready=ready), ending)
        assert result.ok == (result.state is State.OK) == (result.error is None)
        assert result.ok or result.value is None
        assert result.error is None or result.error.name
        VALIDATOR.validate(jsonio.parse(msgspec.json.encode(result)))


def test_the_published_schema_tells_a_value_from_an_error() -> None:
    right = {"state": "ok", "ok": True, "value": 1}
    wrong = {"state": "user_error", "ok": False, "error": {"name": "E", "message": "m"}}
    assert VALIDATOR.is_valid(right)
    assert VALIDATOR.is_valid(wrong)
    for bad in (
        right | {"ok": False},
        right | {"error": wrong["error"]},
        wrong | {"value": 1},
        wrong | {"error": None},
    ):
        assert not VALIDATOR.is_valid(bad)
    assert not VALIDATOR.is_valid({"state": "user_error", "ok": False})


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending(exit=left(End.DEADLINE)), "the run took longer than 9 s"),
        (Ending(exit=STOPPED, stop=Stop.CPU), "the program computed for longer than 2 s"),
        (
            Ending(exit=left(End.MEMORY)),
            "the program needed more memory than 256 MiB in all, or than V8's heap has of them",
        ),
        (Ending(exit=left(status=3)), "the child ended without a result: exit status 3"),
        (Ending(exit=left(End.SIGNALLED, number=SYS)), "the child ended without a result: SIGSYS"),
        (Ending(exit=left(End.SIGNALLED, number=40)), "the child ended without a result: signal 40"),
        (Ending(trouble="Deno is missing"), "Deno is missing"),
    ],
)
def test_an_error_says_what_happened(ending: Ending, words: str) -> None:
    error = outcome.conclude(JOB, account(Ended()), ending).error
    assert error is not None
    assert error.message == words


def test_what_was_thrown_stands_at_its_place_in_the_program() -> None:
    stack = "E: x\n    at Module.default (data:application/typescript;base64,AAAA:2:8)"
    finished = Finished(error=Thrown(name="E", message="x", stack=stack))
    error = outcome.conclude(JOB, account(finished), Ending(exit=STOPPED)).error
    assert error is not None
    assert (error.line, error.column) == (1, 8)


def test_no_cpu_time_is_measured_as_at_most_the_time_that_passed() -> None:
    long = dataclasses.replace(left(End.SIGNALLED, number=KILL, cpu=None), wall_seconds=2.5)
    short = dataclasses.replace(long, wall_seconds=1.0)
    states = [outcome.decide(JOB, account(Ended()), Ending(exit=one))[0] for one in (long, short)]
    assert states == [State.TIMEOUT_CPU, State.CHILD_EXIT]


def test_a_result_carries_logs_calls_usage_and_walls() -> None:
    log = LogLine(level="log", message="x")
    record = CallRecord(name="a", milliseconds=1, outcome="ok", sent_bytes=1, received_bytes=2)
    stood = Containment(
        route="user",
        walls=(
            Wall(name="seccomp", state=WallState.ENFORCED, how="filter"),
            Wall(name="memory", state=WallState.UNAVAILABLE, why="no cgroup"),
            Wall(name="layer_size", state=WallState.NOT_REQUESTED),
        ),
    )
    result = outcome.conclude(
        JOB, account(OK, logs=(log,), calls=(record,)), Ending(exit=STOPPED, containment=stood, notes=("a note",))
    )
    assert (result.value, result.logs, result.calls) == (1, (log,), (record,))
    assert result.usage is not None
    assert result.usage.wall_milliseconds == 1500
    assert result.usage.cpu_milliseconds == 500
    assert result.usage.peak_memory_bytes == 40 * limits.MIB
    assert result.containment == {
        "seccomp": "enforced",
        "memory": "unavailable: no cgroup",
        "layer_size": "not_requested",
    }
    polled = "peak memory and CPU time: as seen every 50 ms, where no cgroup counts them"
    assert result.limitations == (outcome.FIRST_LIMITATION, polled, "a note")


def test_what_was_not_measured_or_kept_is_said() -> None:
    blind = dataclasses.replace(left(End.STOPPED, cpu=None), peak_memory_bytes=None)
    result = outcome.conclude(JOB, account(OK, logs_dropped=3, ignored_bytes=9), Ending(exit=blind, wall_seconds=4))
    assert result.usage is not None
    assert result.usage.wall_milliseconds == 4000
    assert result.limitations == (
        outcome.FIRST_LIMITATION,
        "CPU time: not measured",
        "peak memory: not measured",
        "logs: 3 lines after the first 1000 are not kept",
        "output: 9 bytes after the end are not read",
    )


NO_THREAD = b"Deno could not start: unable to create worker threads.\n"
POLLED = "RLIMIT_DATA for each process, and a poll of resident memory for the tree"


@pytest.mark.parametrize("part", [0.4, 0.7, None])
@pytest.mark.parametrize("how", ["cgroup v1", POLLED])
@pytest.mark.parametrize(
    ("gone", "stderr", "may_be"),
    [
        (left(End.SIGNALLED, number=ABORT), b"", True),
        (left(status=1), NO_THREAD, True),
        (left(status=1), b"", False),
        (left(End.SIGNALLED, number=KILL), NO_THREAD[:20], False),
    ],
    ids=["abort", "no thread", "exit", "kill"],
)
def test_where_no_cgroup_tells_an_abort_with_much_memory_is_for_want_of_it(
    gone: Exit, stderr: bytes, may_be: bool, how: str, part: float | None
) -> None:
    peak = None if part is None else int(part * JOB.limits.memory_bytes)
    ending = Ending(exit=dataclasses.replace(gone, peak_memory_bytes=peak), stderr=stderr, containment=memory(how))
    starved = may_be and how == POLLED and part == 0.7
    assert outcome.decide(JOB, account(Ended()), ending)[0] is (State.OUT_OF_MEMORY if starved else State.CHILD_EXIT)


def test_an_error_in_a_log_has_the_places_of_the_program_and_no_frame_of_ours() -> None:
    message = (
        "failed Error: x\n    at Module.default (data:application/typescript;base64,AAAA:2:8)\n"
        "    at run (file:///harness.js:343:76) {\n  [cause]: 1\n}"
    )
    lines = (LogLine(level="error", message=message), LogLine(level="log", message="  at run (file:///x.js:1:2)"))
    logs = outcome.conclude(JOB, account(OK, logs=lines), Ending(exit=STOPPED)).logs
    assert logs[0].message == "failed Error: x\n    at Module.default (program.ts:1:8) {\n  [cause]: 1\n}"
    assert logs[1] == lines[1]


@pytest.mark.parametrize(
    ("how", "peak", "said"),
    [
        ("cgroup v2", 5, False),
        (POLLED, 5, True),
        (POLLED, None, False),
    ],
)
def test_what_is_only_looked_at_from_time_to_time_is_said(how: str, peak: int | None, said: bool) -> None:
    stood = memory(how)
    gone = dataclasses.replace(left(End.STOPPED, cpu=None), peak_memory_bytes=peak)
    limitations = outcome.conclude(JOB, account(OK), Ending(exit=gone, containment=stood)).limitations
    assert ("peak memory: as seen every 50 ms, where no cgroup counts them" in limitations) is said


def test_without_a_child_there_is_no_usage_and_no_wall() -> None:
    result = outcome.conclude(JOB, account(), Ending(trouble="x"))
    assert result.usage is None
    assert result.containment == {}


@given(st.binary(max_size=100), st.sampled_from([*End]), st.integers(-5, 300), st.none() | st.integers(-5, 300))
def test_no_end_of_a_child_raises_anything(stderr: bytes, end: End, status: int, number: int | None) -> None:
    result = outcome.conclude(
        JOB, account(Ended()), Ending(exit=left(end, status=status, number=number), stderr=stderr)
    )
    assert result.error is not None
