"""Results come from strangers: whatever stands where in a file, it is refused or handled, and shown inert."""

import copy
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fumehood.cli import differences, render
from fumehood.core.errors import FumehoodError
from fumehood.review import reading, result
from fumehood.review.behaviour import diff
from fumehood.review.export import intoto, leastpolicy, sarif
from recorded import made

BASE: dict[str, Any] = json.loads(
    result.encode(
        msgspec.structs.replace(made(), provenance=msgspec.structs.replace(made().provenance, digest="ab" * 32))
    )
)
HOME = reading.result(json.dumps(BASE).encode(), "base")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["\x1b[2J", "a\nb", "\u202e", "/" * 99, "-" * 99, "198.18.0.1", "https://[", "/home/max/max-app"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\u200b", max_size=2), inner),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in inside for place in places(entry, (*path, key)))]


PLACES = [place for place in places(BASE) if place]


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=4))
def test_a_result_with_anything_anywhere_is_refused_or_handled(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    value = copy.deepcopy(BASE)
    for place, put in changes:
        inside: Any = value
        try:
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = put
        except (LookupError, TypeError):  # an earlier change took it away
            continue
    try:
        read = reading.result(json.dumps(value).encode(), "r.json")
        shown = [*differences.lines(diff.compare(HOME, read)), leastpolicy.text(read)]
        json.dumps(sarif.log(read))
        shown.append(intoto.statement(read).decode())
    except FumehoodError as refused:
        shown = [refused.message]
    assert [text for text in shown if render.inert(text) != text] == []
