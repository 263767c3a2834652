"""What an operator is told of a server again and again: less and less, and each new reason at once."""

from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.upstreams.model import Down, Introduction, Starting, Up
from fumehood.gateway.upstreams.report import Repeats, lines

UP = Up(introduction=Introduction(era="legacy", revision="2025-11-25"))


def told(*reasons: str) -> list[int]:
    """The numbers, from 1, of the failures that are told."""
    repeats = Repeats()
    found = []
    for number, reason in enumerate(reasons, 1):
        assert not repeats.tells(Starting())
        if repeats.tells(Down(reason=reason, again_seconds=1.0)):
            found.append(number)
    return found


def test_the_same_failure_is_told_at_first_and_then_ever_more_rarely() -> None:
    assert told(*["no host"] * 300) == [1, 4, 16, 64, 256]


def test_another_reason_is_told_at_once() -> None:
    assert told("a", "a", "b", "b", "a") == [1, 3, 5]


def test_a_server_that_was_up_is_told_of_anew() -> None:
    repeats = Repeats()
    down = Down(reason="a", again_seconds=1.0)
    assert [repeats.tells(one) for one in (down, down, UP, down)] == [True, False, True, True]
    assert repeats.more == ""


def test_how_often_it_was_so_stands_in_the_line() -> None:
    repeats = Repeats()
    down = Down(reason="a", again_seconds=1.0)
    for _ in range(4):
        repeats.tells(down)
    assert lines("s", down, more=repeats.more) == ["s: is down: a; it is tried again in 1.0 s (4 times now)"]


@given(st.lists(st.sampled_from("ab"), max_size=400))
def test_no_change_of_reason_is_kept_back_and_no_repeats_flood(reasons: list[str]) -> None:
    found = told(*reasons)
    changes = [number for number, one in enumerate(reasons, 1) if number == 1 or reasons[number - 2] != one]
    assert set(changes) <= set(found)
    assert len(found) <= len(changes) * 5
