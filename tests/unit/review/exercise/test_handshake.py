import pytest

from fumehood.core.untrusted import Untrusted
from fumehood.review.exercise import handshake
from fumehood.review.states import NO_SIGN, State
from fumehood.wire import outcomes, revisions

TEXT = Untrusted(b"text", source="test")
RESULT = revisions.InitializeResult(
    protocol_version="2025-06-18",
    server_name="s",
    server_version="1",
    server_title=None,
    capabilities={},
    instructions=None,
)


def show(text: Untrusted) -> str:
    return f"<{text.source}>"


def test_a_completed_handshake_ends_nothing() -> None:
    assert handshake.judge(outcomes.Initialized(result=RESULT), show) is None


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (outcomes.ErrorReply(code=-32603, message=TEXT, data=None), State.TARGET_FAILED),
        (outcomes.OtherEra(code=-32022, message=TEXT, data=None), State.RUNTIME_UNSUPPORTED),
        (outcomes.WrongVersion(offered=TEXT, known=False), State.RUNTIME_UNSUPPORTED),
        (outcomes.ShapeInvalid(errors=(revisions.ShapeError(path="$", problem="x"),)), State.TARGET_FAILED),
        (outcomes.BadFrame(problem="nested too deep", size=3), State.TARGET_FAILED),
        (outcomes.FrameTooLarge(limit_bytes=1), State.TARGET_FAILED),
        (outcomes.StreamTooLarge(received_bytes=1), State.TARGET_FAILED),
        (outcomes.Exited(), State.TARGET_FAILED),
        (outcomes.OnlyOtherIds(answers=2), State.TARGET_FAILED),
        (outcomes.NoAnswer(), State.TIMEOUT),
    ],
)
def test_each_outcome_leads_to_its_state(outcome: outcomes.Outcome | outcomes.NoAnswer, state: State) -> None:
    ended = handshake.judge(outcome, show)
    assert ended is not None
    assert ended.state is state
    assert ended.code
    assert ended.message


def test_another_era_is_said_to_be_no_sign_of_anything() -> None:
    for outcome in (
        outcomes.OtherEra(code=-32601, message=TEXT, data=None),
        outcomes.WrongVersion(offered=TEXT, known=True),
    ):
        ended = handshake.judge(outcome, show)
        assert ended is not None
        assert NO_SIGN in ended.message


def test_what_a_modern_handshake_came_to_names_what_was_asked() -> None:
    ended = handshake.judge(outcomes.WrongVersion(offered=TEXT, known=True), show, handshake.MODERN)
    assert ended is not None
    assert "2026-07-28" in ended.message
    silent = handshake.judge(outcomes.NoAnswer(), show, handshake.MODERN)
    assert silent is not None
    assert silent.message == "server/discover was not answered in time"
