"""Pages are the list, each item once; a cursor is good for its own list only."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.gate import paging
from fumehood.gateway.gate.paging import Bounds, Entry
from fumehood.wire.hosting import HostError

KEY = b"k" * 32


def entries(names: Sequence[str]) -> list[Entry]:
    return [paging.entry({"name": name}) for name in names]


def whole(items: list[Entry], bounds: Bounds) -> list[list[Any]]:
    pages, cursor = [], None
    while True:
        found = paging.page("tools", items, cursor, KEY, bounds)
        pages.append(found.items)
        if (cursor := found.cursor) is None:
            return pages


@given(names=st.lists(st.text(max_size=30), max_size=40), items=st.integers(1, 12), size=st.integers(1, 200))
def test_pages_are_the_list_each_item_once(names: list[str], items: int, size: int) -> None:
    listed = entries(names)
    pages = whole(listed, Bounds(items=items, size=size))
    assert [one for page in pages for one in page] == [one.shown for one in listed]
    assert all(len(page) <= items for page in pages)
    assert all(page for page in pages) or not names
    sizes = {id(one.shown): one.size for one in listed}
    assert all(len(page) == 1 or sum(sizes[id(one)] for one in page) <= size for page in pages)


def cursor(names: Sequence[str], kind: str = "tools", key: bytes = KEY) -> str:
    found = paging.page(kind, entries(names), None, key, Bounds(items=1)).cursor
    assert found is not None
    return found


@pytest.mark.threat("G13")
@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "x",
        "é",
        0,
        False,
        {},
        cursor("ab", kind="prompts"),
        cursor("ab", key=b"o" * 32),
        cursor("ab")[:-4],
        "A" + cursor("ab")[1:],
        cursor("ab") + "\n",
    ],
)
def test_a_cursor_that_is_forged_or_of_another_list_is_refused(wrong: Any) -> None:
    with pytest.raises(HostError, match="none of this list") as caught:
        paging.page("tools", entries("ab"), wrong, KEY)
    assert caught.value.number == -32602


@given(data=st.binary(min_size=36, max_size=36))
def test_no_made_up_place_is_taken(data: bytes) -> None:
    import base64  # noqa: PLC0415 - here only

    with pytest.raises(HostError):
        paging.page("tools", entries("ab"), base64.urlsafe_b64encode(data).decode(), KEY)


def test_a_cursor_is_good_while_the_list_stays_and_refused_with_words_afterwards() -> None:
    given_ = cursor("abc")
    assert paging.page("tools", entries("abc"), given_, KEY).items == [{"name": "b"}, {"name": "c"}]
    with pytest.raises(HostError, match="has changed since"):
        paging.page("tools", entries("abd"), given_, KEY)
