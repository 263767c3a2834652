"""One name space for direct calls and programs; what is hidden is hidden from lists only."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import UnknownToolError
from fumehood.gateway.codemode import offers, own
from fumehood.gateway.gate.model import Offered

Offer = Callable[..., Offered]


def test_by_show_a_client_sees_every_tool_or_three_or_both(make_offer: Offer) -> None:
    direct, saved = make_offer("a__b"), make_offer("code__report")
    three = [own.offered(name) for name in sorted(offers.OURS)]
    every = [direct, saved, *three]

    def shown(show: offers.Show) -> list[str]:
        return [one.name for one in every if offers.is_shown(show, one)]

    assert shown("both") == ["a__b", "code__report", "describe_tools", "run_code", "search_tools"]
    assert shown("direct") == ["a__b", "code__report"]
    assert shown("code") == ["code__report", "describe_tools", "run_code", "search_tools"]


def test_a_program_knows_a_tool_by_the_name_that_a_client_sees(make_offer: Offer) -> None:
    tool = offers.of_program(make_offer("a__b", "Does it.", writes=True))
    assert (tool.name, tool.description, tool.writes, tool.output_schema) == ("a__b", "Does it.", True, None)


def test_a_definition_without_words_or_schema_is_no_reason_to_fail() -> None:
    definition: dict[str, Any] = {"name": "a__b", "title": "The title", "inputSchema": "none"}
    tool = offers.of_program(Offered(name="a__b", server="a", tool="b", definition=definition))
    assert (tool.description, dict(tool.input_schema)) == ("The title", {"type": "object"})


def test_a_name_that_may_not_be_used_is_refused_in_the_words_of_one_that_is_not_there(make_offer: Offer) -> None:
    with pytest.raises(UnknownToolError) as refused:
        offers.named([make_offer("a__b")], ["a__b", "c__d\n"])
    assert str(refused.value) == "'c__d\\n' is no tool that you may use (search_tools finds those that you may)"


def test_each_tool_is_named_once_in_the_order_that_was_asked_for(make_offer: Offer) -> None:
    one, other = make_offer("a__b"), make_offer("a__c")
    assert offers.named([one, other], ["a__c", "a__b", "a__c"]) == [other, one]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Does it. And more.", "Does it."),
        ("v1.2 of\n it", "v1.2 of it"),
        ("", ""),
        ("x" * 500, "x" * 199 + "…"),
    ],
)
def test_of_a_description_the_first_sentence_is_listed(text: str, shown: str) -> None:
    assert offers.short(text) == shown


@given(st.text())
def test_a_listed_description_is_one_short_line(text: str) -> None:
    shown = offers.short(text)
    assert len(shown) <= limits.CODEMODE_SHORT_CHARACTERS
    assert len(shown.split("\n")) == 1
