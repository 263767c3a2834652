"""serve.cursor: a position that fits one question."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.core.errors import BadCursorError, RefusedError
from fumehood.serve import cursor

NUMBERS = st.dictionaries(st.text(max_size=8), st.integers(0, 2**40), max_size=3)


@given(arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4), position=NUMBERS)
def test_a_cursor_gives_its_position_back_for_the_same_question(
    arguments: dict[str, str], position: dict[str, int]
) -> None:
    text = cursor.make("list_directory", dict(arguments), dict(position))
    again = {**arguments, "cursor": text}
    assert cursor.read("list_directory", dict(again), text) == position
    assert text.isascii()
    assert "=" not in text


def test_a_cursor_of_another_question_or_tool_is_refused() -> None:
    text = cursor.make("list_directory", {"path": "a"}, {"at": 3})
    for tool, arguments in (("list_directory", {"path": "b"}), ("find_files", {"path": "a"}), ("list_directory", {})):
        with pytest.raises(BadCursorError, match="another question"):
            cursor.read(tool, dict(arguments), text)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_what_is_no_cursor_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(RefusedError) as error:
        cursor.read("find_files", {}, text)
    assert error.value.code == "bad_cursor"
    assert error.value.remedy


@pytest.mark.parametrize("document", [[], {"q": 1}, {"q": "x", "p": 3}, {"q": "x", "p": {}, "z": 1}, None])
def test_a_document_of_another_shape_is_refused(document: jsonio.JsonValue) -> None:
    text = base64.urlsafe_b64encode(jsonio.dump(document)).decode().rstrip("=")
    with pytest.raises(BadCursorError):
        cursor.read("find_files", {}, text)


def test_a_cursor_longer_than_ours_is_not_even_decoded() -> None:
    with pytest.raises(BadCursorError, match="too long"):
        cursor.read("find_files", {}, "A" * (limits.CURSOR_CHARACTERS + 1))


@pytest.mark.parametrize("value", [-1, True, "1", None, 1.5])
def test_a_position_is_a_number_from_zero(value: jsonio.JsonValue) -> None:
    with pytest.raises(BadCursorError):
        cursor.whole({"at": value}, "at")
    assert cursor.whole({"at": 7}, "at") == 7
