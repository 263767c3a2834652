import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire.admission import Admission, Bounds


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> dt.datetime:
        raise NotImplementedError


def admission(clock: HandClock | None = None, **bounds: int) -> Admission:
    return Admission(Bounds(**bounds), clock or HandClock())


@pytest.mark.threat("T8")
def test_beyond_what_runs_and_waits_a_caller_is_told_busy_until_one_leaves() -> None:
    gate = admission(running=2, queued=1)
    for _ in range(3):
        gate.enter("a")
    with pytest.raises(BusyError, match="2 calls run and 1 wait"):
        gate.enter("a")
    gate.enter("b")  # another caller has its own
    gate.leave("a")
    gate.enter("a")


@pytest.mark.threat("T8")
def test_the_rate_fills_up_again_with_time() -> None:
    clock = HandClock()
    gate = admission(clock, calls_a_minute=60)
    for _ in range(60):
        with gate.admitted("a"):
            pass
    with pytest.raises(BusyError, match="60 calls in a minute"):
        gate.enter("a")
    clock.seconds += 1
    gate.enter("a")
    with pytest.raises(BusyError):
        gate.enter("a")


def test_a_call_that_fails_leaves_too() -> None:
    gate = admission(running=1, queued=0)
    with pytest.raises(ValueError, match="x"), gate.admitted("a"):
        raise ValueError("x")
    gate.enter("a")


@pytest.mark.threat("T8")
def test_the_table_of_callers_is_bounded_and_forgets_only_who_is_idle() -> None:
    clock = HandClock()
    gate = admission(clock)
    for number in range(limits.PRINCIPALS):
        with gate.admitted(str(number)):
            pass
    with pytest.raises(BusyError, match="too many callers"):
        gate.enter("one more")
    clock.seconds += 61
    gate.enter("one more")


def test_a_caller_that_was_refused_for_lack_of_room_takes_none() -> None:
    clock = HandClock()
    gate = admission(clock)
    for number in range(limits.PRINCIPALS):
        gate.enter(str(number))
    for _ in range(3):
        with pytest.raises(BusyError):
            gate.enter("one more")
    gate.leave("0")
    gate.enter("0")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=80), st.integers(1, 5))
def test_no_minute_sees_more_than_a_burst_and_what_filled_up(steps: list[tuple[str, float]], most: int) -> None:
    clock = HandClock()
    gate = admission(clock, calls_a_minute=most)
    entered: dict[str, list[float]] = {"a": [], "b": []}
    for principal, wait in steps:
        clock.seconds += wait
        try:
            with gate.admitted(principal):
                entered[principal].append(clock.seconds)
        except BusyError:
            assert entered[principal]
    for times in entered.values():
        for start in times:
            assert len([one for one in times if start <= one < start + 60]) <= 2 * most
