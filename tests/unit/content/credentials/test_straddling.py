import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content.control import Controls, present
from fumehood.content.passage import Answer, Passage
from fumehood.core.untrusted import Untrusted

RANDOM = "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU5oTi0"
# In pieces, so that this file holds no credential that a scanner would report.
TOKEN = "glpat" + "-" + RANDOM[:20]
KEY = (
    "-----BEGIN RSA PRIVATE "
    "KEY-----\n"
    + "MIIEpQIBAAKCAQEAn6q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU5oTi0Lq2w8Rt\n" * 12
    + "-----END RSA PRIVATE "
    + "KEY-----\n"
)


def untrusted(text: str) -> Untrusted:
    return Untrusted(text.encode(), source="x")


def shown(before: str, text: str, after: str) -> str:
    passage = Passage(text=untrusted(text), before=untrusted(before), after=untrusted(after))
    return present(Answer(passages=(passage,), facts={}), Controls(key=b"k" * 32)).text


@pytest.mark.threat("T4")
@given(st.integers(0, len(TOKEN)), st.integers(0, len(TOKEN)))
def test_a_token_that_straddles_a_page_leaves_no_part_in_it(first: int, second: int) -> None:
    begin, end = sorted((first, second))
    text = shown(f"before {TOKEN[:begin]}", TOKEN[begin:end], f"{TOKEN[end:]} after")
    assert TOKEN[begin:end] not in text or end - begin < 3


@pytest.mark.threat("T4")
@given(st.integers(0, 13), st.integers(0, 13))
def test_a_key_of_which_a_page_shows_some_lines_is_replaced(first: int, second: int) -> None:
    begin, end = sorted((first, second))
    lines = KEY.splitlines(keepends=True)
    text = shown("a\n" + "".join(lines[:begin]), "".join(lines[begin:end]), "".join(lines[end:]) + "b\n")
    assert "MII" not in text


def test_without_what_stands_around_it_the_middle_of_a_token_says_nothing() -> None:
    assert TOKEN[8:20] in shown("", f"{TOKEN[8:20]}\n", "")
