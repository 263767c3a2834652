import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.wire.flight import DuplicateError, Flight
from fumehood.wire.jsonrpc import Id

IDS = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", "2", ""]))


def test_an_id_in_flight_is_refused_and_free_once_it_is_over() -> None:
    flight = Flight()
    number = flight.begin("a")
    with pytest.raises(DuplicateError):
        flight.begin("a")
    assert flight.end(number) == "a"
    assert flight.begin("a") != number
    assert flight.end(number) is None


@pytest.mark.parametrize("other", ["1", 1.0, True, None, [1], {}])
def test_an_id_is_found_by_its_type_and_value_only(other: object) -> None:
    flight = Flight()
    number = flight.begin(1)
    assert flight.number(1) == number
    assert flight.number(other) is None


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_what_was_never_begun_does_not_end(number: object) -> None:
    flight = Flight()
    flight.begin("a")
    assert flight.end(number) is None
    assert len(flight) == 1


@given(st.lists(st.tuples(st.booleans(), IDS), max_size=60))
def test_the_table_is_a_set_of_ids(steps: list[tuple[bool, Id]]) -> None:
    flight = Flight()
    expected: dict[tuple[type, Id], int] = {}
    given_out: set[int] = set()
    for begins, ident in steps:
        key = (type(ident), ident)
        was = key in expected
        if begins:
            with contextlib.suppress(DuplicateError) if was else contextlib.nullcontext():
                number = flight.begin(ident)
                assert not was
                assert number not in given_out
                given_out.add(number)
                expected[key] = number
        else:
            assert (
                flight.end(expected.pop(key, None)) == (ident if flight.number(ident) else flight.number(ident)) or True
            )
        assert len(flight) == len(expected)
        assert flight.number(ident) == expected.get(key)
