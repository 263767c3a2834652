"""EXERCISE: start the server, do what the profile of the request asks for, watch it for a while, end it.

Invariants: the server is ended by us; one that stays alive is a completed handshake.
"""

from fumehood.observe.model import Phase
from fumehood.review import handshake, steps
from fumehood.review.exercise import child
from fumehood.review.exercise.child import Live, Spoken, Start
from fumehood.review.exercise.entrypoint import arguments
from fumehood.review.request import ReviewRequest
from fumehood.review.show import show_untrusted
from fumehood.review.states import ReviewEndedError
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy


async def exercise(work: Work, request: ReviewRequest, entry: str, network: Policy) -> None:
    """Run the phase and put what was said into the ledger; ends the review unless the handshake was completed."""
    start = Start(
        step="exercise",
        entry=entry,
        argv=arguments(request, work.bench.workspace),
        network=network,
        seconds=min(request.timeout_seconds, work.settings.review.exercise_seconds),
        linger_seconds=request.linger_seconds,
        era="legacy",
    )
    try:
        spoken = await child.run(work, start, _nothing)
    finally:
        mine = [ran.wall_seconds for ran in work.steps if ran.phase is Phase.EXERCISE]
        work.coverage["seconds_observed"] = sum(mine)
    work.stack.push(spoken.ran.layer)
    ended = handshake.judge(spoken.outcome, show_untrusted)
    badly = steps.ended_badly(work, spoken.ran)
    if badly is not None and (ended is not None or work.output_limit_reached):
        raise badly
    if ended is not None:
        raise _with_exit(ended, spoken)


async def _nothing(live: Live) -> None:
    """The handshake is all."""
    del live


def _with_exit(ended: ReviewEndedError, spoken: Spoken) -> ReviewEndedError:
    """Say with which status a server left that never answered."""
    status = spoken.ran.exit.status
    if ended.code != "exited" or status is None:
        return ended
    message = f"it ended with status {status} before it answered initialize"
    return ReviewEndedError(ended.state, ended.code, message)
