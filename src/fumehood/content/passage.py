"""Content on its way towards a model, in the pieces that a reply shows: whole lines, and what stands around them.

A control looks at `before`, `text` and `after` as one, so that a credential which straddles a page, a window or a
context is found; only `text` is ever shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted

_NOTHING = Untrusted(b"", source="nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Some whole lines of one source. `text` is UTF-8, each line ended by a line feed and nothing else.

    `heading` stands above them inside the fence (the path of a hit). With `first_line` each line is numbered from
    there; the lines in `hits` (numbers likewise) are marked `:` and the others `-`, as grep does, where there are any.
    `columns` gives, for numbered lines, the column in characters, from 1, around which a line too long is clipped.
    """

    text: Untrusted
    before: Untrusted = _NOTHING
    after: Untrusted = _NOTHING
    heading: Untrusted | None = None
    first_line: int | None = None
    hits: frozenset[int] = frozenset()
    columns: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool found, before any control looked at it.

    `facts` is the structured half: whatever text stands in it, keys and values, is taken for untrusted. `notes` are
    words of ours for the text half, outside the fence: nothing of the workspace may stand in them.
    """

    passages: tuple[Passage, ...]
    facts: dict[str, JsonValue]
    notes: tuple[str, ...] = ()
