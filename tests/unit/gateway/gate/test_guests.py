"""Guests keep their taint and nobody else's."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.gateway.gate import guests
from fumehood.gateway.gate.guests import Guests
from fumehood.gateway.gate.model import EVERYTHING, Guest, Rights
from fumehood.wire.published import Caller

A, B = Caller(principal="token a"), Caller(principal="token b")


def fresh() -> Iterator[str]:
    return (f"{number:016x}" for number in itertools.count(1))


def table(most: int = 8) -> Guests:
    return Guests(1000, fresh().__next__, most=most)


def taint(found: Guests, connection: str, caller: Caller, server: str) -> None:
    with found.asking(connection, caller, EVERYTHING) as guest:
        guest.tainted_by.add(server)


def tainted(found: Guests, connection: str, caller: Caller) -> set[str]:
    with found.asking(connection, caller, EVERYTHING) as guest:
        return set(guest.tainted_by)


def test_a_guest_is_the_same_for_as_long_as_its_connection_lasts() -> None:
    found = table()
    with found.asking("one", A, EVERYTHING) as first, found.asking("one", A, EVERYTHING) as second:
        assert first is second
    found.left("one")
    with found.asking("one", A, EVERYTHING) as third:
        assert third is not first
        assert third.run != first.run


@pytest.mark.threat("G12")
def test_neither_another_connection_nor_another_principal_shares_a_taint() -> None:
    found = table()
    taint(found, "one", A, "web")
    assert tainted(found, "one", A) == {"web"}
    assert tainted(found, "two", A) == set()
    assert tainted(found, "one", B) == set()


def test_other_scopes_of_one_principal_have_its_taint_and_rights_of_their_own() -> None:
    found = table()
    wide, narrow = Caller(principal="token a"), Caller(principal="token a", scopes=frozenset({"tool:x"}))
    with (
        found.asking("one", wide, EVERYTHING) as first,
        found.asking("one", narrow, Rights(only=frozenset({"x"}))) as second,
    ):
        first.tainted_by.add("web")
        assert second.tainted_by == {"web"}
        assert (first.rights.only, second.rights.only) == (None, frozenset({"x"}))
        assert first.run != second.run


def test_sets_of_scopes_on_one_connection_are_bounded() -> None:
    found = table()
    for number in range(limits.GATE_SCOPES):
        with found.asking("one", Caller(principal="a", scopes=frozenset({f"tool:{number}"})), EVERYTHING):
            pass
    with pytest.raises(BusyError), found.asking("one", Caller(principal="a"), EVERYTHING):
        pass


def test_a_guest_without_taint_is_forgotten_first() -> None:
    found = table(2)
    taint(found, "one", A, "web")
    tainted(found, "two", A)
    tainted(found, "three", A)
    assert tainted(found, "one", A) == {"web"}


@pytest.mark.threat("G12")
def test_a_crowd_cleans_nobody() -> None:
    found = table(2)
    for number in range(5):
        taint(found, f"{number}", A, f"s{number}")
    assert "s0" in tainted(found, "0", A)
    assert "s0" in tainted(found, "new", B)


def test_who_asks_is_not_forgotten() -> None:
    found = table(1)
    with found.asking("one", A, EVERYTHING) as guest:
        with pytest.raises(BusyError), found.asking("two", A, EVERYTHING):
            pass
        guest.tainted_by.add("web")
    assert tainted(found, "one", A) == {"web"}


@pytest.mark.threat("G12")
@given(
    steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "web", "mail"])), min_size=1, max_size=60),
    most=st.integers(1, 4),
)
def test_no_sequence_of_guests_takes_a_taint_away(steps: list[tuple[str, str]], most: int) -> None:
    found, had = table(most), dict[str, set[str]]()
    for connection, server in steps:
        with found.asking(connection, A, EVERYTHING) as guest:
            assert had.get(connection, set()) <= guest.tainted_by
            if server:
                guest.tainted_by.add(server)
            had[connection] = set(guest.tainted_by)


def a_guest(only: frozenset[str] | None = None) -> Guest:
    return Guest(who="uid:1", rights=Rights(only=only), run="0" * 16, tainted_by={"web"}, approved={"x"})


def test_a_program_has_the_taint_of_its_guest_and_nothing_that_was_approved() -> None:
    guest = a_guest()
    program = guests.fork(guest, run="1" * 16)
    assert (program.tainted_by, program.approved, program.program) == ({"web"}, set(), True)
    program.tainted_by.add("mail")
    assert guest.tainted_by == {"web"}
    guests.join(guest, program)
    assert guest.tainted_by == {"web", "mail"}


@pytest.mark.parametrize(
    ("has", "given_", "gets"),
    [
        (None, None, None),
        (None, {"a"}, {"a"}),
        ({"a", "b"}, None, {"a", "b"}),
        ({"a", "b"}, {"b", "c"}, {"b"}),
    ],
)
def test_a_program_has_never_more_tools(has: set[str] | None, given_: set[str] | None, gets: set[str] | None) -> None:
    only = None if given_ is None else frozenset(given_)
    program = guests.fork(a_guest(None if has is None else frozenset(has)), run="1" * 16, only=only)
    assert program.rights.only == (None if gets is None else frozenset(gets))


def test_a_caller_is_named_as_the_log_has_it() -> None:
    with table().asking("one", A, EVERYTHING) as guest:
        assert guest.who == "token:a"
