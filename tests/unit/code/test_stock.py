"""code.stock: never more than may, something for everybody who waits, and patience where starts fail."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fumehood.code.stock import Fate, Stock
from fumehood.core import limits
from fumehood.core.errors import BusyError


def started(stock: Stock, now: float = 0.0) -> int:
    """Begin what is due."""
    due = stock.due(now)
    for _ in range(due):
        stock.begin()
    return due


def full(warm: int) -> Stock:
    """A stock whose children are all ready."""
    stock = Stock(4, warm)
    while started(stock):
        while stock.starting:
            assert stock.ready() is Fate.KEPT
    assert stock.idle == warm
    return stock


def test_one_run_more_than_may_is_busy_until_one_has_left() -> None:
    stock = Stock(2, 0)
    stock.admit()
    stock.admit()
    with pytest.raises(BusyError, match="2 programs run, as many as may") as busy:
        stock.admit()
    assert "try again" in busy.value.remedy
    stock.leave()
    stock.admit()


def test_children_are_started_in_advance_but_not_all_at_once() -> None:
    stock = Stock(1, 10)
    assert started(stock) == limits.CODE_STARTS
    assert started(stock) == 0
    stock.ready()
    assert started(stock) == 1


def test_beside_a_run_one_is_started_at_a_time() -> None:
    stock = Stock(1, 10)
    stock.admit()
    assert started(stock) == 1
    assert started(stock) == 0
    stock.leave()
    assert started(stock) == limits.CODE_STARTS - 1


def test_a_run_takes_a_child_that_waits_and_another_is_started() -> None:
    stock = full(2)
    stock.admit()
    assert stock.want()
    assert (stock.idle, stock.waiting) == (1, 0)
    assert started(stock) == 1


def test_a_run_without_a_child_gets_the_next_that_is_ready() -> None:
    stock = Stock(2, 1)
    stock.admit()
    assert started(stock) == 1  # in advance
    assert not stock.want()
    assert started(stock) == 0  # the one that starts already is for it
    assert stock.ready() is Fate.HANDED
    assert (stock.waiting, stock.idle) == (0, 0)


def test_a_child_for_a_run_that_was_given_up_is_kept_or_surplus() -> None:
    stock = Stock(2, 1)
    for _ in range(2):
        stock.admit()
        assert not stock.want()
    assert started(stock) == 2
    for _ in range(2):
        stock.give_up()
    assert [stock.ready(), stock.ready()] == [Fate.KEPT, Fate.SURPLUS]


def test_nothing_is_started_in_advance_while_starts_fail_and_the_pause_grows_to_a_bound() -> None:
    stock, now, pauses = Stock(1, 1), 0.0, []
    for _ in range(40):
        assert started(stock, now) == 1
        assert not stock.fail(now)
        assert started(stock, now) == 0
        pause = stock.pause(now)
        assert pause is not None
        pauses.append(pause)
        now += pause
    assert pauses[:3] == [limits.CODE_REFILL_SECONDS * factor for factor in (1, 2, 4)]
    assert pauses[-1] == limits.CODE_REFILL_SECONDS_MAX


def test_who_waits_is_tried_for_also_while_starts_fail_and_told() -> None:
    stock = Stock(1, 1)
    started(stock)
    stock.fail(0.0)
    stock.admit()
    assert not stock.want()
    assert started(stock) == 1
    assert stock.fail(0.0)
    assert stock.waiting == 0


def test_a_child_that_serves_ends_the_patience() -> None:
    stock = Stock(1, 1)
    started(stock)
    stock.fail(0.0)
    stock.served()
    assert stock.pause(0.0) is None
    assert started(stock) == 1


def test_children_that_are_lost_as_soon_as_they_are_ready_are_not_replaced_at_once() -> None:
    stock = full(1)
    stock.lose(0.0)
    assert started(stock) == 0
    assert started(stock, limits.CODE_REFILL_SECONDS) == 1
    assert stock.ready() is Fate.KEPT
    stock.lose(1.0)
    assert stock.pause(1.0) == 2 * limits.CODE_REFILL_SECONDS


def test_old_ones_are_replaced_one_after_the_other_and_never_by_nothing() -> None:
    stock = full(2)
    assert stock.may_retire()
    stock.retire()
    assert not stock.may_retire()
    assert started(stock) == 1
    assert not stock.may_retire()
    stock.ready()
    assert stock.may_retire()


def test_a_start_that_we_ended_is_no_failure() -> None:
    stock = Stock(1, 1)
    started(stock)
    stock.abort()
    assert started(stock) == 1


class StockMachine(RuleBasedStateMachine):
    """Runs come and go, children start, fail and are lost, in any order."""

    @initialize(runs=st.integers(1, 6), warm=st.integers(0, 6))
    def begin(self, runs: int, warm: int) -> None:
        self.runs, self.warm = runs, warm
        self.stock = Stock(runs, warm)
        self.now = 0.0
        self.served = 0  # runs with a child
        self.given_up = 0  # runs that left while a child started for them

    @rule(seconds=st.floats(0, 40))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def come(self) -> None:
        if self.stock.running == self.runs:
            with pytest.raises(BusyError):
                self.stock.admit()
            return
        self.stock.admit()
        before = self.stock.idle
        if self.stock.want():
            assert before
            self.served += 1
        else:
            assert not before
        self.fill()

    @precondition(lambda self: self.served)
    @rule()
    def go(self) -> None:
        self.served -= 1
        self.stock.leave()
        self.fill()

    @precondition(lambda self: self.stock.waiting)
    @rule()
    def give_up(self) -> None:
        self.stock.give_up()
        self.stock.leave()
        self.given_up += 1

    @precondition(lambda self: self.stock.starting)
    @rule()
    def ready(self) -> None:
        waited, idle = self.stock.waiting, self.stock.idle
        match self.stock.ready():
            case Fate.HANDED:
                assert waited
                self.served += 1
            case Fate.KEPT:
                assert not waited
                assert idle < self.warm
            case Fate.SURPLUS:
                assert not waited
                assert idle == self.warm
                assert self.given_up
        self.fill()

    @precondition(lambda self: self.stock.starting)
    @rule()
    def fail(self) -> None:
        waited = self.stock.waiting
        if self.stock.fail(self.now):
            assert waited
            self.stock.leave()
        else:
            assert not waited
        self.fill()

    @precondition(lambda self: self.stock.idle)
    @rule()
    def lose(self) -> None:
        self.stock.lose(self.now)
        assert self.stock.waiting or not self.stock.due(self.now)
        self.fill()

    @precondition(lambda self: self.stock.may_retire() and self.stock.idle)
    @rule()
    def retire(self) -> None:
        self.stock.retire()
        self.fill()

    def fill(self) -> None:
        started(self.stock, self.now)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "stock"):
            return
        stock = self.stock
        assert stock.running == self.served + stock.waiting <= self.runs
        assert 0 <= stock.idle <= self.warm
        assert 0 <= stock.starting <= limits.CODE_STARTS
        assert not (stock.idle and stock.waiting)
        assert self.served + stock.idle + stock.starting <= self.runs + self.warm
        if stock.waiting:
            assert stock.starting >= min(stock.waiting, limits.CODE_STARTS)  # somebody works for who waits
        pause = stock.pause(self.now)
        assert pause is None or 0 < pause <= limits.CODE_REFILL_SECONDS_MAX


StockMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestStock = StockMachine.TestCase
