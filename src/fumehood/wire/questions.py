"""What is asked of a person at a client, and what counts as an answer: elicitation in form mode. Pure.

Invariants: an answer that is accepted fits the schema of its question and is of a bounded size; anything else that a
client sends is no answer.

Source: the MCP specification, 2025-06-18 and later, elicitation; 2026-07-28, multi round-trip requests.
"""

import json

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import foreign
from fumehood.wire.foreign import Checked
from fumehood.wire.hosting import CannotAskError, Question, Reply, Verdict

KEY = "question"  # the one member of `inputRequests` and `inputResponses`


def parameters(question: Question) -> JsonObject:
    """The parameters of `elicitation/create`."""
    return {"mode": "form", "message": question.message, "requestedSchema": question.schema}


def input_required(question: Question, state: str) -> JsonObject:
    """The result that asks."""
    request: JsonObject = {"method": "elicitation/create", "params": parameters(question)}
    return {"resultType": "input_required", "inputRequests": {KEY: request}, "requestState": state}


def reply(question: Question, answer: JsonValue) -> Reply:
    """What an answer says. Errors: `CannotAskError`."""
    action = answer.get("action") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or action not in [one.value for one in Verdict]:
        raise CannotAskError("the client's answer to the question is none")
    verdict = Verdict(action)
    if verdict is not Verdict.ACCEPT:
        return Reply(verdict=verdict)
    content = answer.get("content") or {}
    if not isinstance(content, dict) or not _fits(question, content):
        raise CannotAskError("the client's answer does not fit the question's schema")
    return Reply(verdict=verdict, content=content)


def _fits(question: Question, content: JsonObject) -> bool:
    if len(json.dumps(content)) > limits.FORM_BYTES:
        return False
    checked = foreign.check(question.schema, content)
    return isinstance(checked, Checked) and not checked.problems and not checked.skipped_patterns
