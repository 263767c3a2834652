"""review.asof: one moment for npm and uv."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review import asof


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("2026-05-31", "2026-06-01T00:00:00Z"),
        ("9999-12-31", "9999-12-31T00:00:00Z"),
        ("2026-05-31T12:30:00Z", "2026-05-31T12:30:00Z"),
        ("2026-05-31t12:30:00.25z", "2026-05-31T12:30:00Z"),
        ("2026-05-31T12:30:00+02:00", "2026-05-31T10:30:00Z"),
        ("0001-01-01T00:00:00+14:00", "9999-12-30T00:00:00Z"),
    ],
)
def test_a_date_counts_to_its_end_and_a_time_is_itself_in_utc(said: str, moment: str) -> None:
    assert asof.moment(said) == moment


@given(st.dates())
def test_every_date_is_a_moment_that_comes_after_it(day: dt.date) -> None:
    assert dt.datetime.fromisoformat(asof.moment(day.isoformat())).date() >= min(day, dt.date(9999, 12, 31))
