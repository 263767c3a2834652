"""Coverage-guided fuzzing of the code runner's bridge and of what reads what a program threw.

    pip install atheris==3.0.0
    python tests/fuzz/bridge.py -max_total_time=600 -max_len=4096 CORPUS

Any error but one of fumehood's own, and any broken invariant, ends it with the input. The same checks run in the unit
tests, over inputs of hypothesis. Not covered: time; libFuzzer's own bound (`-timeout`) is what would show it.
"""

import importlib
import sys
from itertools import pairwise

from fumehood.code import messages, positions
from fumehood.code.bridge import Bridge
from fumehood.code.events import Account, Call, Event, Finished, Log, Ready, Send
from fumehood.code.job import Job, JobLimits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FailedError, FumehoodError

JOB = Job(code="const a = 1;\nreturn a", limits=JobLimits(output_bytes=2048, calls=6, calls_in_flight=2))
READY = b'{"type":"ready"}\n'


class Still(SystemClock):
    """A clock that stands, so that two runs can be compared."""

    def monotonic(self) -> float:
        """Always the same moment."""
        return 0.0


def check(data: bytes) -> None:
    """Feed one input whole, in parts and byte by byte: the same must come of it, within every bound.

    Its first byte says how to begin and how to answer, its second one how large the parts are. When calls are answered,
    the parts decide how many wait at a time: then only the end must be the same.
    """
    if len(data) < 2:
        return
    same(data)
    how, size, words = data[0], data[1] % 64 + 1, data[2:]
    if how & 1:
        words = READY + words
    seen = [run(words, len(words) or 1, how), run(words, size, how), run(words, 1, how)]
    for one, other in pairwise(seen):
        assert one == other or how & 4, "chunks make a difference"
        assert one[1].terminal == other[1].terminal, "chunks make a different end"
    for events, account in seen:
        within(events, account, len(words))
    for event in seen[0][0]:
        if isinstance(event, Finished) and event.error is not None:
            error = positions.read(event.error, JOB.code)
            assert error.line is None or 1 <= error.line <= 2, "a place outside the program"


def same(data: bytes) -> None:
    """Check that the quicker reader of messages takes no line that the strict one refuses, or reads otherwise."""
    for line in data[2:].split(b"\n"):
        quick = messages.canonical(line)
        assert quick is None or repr(quick) == repr(messages.strict(line)), "the quicker reader reads something else"


def run(words: bytes, size: int, how: int) -> tuple[list[Event], Account]:
    """Every event of one run, with calls answered at once when `how` says so."""
    bridge = Bridge(JOB, Still())
    if how & 2:
        bridge.opening()
    events: list[Event] = []
    for at in range(0, len(words), size):
        line = words[at : at + size]
        for event in bridge.feed(line):
            events.append(event)
            if isinstance(event, Call) and how & 4 and bridge.terminal is None:
                events += answer(bridge, event, how)
    events += bridge.closed()
    return events, bridge.account()


def answer(bridge: Bridge, call: Call, how: int) -> list[Event]:
    """What comes of the answer to a call."""
    return bridge.refuse(call.id, FailedError("no")) if how & 8 else bridge.answer(call.id, {"id": call.id})


def within(events: list[Event], account: Account, size: int) -> None:
    """Check what holds for every run."""
    terminal = [event for event in events if not isinstance(event, Ready | Call | Log | Send)]
    assert terminal == [account.terminal], "not exactly one end"
    assert account.received_bytes == size, "bytes are not counted"
    assert size - account.ignored_bytes <= JOB.limits.output_bytes, "more was read than may be"
    assert len(account.calls) <= JOB.limits.calls, "too many calls"
    ids = [event.id for event in events if isinstance(event, Call)]
    assert ids == sorted(set(ids)), "an id was used twice"


def main() -> None:
    """Fuzz until it is ended."""
    atheris = importlib.import_module("atheris")  # no dependency of ours: only who fuzzes has it

    def one(data: bytes) -> None:
        try:
            check(data)
        except FumehoodError as error:
            raise AssertionError("a child's words raised an error") from error

    atheris.instrument_all()
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
