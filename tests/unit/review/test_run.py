"""review.run: whatever ends the steps becomes one state, with its code."""

import asyncio
import errno
import logging
from collections.abc import Awaitable

import msgspec
import pytest

from fumehood.core.errors import HarnessError, LimitError, UnsupportedError
from fumehood.review import run
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Work


def ended(work: Work, error: BaseException | None) -> tuple[State, str]:
    """The state, and the code in the ledger, of steps that end so."""

    async def steps() -> None:
        if error is not None:
            raise error

    state = asyncio.run(run._state_of(steps, work))
    return state, work.ledger.errors[0].code if work.ledger.errors else ""


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (None, State.COMPLETED, ""),
        (ReviewEndedError(State.STOPPED, "output_capture_limit", "much"), State.STOPPED, "output_capture_limit"),
        (LimitError("long"), State.TIMEOUT, "limit"),
        (HarnessError("broken"), State.HARNESS_ERROR, "harness"),
        (OSError(errno.ENOSPC, "full"), State.HARNESS_ERROR, "disk_full"),
    ],
)
def test_each_end_has_its_state(work: Work, error: Exception | None, state: State, code: str) -> None:
    assert ended(work, error) == (state, code)


def test_a_wall_that_cannot_stand_leaves_no_result(work: Work) -> None:
    with pytest.raises(UnsupportedError):
        ended(work, UnsupportedError("no route"))


@pytest.mark.parametrize("error", [ZeroDivisionError(), TimeoutError(), OSError(errno.ETIMEDOUT, "slow")])
def test_a_fault_is_ours_and_its_traceback_is_in_the_log(
    work: Work, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert ended(work, error) == (State.HARNESS_ERROR, "fault")
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_the_limit_of_the_job_is_a_matter_of_time(work: Work) -> None:
    work.settings = msgspec.structs.replace(
        work.settings, review=msgspec.structs.replace(work.settings.review, job_seconds=0.001)
    )

    async def go() -> State:
        def steps() -> Awaitable[None]:
            return asyncio.Event().wait()  # type: ignore[return-value]  # it never comes back

        return await run._state_of(steps, work)

    assert asyncio.run(go()) is State.TIMEOUT
    assert [error.code for error in work.ledger.errors] == ["job"]
