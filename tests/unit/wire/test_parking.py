"""What waits for its client to come back."""

import datetime as dt
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire.parking import Parking, Ticket, UnknownStateError, digest
from fumehood.wire.published import Caller

PRINCIPALS = ("ada", "bob")


class Clock:
    def __init__(self) -> None:
        self.moment = 0.0

    def monotonic(self) -> float:
        return self.moment

    def now(self) -> dt.datetime:
        raise NotImplementedError


def ticket(principal: str = "ada", *, connection: Any = "pipe", digest: str = "d", scopes: Any = None) -> Ticket:
    return Ticket(caller=Caller(principal=principal, scopes=scopes), connection=connection, digest=digest)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def parking(clock: Clock) -> Parking[str]:
    numbers = itertools.count()
    return Parking(lambda: f"state {next(numbers)}", clock)


@pytest.mark.threat("G16")
def test_a_state_fetches_its_work_once(parking: Parking[str]) -> None:
    state = parking.park(ticket(), "work")
    assert parking.look(state, ticket()) == "work"
    assert parking.take(state, ticket()) == "work"
    with pytest.raises(UnknownStateError):
        parking.take(state, ticket())
    assert len(parking) == 0


@pytest.mark.threat("G16")
@pytest.mark.parametrize(
    "other",
    [
        ticket("bob"),
        ticket(connection="another"),
        ticket(digest="another"),
        ticket(scopes=frozenset({"role:reader"})),
    ],
)
def test_whoever_else_comes_gets_nothing_and_changes_nothing(parking: Parking[str], other: Ticket) -> None:
    state = parking.park(ticket(), "work")
    for wrong in (state, "state 99", None, 7, ["x"]):
        with pytest.raises(UnknownStateError) as refused:
            parking.look(wrong, other)
        assert refused.value.number == -32602
        assert "work" not in str(refused.value)
    assert parking.take(state, ticket()) == "work"


@pytest.mark.threat("G15")
def test_a_deadline_ends_it(parking: Parking[str], clock: Clock) -> None:
    state = parking.park(ticket(), "work")
    clock.moment = limits.PARKED_SECONDS
    with pytest.raises(UnknownStateError):
        parking.take(state, ticket())
    assert parking.drop(state) == "work"
    assert parking.drop(state) is None


@pytest.mark.threat("G15")
def test_each_principal_has_its_own_bound_and_all_have_one(parking: Parking[str]) -> None:
    for _ in range(limits.PARKED_EACH):
        parking.park(ticket(), "work")
    for _ in range(10_000):
        with pytest.raises(BusyError):
            parking.park(ticket(), "more")
    assert parking.park(ticket("bob"), "work")
    for number in itertools.count():
        if len(parking) == limits.PARKED:
            break
        parking.park(ticket(f"somebody {number}"), "work")
    with pytest.raises(BusyError):
        parking.park(ticket("the last"), "work")


def test_a_connection_that_is_over_takes_its_own_with_it(parking: Parking[str]) -> None:
    parking.park(ticket(), "one")
    parking.park(ticket(), "two")
    kept = parking.park(ticket(connection="other"), "three")
    assert parking.leave("pipe") == ["one", "two"]
    assert parking.leave("pipe") == []
    assert parking.take(kept, ticket(connection="other")) == "three"


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.randoms())
def test_the_order_of_members_is_nothing(params: Any, random: Any) -> None:
    items = list(params.items())
    random.shuffle(items)
    assert digest("m", params) == digest("m", dict(items))
    assert digest("m", params) != digest("n", params)
    assert digest("m", params) != digest("m", {**params, "\udcff one more": 1})


class Machine(RuleBasedStateMachine):
    """Whatever is done in whatever order: only the right ticket fetches, once and in time, and the counts hold."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        numbers = itertools.count()
        self.parking: Parking[int] = Parking(lambda: f"{next(numbers)}", self.clock)
        self.known: dict[str, tuple[Ticket, int, float]] = {}
        self.works = itertools.count()

    tickets = st.builds(
        ticket, st.sampled_from(PRINCIPALS), connection=st.sampled_from("xy"), digest=st.sampled_from("de")
    )

    @rule(given=tickets)
    def park(self, given: Ticket) -> None:
        work = next(self.works)
        held = sum(one.caller == given.caller for one, _, _ in self.known.values())
        try:
            state = self.parking.park(given, work)
        except BusyError:
            assert held >= limits.PARKED_EACH
        else:
            assert held < limits.PARKED_EACH
            self.known[state] = (given, work, self.clock.moment + limits.PARKED_SECONDS)

    @rule(given=tickets, number=st.integers(0, 60))
    def take(self, given: Ticket, number: int) -> None:
        parked, work, until = self.known.get(f"{number}", (None, None, 0.0))
        try:
            found = self.parking.take(f"{number}", given)
        except UnknownStateError:
            assert parked != given or until <= self.clock.moment
        else:
            assert (found, parked) == (work, given)
            assert self.clock.moment < until
            del self.known[f"{number}"]

    @rule(number=st.integers(0, 60))
    def drop(self, number: int) -> None:
        found = self.known.pop(f"{number}", None)
        assert self.parking.drop(f"{number}") == (found[1] if found else None)

    @rule(connection=st.sampled_from("xy"))
    def leave(self, connection: str) -> None:
        mine = [state for state, (one, _, _) in self.known.items() if one.connection == connection]
        assert sorted(self.parking.leave(connection)) == sorted(self.known.pop(state)[1] for state in mine)

    @rule(seconds=st.floats(0, 200))
    def wait(self, seconds: float) -> None:
        self.clock.moment += seconds

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.parking) == len(self.known)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase
