"""What the end of a handshake means for the review. Pure: outcomes of `wire` in, states out.

Source of the table: docs/reference/states.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from fumehood.core.untrusted import Untrusted
from fumehood.review.states import NO_SIGN, ReviewEndedError, State
from fumehood.wire import modern, outcomes, revisions

Unanswered: TypeAlias = (
    outcomes.BadFrame
    | outcomes.FrameTooLarge
    | outcomes.StreamTooLarge
    | outcomes.Exited
    | outcomes.OnlyOtherIds
    | outcomes.NoAnswer
)

_RESULTS = {"initialize": "InitializeResult", modern.DISCOVER: "DiscoverResult"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a handshake asks with."""

    method: str
    version: str


LEGACY = Asks(method="initialize", version=revisions.REVIEWED)
MODERN = Asks(method=modern.DISCOVER, version=modern.VERSION)


def judge(
    outcome: outcomes.Outcome | outcomes.NoAnswer, show: Callable[[Untrusted], str], asks: Asks = LEGACY
) -> ReviewEndedError | None:
    """None when the handshake was completed, else how the review ends. `show` makes text of the target inert."""
    method = asks.method
    match outcome:
        case outcomes.Initialized():
            return None
        case outcomes.ErrorReply(code=code, message=message):
            return _failed("error_reply", f"{method} was answered with error {code}: {show(message)}")
        case outcomes.OtherEra(code=code):
            return _unsupported(
                "other_era", f"{method} is not known to it (error {code}): another era of the protocol. {NO_SIGN}"
            )
        case outcomes.WrongVersion(offered=offered):
            return _unsupported(
                "other_version", f"it offers protocol version {show(offered)}, not {asks.version}. {NO_SIGN}"
            )
        case outcomes.ShapeInvalid(errors=errors):
            listed = "; ".join(f"{e.path}: {e.problem}" for e in errors[:5])
            return _failed("result_shape", f"the answer is no {_RESULTS[method]}: {listed}")
        case _:
            return _unanswered(outcome, method)


def _unanswered(outcome: Unanswered, method: str) -> ReviewEndedError:
    match outcome:
        case outcomes.BadFrame(problem=problem):
            return _failed("bad_frame", f"a line is no frame: {problem}")
        case outcomes.FrameTooLarge(limit_bytes=limit):
            return _failed("frame_too_large", f"a frame is larger than {limit} bytes")
        case outcomes.StreamTooLarge(received_bytes=received):
            return _failed("stream_too_large", f"{received} bytes of frames came without an answer")
        case outcomes.Exited():
            return _failed("exited", f"it ended before it answered {method}")
        case outcomes.OnlyOtherIds(answers=answers):
            return _failed("other_id", f"it sent {answers} answers, none with the id of {method}")
        case outcomes.NoAnswer():
            return ReviewEndedError(State.TIMEOUT, "no_answer", f"{method} was not answered in time")
        case _:
            assert_never(outcome)


def _failed(code: str, message: str) -> ReviewEndedError:
    return ReviewEndedError(State.TARGET_FAILED, code, message)


def _unsupported(code: str, message: str) -> ReviewEndedError:
    return ReviewEndedError(State.RUNTIME_UNSUPPORTED, code, message)
