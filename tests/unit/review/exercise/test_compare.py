"""review.exercise.compare: two starts of one server, and what differs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.review.exercise import compare, definitions
from fumehood.review.exercise.compare import Heard, List


def tools(**described: str) -> List:
    found = {
        name: definitions.read("tool", {"name": name, "description": text, "inputSchema": {}})
        for name, text in described.items()
    }
    return List(
        state="complete", digest=definitions.digest_of([one.digest for one in found.values()]), definitions=found
    )


def heard(lists: dict[str, List] | None = None, **more: Any) -> Heard:
    return Heard(handshake="completed", lists={} if lists is None else lists, **more)


def told(before: Heard, after: Heard) -> list[tuple[Any, ...]]:
    return [(one["what"], one["name"], one["before"], one["after"]) for one in compare.differences(before, after)]


def test_a_tool_that_says_something_else_is_told_with_the_member_that_changed() -> None:
    before, after = heard({"tool": tools(a="x", b="y")}), heard({"tool": tools(a="x", b="z")})
    (found,) = compare.differences(before, after)
    assert (found["what"], found["name"], found["members"]) == ("tool", "b", ["description"])
    assert [one.name for one in compare.changed(before, after)] == ["b"]


def test_tools_that_came_and_went_are_told() -> None:
    before, after = heard({"tool": tools(a="x")}), heard({"tool": tools(b="x")})
    assert [(what, name, old is None, new is None) for what, name, old, new in told(before, after)] == [
        ("tool", "a", False, True),
        ("tool", "b", True, False),
    ]


def test_who_answers_and_what_it_offers_is_compared() -> None:
    before = heard(server={"name": "s", "version": "1"}, capabilities={"tools": "x"})
    after = heard(server={"name": "s", "version": "2"}, capabilities={"prompts": "x"})
    assert told(before, after) == [
        ("server", "version", "1", "2"),
        ("capability", "tools", "x", None),
        ("capability", "prompts", None, "x"),
    ]


def test_a_start_that_was_never_answered_is_one_difference() -> None:
    before = heard({"tool": tools(a="x")}, server={"name": "s"})
    assert told(before, Heard(handshake="exited")) == [("handshake", None, "completed", "exited")]


def test_a_list_that_came_in_part_is_told_as_such() -> None:
    part = List(state="a cursor came twice", digest="d", definitions={})
    found = told(heard({"tool": tools()}), heard({"tool": part}))
    assert found == [("tool list", None, "complete", "a cursor came twice")]


def test_a_list_that_only_one_start_has_is_told() -> None:
    assert told(heard({}), heard({"tool": tools(a="x")})) == [("tool list", None, None, "complete")]


def test_what_has_no_name_is_compared_by_the_digest_of_the_list() -> None:
    one, other = List(state="complete", digest="1"), List(state="complete", digest="2")
    assert told(heard({"tool": one}), heard({"tool": other})) == [("tool list", None, "1", "2")]


def test_programs_and_hosts_of_one_start_alone_are_told() -> None:
    before = heard(programs=frozenset({"/bin/a"}), hosts=frozenset({"a.example", "b.example"}))
    after = heard(programs=frozenset({"/bin/a", "/bin/b"}), hosts=frozenset({"b.example"}))
    assert [(one["what"], one["name"], one["before"], one["after"]) for one in compare.acted(before, after)] == [
        ("program", "/bin/b", False, True),
        ("host", "a.example", True, False),
    ]


def test_differences_beyond_the_bound_are_counted() -> None:
    many = {f"t{number}": "x" for number in range(limits.DIFFERENCES + 5)}
    found = compare.differences(heard({"tool": tools()}), heard({"tool": tools(**many)}))
    assert (len(found), found[-1]["what"], found[-1]["after"]) == (limits.DIFFERENCES + 1, "further", 5)


STARTS = st.builds(
    heard,
    st.dictionaries(
        st.sampled_from(["tool", "prompt"]),
        st.dictionaries(st.sampled_from("abc"), st.text(max_size=2)).map(lambda d: tools(**d)),
    ),
    server=st.dictionaries(st.sampled_from(["name", "version"]), st.text(max_size=2)),
    capabilities=st.dictionaries(st.sampled_from(["tools"]), st.text(max_size=2)),
    programs=st.frozensets(st.sampled_from(["/bin/a", "/bin/b"])),
)


@given(STARTS)
def test_a_start_does_not_differ_from_itself(start: Heard) -> None:
    assert (compare.differences(start, start), compare.acted(start, start)) == ([], [])
    assert list(compare.changed(start, start)) == []


@given(STARTS, STARTS)
def test_what_differs_one_way_differs_the_other_way(one: Heard, other: Heard) -> None:
    assert {(a, b) for a, b, _, _ in told(one, other)} == {(a, b) for a, b, _, _ in told(other, one)}
    assert bool(told(one, other)) == (
        one.lists != other.lists or (one.server, one.capabilities) != (other.server, other.capabilities)
    )
