"""core.jcs: the one form of RFC 8785."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jcs

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def test_names_are_sorted_by_their_utf16_units_as_in_the_examples_of_the_rfc() -> None:
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    order = [json.loads(part.rpartition(":")[0]) for part in jcs.encode(names).decode().strip("{}").split(",")]
    assert order == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_text_is_escaped_no_more_than_it_must_be() -> None:
    assert jcs.encode('\u20ac$\u000f\nA\'B"\\/"') == b'"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\/\\""'


@given(VALUES)
def test_what_is_written_is_the_value_and_does_not_change_when_it_is_written_again(value: object) -> None:
    written = jcs.encode(value)
    assert json.loads(written) == value
    assert jcs.encode(json.loads(written)) == written


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_the_order_in_which_members_were_made_is_not_told(value: dict[str, int]) -> None:
    assert jcs.encode(dict(reversed(value.items()))) == jcs.encode(value)


@pytest.mark.parametrize("value", [1.5, float("nan"), 2**53, {1: 2}, "\ud800", b"a", {"a": [{1, 2}]}])
def test_what_has_no_such_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"form|text|surrogates"):
        jcs.encode(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(), st.lists))
def test_what_has_no_form_is_text_when_it_is_asked_for(value: object) -> None:
    assert json.loads(jcs.encode(jcs.exact(value))) == jcs.exact(value)


def test_what_has_a_form_keeps_it() -> None:
    assert jcs.exact({"a": [1.0, 1.5, 2**53, True, "1"]}) == {"a": [1, "1.5", str(2**53), True, "1"]}
