"""What a person is shown of a call is inert, whole or said to be cut, and what is approved is exactly that."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.gate import approval
from fumehood.gateway.gate.model import EVERYTHING, Guest, Offered
from fumehood.gateway.guard.seen import visible
from fumehood.wire.hosting import Reply, Verdict

WRITE = Offered(name="fs__write", server="fs", tool="write", definition={}, writes=True, egress=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


def guest(*, program: bool = False, tainted_by: tuple[str, ...] = ("web",)) -> Guest:
    return Guest(who="uid:1", rights=EVERYTHING, run="0" * 16, tainted_by=set(tainted_by), program=program)


def shown(arguments: Any, controls: Any, **more: Any) -> str:
    return approval.question(guest(**more), WRITE, arguments, controls).message


def test_a_question_names_the_tool_the_server_and_what_was_read_before(controls: Any) -> None:
    words = shown({"path": "a"}, controls, tainted_by=("web", "mail"))
    assert words.startswith("This client wants to use write of the server fs, which may change something and may send")
    assert "mail, web" in words
    assert 'Arguments: {"path": "a"}' in words
    assert approval.digest(WRITE, {"path": "a"})[:16] in words
    assert shown({}, controls, program=True).startswith("A program of this client")
    assert "and 15 more" in shown({}, controls, tainted_by=tuple(f"s{n:02d}" for n in range(25)))


@pytest.mark.threat("G11")
@given(arguments=ARGUMENTS)
def test_nothing_in_a_question_is_unseen(arguments: Any) -> None:
    from fumehood.content.control import Controls  # noqa: PLC0415 - a fixture is not for a property

    words = shown(arguments, Controls(key=b"k" * 32))
    assert visible(words, len(words)).removed == 0
    assert len(words.splitlines()) == (4 if words.isascii() else 5)


@pytest.mark.threat("G11")
def test_what_is_not_seen_stands_in_a_question_as_an_escape(controls: Any) -> None:
    words = shown({"to": "a\u202eb\u200bc\x1b[1m é"}, controls)
    assert r"a\u202eb\u200bc\u001b[1m é" in words


@pytest.mark.threat("G11")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("p\u0430y", "1 of these characters are not ASCII and may look like others."),
        ("\u05d0 100 \u05d1", "are written from right to left, which turns what stands beside them."),
        ("pay", None),
    ],
)
def test_letters_that_may_mislead_are_said_to_be_there(controls: Any, value: str, said: str | None) -> None:
    words = shown({"to": value}, controls)
    assert ("not ASCII" in words) == (said is not None)
    assert said is None or said in words


def test_credentials_are_not_shown(controls: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    words = shown({"body": f"it is {secret}"}, controls)
    assert secret not in words
    assert "[redacted:" in words


@pytest.mark.threat("G11")
def test_arguments_that_are_not_shown_whole_are_said_to_be_cut(controls: Any) -> None:
    words = shown({"body": "x" * (3 * limits.GATE_QUESTION_CHARACTERS)}, controls)
    assert len(words) < 2 * limits.GATE_QUESTION_CHARACTERS
    assert f"[cut: {2 * limits.GATE_QUESTION_CHARACTERS + 12} characters are not shown]" in words
    assert "[cut" not in shown({"body": "x"}, controls)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.threat("G11")
@given(one=ARGUMENTS, other=ARGUMENTS)
def test_two_calls_are_one_exactly_when_their_arguments_are(one: Any, other: Any) -> None:
    same = approval.digest(WRITE, one) == approval.digest(WRITE, other)
    assert same == (canonical(one) == canonical(other))
    assert approval.digest(WRITE, one) == approval.digest(WRITE, dict(reversed([*one.items()])))


def test_another_tool_with_the_same_arguments_is_another_call() -> None:
    another = Offered(name="x", server="fs", tool="append", definition={})
    elsewhere = Offered(name="x", server="gs", tool="write", definition={})
    assert len({approval.digest(one, {}) for one in (WRITE, another, elsewhere)}) == 3


@pytest.mark.parametrize("program", [False, True])
def test_the_form_is_flat_its_default_is_no_and_each_answer_fits_it(program: bool) -> None:
    schema = approval.schema(program=program)
    (answer,) = schema["properties"].values()  # type: ignore[union-attr]  # an object of ours
    assert isinstance(answer, dict)
    assert answer["default"] == "no"
    assert set(answer) == {"type", "title", "enum", "default"}
    words = answer["enum"]
    assert isinstance(words, list)
    assert len(words) == (3 if program else 2)
    for word in words:
        assert jsonschema_rs.is_valid(schema, {"answer": word})
    assert not jsonschema_rs.is_valid(schema, {})


@given(content=st.dictionaries(st.sampled_from(["answer", "x"]), JSON, max_size=2), verdict=st.sampled_from(Verdict))
def test_only_an_accepted_word_of_the_form_is_a_yes(content: Any, verdict: Verdict) -> None:
    said = approval.said(guest(program=True), Reply(verdict=verdict, content=content))
    assert said in {approval.Said.NO, approval.Said.CANCELLED}
