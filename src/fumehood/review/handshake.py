"""What the end of a handshake means for the review. Pure: outcomes of `wire` in, states out.

Source of the table: docs/reference/states.md.
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

from fumehood.core.untrusted import Untrusted
from fumehood.review.states import ReviewEndedError, State
from fumehood.wire import outcomes

Unanswered: TypeAlias = (
    outcomes.BadFrame
    | outcomes.FrameTooLarge
    | outcomes.StreamTooLarge
    | outcomes.Exited
    | outcomes.OnlyOtherIds
    | outcomes.NoAnswer
)

NO_SIGN = "That is no sign of anything unsafe"


def judge(outcome: outcomes.Outcome | outcomes.NoAnswer, show: Callable[[Untrusted], str]) -> ReviewEndedError | None:
    """None when the handshake was completed, else how the review ends. `show` makes text of the target inert."""
    match outcome:
        case outcomes.Initialized():
            return None
        case outcomes.ErrorReply(code=code, message=message):
            return _failed("error_reply", f"initialize was answered with error {code}: {show(message)}")
        case outcomes.OtherEra(code=code):
            return _unsupported(
                "other_era", f"initialize is not known to it (error {code}): another era of the protocol. {NO_SIGN}"
            )
        case outcomes.WrongVersion(offered=offered):
            return _unsupported(
                "other_version", f"it offers protocol version {show(offered)}, not 2025-06-18. {NO_SIGN}"
            )
        case outcomes.ShapeInvalid(errors=errors):
            listed = "; ".join(f"{e.path}: {e.problem}" for e in errors[:5])
            return _failed("result_shape", f"the answer is no InitializeResult: {listed}")
        case _:
            return _unanswered(outcome)


def _unanswered(outcome: Unanswered) -> ReviewEndedError:
    match outcome:
        case outcomes.BadFrame(problem=problem):
            return _failed("bad_frame", f"a line is no frame: {problem}")
        case outcomes.FrameTooLarge(limit_bytes=limit):
            return _failed("frame_too_large", f"a frame is larger than {limit} bytes")
        case outcomes.StreamTooLarge(received_bytes=received):
            return _failed("stream_too_large", f"{received} bytes of frames came without an answer")
        case outcomes.Exited():
            return _failed("exited", "it ended before it answered initialize")
        case outcomes.OnlyOtherIds(answers=answers):
            return _failed("other_id", f"it sent {answers} answers, none with the id of initialize")
        case outcomes.NoAnswer():
            return ReviewEndedError(State.TIMEOUT, "no_answer", "initialize was not answered in time")
        case _:
            assert_never(outcome)


def _failed(code: str, message: str) -> ReviewEndedError:
    return ReviewEndedError(State.TARGET_FAILED, code, message)


def _unsupported(code: str, message: str) -> ReviewEndedError:
    return ReviewEndedError(State.RUNTIME_UNSUPPORTED, code, message)
