"""review.exercise.listing: a list ends, and what it came to is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.untrusted import Untrusted
from fumehood.review.exercise import listing
from fumehood.review.exercise.listing import SORTS, Listing
from fumehood.review.states import State
from fumehood.wire.conversation import Answer, Ended, InputRequired, Refusal, Reply, TimedOut, Unreadable

TOOLS = SORTS[0]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}}


def page(*names: str, cursor: Any = None) -> Answer:
    more = {} if cursor is None else {"nextCursor": cursor}
    return Answer(result={"tools": [tool(name) for name in names], **more}, line=b"")


def test_pages_are_one_list() -> None:
    one = Listing(TOOLS, offered=True)
    assert one.take(page("a", cursor="1")) == "1"
    assert one.take(page("b")) is None
    assert (one.complete, one.failure, list(one.by_name), one.pages) == (True, None, ["a", "b"], 2)
    whole = Listing(TOOLS, offered=True)
    whole.take(page("b", "a"))
    assert one.detail["sha256"] == whole.detail["sha256"]


def test_an_empty_list_is_a_whole_one() -> None:
    one = Listing(TOOLS, offered=True)
    assert one.take(page()) is None
    assert (one.complete, one.detail["count"], one.failure) == (True, 0, None)


def test_what_is_not_offered_has_no_count() -> None:
    told = Listing(TOOLS, offered=False).detail
    assert (told["offered"], told["count"], told["why"]) == (False, None, "not offered")


def test_a_cursor_that_comes_twice_ends_the_list() -> None:
    one = Listing(TOOLS, offered=True)
    cursors = [one.take(page("a", cursor=cursor)) for cursor in ("x", "y", "x")]
    assert (cursors, one.complete, one.why, one.failure) == (["x", "y", None], False, "a cursor came twice", None)


def test_an_empty_cursor_is_one_like_any_other() -> None:
    one = Listing(TOOLS, offered=True)
    assert (one.take(page("a", cursor="")), one.take(page("a", cursor=""))) == ("", None)


def test_pages_without_end_end_at_the_bound() -> None:
    one = Listing(TOOLS, offered=True)
    cursors = [one.take(page("a", cursor=str(number))) for number in range(limits.LIST_PAGES)]
    assert (cursors[-2:], one.why) == ([str(limits.LIST_PAGES - 2), None], f"more than {limits.LIST_PAGES} pages")


def test_items_beyond_the_bound_are_not_kept_and_those_beyond_the_described_are_counted() -> None:
    one = Listing(TOOLS, offered=True)
    assert one.take(page(*(str(number) for number in range(limits.LISTED_ITEMS + 1)), cursor="x")) is None
    assert (len(one.definitions), one.complete) == (limits.LISTED_ITEMS, False)
    assert len(list(one.described())) == limits.DEFINITIONS
    assert one.detail["not_described"] == limits.LISTED_ITEMS - limits.DEFINITIONS


def test_names_that_come_twice_are_counted_and_the_first_is_the_one() -> None:
    one = Listing(TOOLS, offered=True)
    first, second = tool("a"), {**tool("a"), "description": "another"}
    one.take(Answer(result={"tools": [first, second]}, line=b""))
    assert (one.detail["repeated_names"], one.by_name["a"].value) == (1, first)


WORDS = Untrusted(b"no", source="test")


@pytest.mark.parametrize(
    ("reply", "ended"),
    [
        (Refusal(code=-32601, message=WORDS, line=b""), None),
        (InputRequired(line=b""), None),
        (Refusal(code=-32603, message=WORDS, line=b""), (State.TARGET_FAILED, "error_reply")),
        (TimedOut(seconds=1.0), (State.TIMEOUT, "list_unanswered")),
        (Unreadable(problem="x"), (State.TARGET_FAILED, "bad_frame")),
        (Ended(why="exited"), (State.TARGET_FAILED, "exited")),
        (Ended(why="input_closed"), (State.TARGET_FAILED, "exited")),
        (Ended(why="stream_too_large"), (State.TARGET_FAILED, "stream_too_large")),
        (Answer(result=[], line=b""), (State.TARGET_FAILED, "list_shape")),
        (Answer(result={"tools": {}}, line=b""), (State.TARGET_FAILED, "list_shape")),
        (Answer(result={"tools": [], "nextCursor": 5}, line=b""), (State.TARGET_FAILED, "list_shape")),
    ],
)
def test_what_comes_in_place_of_a_page_says_how_the_review_ends(reply: Reply, ended: tuple[State, str] | None) -> None:
    one = Listing(TOOLS, offered=True)
    one.take(page("a", cursor="1"))
    assert one.take(reply) is None
    assert (one.complete, len(one.definitions), bool(one.why)) == (False, 1, True)
    assert (None if one.failure is None else (one.failure.state, one.failure.code)) == ended
    assert (listing.failure({"tool": one}) is one.failure, listing.failure({})) == (True, None)


VALUES = (
    st.none() | st.integers() | st.text(max_size=3) | st.dictionaries(st.sampled_from(["name"]), st.text(max_size=3))
)


@given(st.lists(st.tuples(st.lists(VALUES, max_size=3), st.none() | st.text(max_size=1)), min_size=1, max_size=20))
def test_a_list_ends_whatever_its_pages_hold(pages: list[tuple[list[Any], str | None]]) -> None:
    one = Listing(TOOLS, offered=True)
    taken = 0
    for values, cursor in pages:
        taken += 1
        more = {} if cursor is None else {"nextCursor": cursor}
        if one.take(Answer(result={"tools": values, **more}, line=b"")) is None:
            break
    assert one.pages == taken
    assert len(one.definitions) == sum(len(values) for values, _ in pages[:taken])
