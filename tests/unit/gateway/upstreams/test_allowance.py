"""What a server may say unasked: a burst, and a rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.upstreams.allowance import Allowance

pytestmark = pytest.mark.threat("G6")


def test_a_burst_is_allowed_and_one_line_more_is_not() -> None:
    made = Allowance(0.0)
    assert made.spend(lines=limits.UPSTREAM_UNASKED_LINES, size=0, at=0.0)
    assert not made.spend(lines=1, size=0, at=0.0)


def test_what_was_spent_comes_back_with_time_and_never_above_the_burst() -> None:
    made = Allowance(0.0)
    made.spend(lines=limits.UPSTREAM_UNASKED_LINES, size=limits.UPSTREAM_UNASKED_BYTES, at=0.0)
    assert made.spend(lines=limits.UPSTREAM_UNASKED_LINES_A_SECOND, size=limits.UPSTREAM_UNASKED_BYTES_A_SECOND, at=1.0)
    assert not made.spend(lines=0, size=1, at=1.0)
    assert not made.spend(lines=limits.UPSTREAM_UNASKED_LINES + 1, size=0, at=1e9)


@given(st.lists(st.integers(1, 2**22), max_size=50))
def test_answers_cost_nothing(sizes: list[int]) -> None:
    made = Allowance(0.0)
    for size in sizes:
        assert made.spend(lines=0, size=size, at=0.0)
        assert made.spend(lines=0, size=-size, at=0.0)


@given(st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**9), st.floats(0, 10)), max_size=50))
def test_no_more_is_ever_said_than_the_burst_and_the_rate(acts: list[tuple[int, int, float]]) -> None:
    made, at, lines, size = Allowance(0.0), 0.0, 0, 0
    for some, more, passed in acts:
        at += passed
        if not made.spend(lines=some, size=more, at=at):
            break
        lines, size = lines + some, size + more
    assert lines <= limits.UPSTREAM_UNASKED_LINES + at * limits.UPSTREAM_UNASKED_LINES_A_SECOND + 1
    assert size <= limits.UPSTREAM_UNASKED_BYTES + at * limits.UPSTREAM_UNASKED_BYTES_A_SECOND + 1
