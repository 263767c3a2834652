"""What counts as an answer of a person."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire import questions
from fumehood.wire.hosting import CannotAskError, Question, Reply, Verdict

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["sure"],
}
QUESTION = Question(message="Really?", schema=SCHEMA)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({"action": "accept", "content": {"sure": True}}, Reply(verdict=Verdict.ACCEPT, content={"sure": True})),
        ({"action": "decline"}, Reply(verdict=Verdict.DECLINE)),
        ({"action": "cancel", "content": {"sure": True}}, Reply(verdict=Verdict.CANCEL)),
        ({"action": "decline", "content": "nothing"}, Reply(verdict=Verdict.DECLINE)),
    ],
)
def test_an_answer_is_understood(answer: Any, reply: Reply) -> None:
    assert questions.reply(QUESTION, answer) == reply


@pytest.mark.threat("G16")
@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"action": "yes"},
        {"action": ["accept"]},
        {"action": "accept"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"sure": "true"}},
        {"action": "accept", "content": {"sure": True, "why": "x" * limits.FORM_BYTES}},
    ],
)
def test_anything_else_is_none(answer: Any) -> None:
    with pytest.raises(CannotAskError):
        questions.reply(QUESTION, answer)


def test_what_a_schema_cannot_check_is_no_answer() -> None:
    odd = Question(message="?", schema={"type": "object", "properties": {"a": {"pattern": "(?=x)"}}})
    with pytest.raises(CannotAskError):
        questions.reply(odd, {"action": "accept", "content": {"a": "x"}})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_whatever_comes_is_an_answer_or_refused(answer: Any) -> None:
    try:
        found = questions.reply(QUESTION, answer)
    except CannotAskError:
        return
    assert found.verdict is not Verdict.ACCEPT or isinstance(found.content["sure"], bool)


def test_a_result_that_asks_has_one_request_and_a_state() -> None:
    assert questions.input_required(QUESTION, "state") == {
        "resultType": "input_required",
        "inputRequests": {
            "question": {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": "Really?", "requestedSchema": SCHEMA},
            }
        },
        "requestState": "state",
    }
