"""core.untrusted, core.clock, core.errors: closed text, time as an argument, one status for each family."""

import datetime as dt

import pytest

from fumehood.core import errors
from fumehood.core.clock import SystemClock, rfc3339
from fumehood.core.untrusted import Untrusted


def test_untrusted_text_cannot_become_text_by_accident() -> None:
    closed = Untrusted(b"hello", source="stderr")
    for act in (str, "{}".format, "{:>9}".format):
        with pytest.raises(TypeError):
            act(closed)
    assert repr(closed) == "<Untrusted 5 bytes from stderr>"
    assert repr([closed]) == "[<Untrusted 5 bytes from stderr>]"


def test_untrusted_values_compare_by_bytes_and_source() -> None:
    closed = Untrusted(b"hello", source="stderr")
    assert len(closed) == 5
    assert closed == Untrusted(b"hello", source="stderr")
    assert closed != Untrusted(b"hello", source="stdout")
    assert closed != b"hello"
    assert len({closed, Untrusted(b"hello", source="stderr")}) == 1
    assert closed.reveal() == b"hello"


def test_the_systems_clock_moves_forward_and_is_in_utc() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.now().tzinfo is dt.UTC


def test_a_moment_is_written_in_utc_with_milliseconds() -> None:
    moment = dt.datetime(2026, 11, 29, 13, 0, 0, 123456, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert rfc3339(moment) == "2026-11-29T12:00:00.123Z"


def test_each_family_of_errors_has_its_own_exit_status() -> None:
    families = (
        errors.FailedError,
        errors.RefusedError,
        errors.UnsupportedError,
        errors.LimitError,
        errors.HarnessError,
    )
    assert [family.exit_status for family in families] == [1, 2, 3, 4, 5]
    assert len({family.code for family in families}) == 5


def test_an_error_says_its_message_and_the_next_step() -> None:
    error = errors.RefusedError("no", remedy="say yes")
    assert (error.message, error.remedy, str(error)) == ("no", "say yes", "no (say yes)")
    assert str(errors.RefusedError("no")) == "no"
