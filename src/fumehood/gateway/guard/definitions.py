"""What a server says of its tools, prompts and resources, made fit to be shown to a model. Pure.

Invariants: titles and descriptions, those inside of schemas included, are cut, redacted and without characters that
nobody sees; what was taken away is said; a tool whose name is none, or is there twice, is left out and said; lists are
bounded.

Not promised: that a description tells the truth, or that names of members and values of an enumeration, which a call
needs as they are, say nothing to a model.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.content import control
from fumehood.content.control import Controls
from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.gateway.guard import results
from fumehood.gateway.guard.results import Marks
from fumehood.gateway.guard.seen import inert, visible

_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")  # MCP 2025-11-25, tools: names
_WORDS: Final = frozenset({"title", "description", "$comment"})
_LISTS: Final = frozenset({"prompts", "resources", "resourceTemplates"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Definitions as they are passed on, and what is to be said of them."""

    items: list[JsonObject]
    said: tuple[str, ...] = ()


def tools(found: Sequence[JsonValue], controls: Controls) -> Shown:
    """The tools of a server. Each is shown by what may be shown of it."""
    names = Counter(str(one.get("name")) for one in found if isinstance(one, dict))
    said, items = [], []
    for one in found[: limits.GUARD_ITEMS]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
            said.append("a tool without a proper name is left out")
        elif names[name] > 1:
            said.append(f"the tool {name} is there {names[name]} times: all are left out")
        else:
            shown, notes = _item(one, controls)
            items.append(shown)
            said += [f"the tool {name}: {note}" for note in notes]
    if len(found) > limits.GUARD_ITEMS:
        said.append(f"of {len(found)} tools the first {limits.GUARD_ITEMS} are shown")
    return Shown(items=items, said=tuple(dict.fromkeys(said)))


def listed(result: JsonObject, controls: Controls) -> JsonObject:
    """A result that lists prompts, resources or their templates."""
    made: JsonObject = {}
    for key, value in result.items():
        if key in _LISTS and isinstance(value, list):
            made[key] = [_entry(one, controls) for one in value[: limits.GUARD_ITEMS] if isinstance(one, dict)]
        elif key in results.OPAQUE and isinstance(value, str):
            made[key] = value
        elif key != "_meta":
            made |= results.clean({key: inert(value)}, controls, Marks())
    kept = results.kept(result, controls)
    return {**made, **kept}


def _entry(item: JsonObject, controls: Controls) -> JsonObject:
    """A prompt, a resource or a template: every word of it, its name too, is for a person."""
    return _item({key: one if key == "_meta" else inert(one) for key, one in item.items()}, controls)[0]


def _item(item: JsonObject, controls: Controls) -> tuple[JsonObject, list[str]]:
    """One definition, and what was done to it."""
    walk = _Walk()
    seen = walk.seen({key: value for key, value in item.items() if key != "_meta"})
    marks = Marks()
    shown = results.clean(seen, controls, marks) if isinstance(seen, dict) else {}
    notes = []
    if walk.removed:
        notes.append(f"{walk.removed} characters that nobody sees were taken out")
    if walk.unseen:
        notes.append(f"{walk.unseen} names or values hold characters that nobody sees")
    if marks.redacted:
        notes.append(f"{marks.redacted} credentials were replaced")
    level = _level(walk.words, controls)
    if level in {"medium", "high"}:
        notes.append(f"its description is worded like instructions ({level})")
    return {**shown, **results.kept(item, controls)}, notes


class _Walk:
    """Takes out of descriptions what nobody sees, and counts it elsewhere."""

    def __init__(self) -> None:
        self.removed = 0
        self.unseen = 0
        self.words: list[str] = []

    def seen(self, value: JsonValue, key: str = "") -> JsonValue:
        """The same structure; depth is bounded by the parser."""
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, dict):
            self.unseen += sum(1 for name in value if visible(name, len(name)).removed)
            return {name: self.seen(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.seen(one) for one in value]
        return value

    def _text(self, text: str, key: str) -> str:
        if key not in _WORDS:
            self.unseen += 1 if visible(text, len(text)).removed else 0
            return text
        most = limits.GUARD_TITLE_CHARACTERS if key == "title" else limits.DESCRIPTION_CHARACTERS
        shown = visible(text, most)
        self.removed += shown.removed
        self.words.append(shown.text)
        return shown.text


def _level(words: Sequence[str], controls: Controls) -> str:
    """How much the descriptions of one tool look like instructions to a model."""
    if not words or not controls.scan:
        return "none"
    data = "\n".join([*words, ""]).encode("utf-8", "surrogatepass")
    passage = Passage(text=Untrusted(data, source="description"))
    report = control.present(Answer(passages=(passage,), facts={}), controls).report
    return str(report["level"])
