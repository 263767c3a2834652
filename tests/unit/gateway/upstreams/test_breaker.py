"""Waits stay between floor and ceiling and end; of an open breaker one call at a time finds out."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fumehood.core import limits
from fumehood.gateway.upstreams.breaker import Admitted, Backoff, Breaker, Pace, Refusing

PACE = Pace(floor=0.5, ceiling=60.0, well=30.0)
CHANCE = st.floats(0, 1)
pytestmark = pytest.mark.threat("G8")


@given(st.lists(st.tuples(st.floats(0, 100), CHANCE), min_size=1, max_size=200))
def test_a_wait_is_never_below_the_floor_nor_above_the_ceiling(failures: list[tuple[float, float]]) -> None:
    backoff = Backoff(PACE)
    for well, chance in failures:
        assert PACE.floor <= backoff.failed(well, chance) <= PACE.ceiling


@given(st.integers(1, 300))
def test_it_doubles_to_the_ceiling_and_begins_again_after_a_time_of_being_well(failures: int) -> None:
    backoff = Backoff(PACE)
    waits = [backoff.failed(0.0, 0.0) for _ in range(failures)]
    assert waits == [min(60.0, 0.5 * 2.0**number) for number in range(failures)]
    assert backoff.failed(29.9, 0.0) >= waits[-1]
    assert backoff.failed(30.0, 0.0) == 0.5


@given(CHANCE)
def test_chance_takes_away_at_most_a_half(chance: float) -> None:
    backoff = Backoff(PACE)
    for whole in (0.5, 1.0, 2.0, 4.0):
        assert whole / 2 <= backoff.failed(0.0, chance) <= whole


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(PACE)
    for _ in range(limits.UPSTREAM_FAILURES):
        fail(breaker, now)
    return breaker


def admitted(breaker: Breaker, now: float) -> Admitted:
    call = breaker.admit(now)
    assert isinstance(call, Admitted)
    return call


def fail(breaker: Breaker, now: float) -> None:
    breaker.failed(admitted(breaker, now), "no answer", now, 0.0)


def test_calls_in_a_row_without_an_answer_open_it() -> None:
    breaker = opened()
    refused = breaker.admit(0.1)
    assert refused == Refusing(reason="its last calls had no answer: no answer", again_seconds=0.4)
    assert breaker.is_open


def test_one_answer_between_them_does_not() -> None:
    breaker = Breaker(PACE)
    for _ in range(3):
        for _ in range(limits.UPSTREAM_FAILURES - 1):
            fail(breaker, 0.0)
        breaker.answered(admitted(breaker, 0.0), 0.0)
    assert not breaker.is_open


def test_failures_of_long_ago_do_not_count() -> None:
    breaker = Breaker(PACE)
    for number in range(limits.UPSTREAM_FAILURES * 3):
        fail(breaker, number * limits.UPSTREAM_FAILURES_SECONDS)
    assert not breaker.is_open


def test_one_call_finds_out_and_an_answer_closes_it() -> None:
    breaker = opened()
    probe = admitted(breaker, 0.5)
    assert probe.probe
    assert isinstance(breaker.admit(0.5), Refusing)
    breaker.answered(probe, 0.6)
    assert not breaker.is_open
    assert breaker.admit(0.6) == Admitted()


def test_a_probe_without_an_answer_makes_the_wait_longer_and_one_that_left_says_nothing() -> None:
    breaker = opened()
    breaker.left(admitted(breaker, 0.5))
    fail(breaker, 0.5)
    assert breaker.admit(0.5) == Refusing(reason="its last calls had no answer: no answer", again_seconds=1.0)


def test_the_end_of_a_call_that_began_before_it_opened_changes_nothing() -> None:
    breaker = Breaker(PACE)
    early, late = admitted(breaker, 0.0), admitted(breaker, 0.0)
    for _ in range(limits.UPSTREAM_FAILURES):
        fail(breaker, 0.0)
    breaker.failed(early, "no answer", 0.2, 0.0)
    breaker.answered(late, 0.3)
    assert breaker.admit(0.25) == Refusing(reason="its last calls had no answer: no answer", again_seconds=0.25)


STEP = st.sampled_from(["admit", "answered", "failed", "left", "later"])


@given(st.lists(st.tuples(STEP, CHANCE, st.floats(0, 40)), max_size=200))
def test_whatever_happens_one_call_probes_at_a_time_and_it_recovers(steps: list[tuple[str, float, float]]) -> None:
    breaker, now, calls = Breaker(PACE), 0.0, list[Admitted]()
    for step, chance, seconds in steps:
        if step == "later":
            now += seconds
        elif step == "admit":
            call = breaker.admit(now)
            if isinstance(call, Admitted):
                calls.append(call)
            else:
                assert 0 <= call.again_seconds <= PACE.ceiling
        elif calls:
            call = calls.pop(int(chance * (len(calls) - 1)))
            match step:
                case "answered":
                    breaker.answered(call, now)
                case "failed":
                    breaker.failed(call, "no answer", now, chance)
                case _:
                    breaker.left(call)
        assert sum(call.probe for call in calls) <= 1
    for call in calls:
        breaker.left(call)
    breaker.answered(admitted(breaker, now + PACE.ceiling), now)
    assert not breaker.is_open
