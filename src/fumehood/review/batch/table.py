"""The summary of a batch: one line for each request, as JSON and as Markdown. Pure.

Invariants: facts only; the same rows give the same bytes; every cell is one line that neither ends its cell nor makes
a link, an image or a tag of what a target chose.
"""

import re
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from fumehood.core import jsonio
from fumehood.core.jsonio import JsonValue
from fumehood.review.batch.facts import Facts, Named

NO_RESULT = "NO_RESULT"  # no state: no attempt came to an end
COLUMNS = (
    "target",
    "state",
    "protocol",
    "tools",
    "hosts",
    "programs",
    "files",
    "canaries",
    "behaviour",
    "seconds",
    "attempts",
)
_MARKUP = re.compile(r"([\\`*_{}\[\]<>!|~&@]|(?<=www)\.|(?<=:)/)", re.IGNORECASE)  # with what makes links by itself
_CELL_CHARACTERS = 400  # of twelve names; a page with a longer one is read by nobody


class Row(Struct, frozen=True, kw_only=True):
    """One request, and what its last complete attempt says; `facts` is null without one."""

    target: str
    digest: str
    attempts: int
    result: str | None = None  # relative to the folder of the batch
    facts: Facts | None = None
    words: str = ""  # the last words of an attempt that left no result

    @property
    def state(self) -> str:
        """The state of its result, or that it has none."""
        return self.facts.state if self.facts else NO_RESULT


class Summary(Struct, frozen=True, kw_only=True):
    """A batch: how many requests are in which state, and a row for each."""

    schema_version: int = 1
    requests: int = 0
    states: dict[str, int] = {}
    refused_lines: int = 0
    repeated_lines: int = 0
    weakened: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


def summary(rows: Iterable[Row], *, refused_lines: int = 0, repeated_lines: int = 0) -> Summary:
    """The summary of rows, in their order."""
    kept = tuple(rows)
    states = Counter(row.state for row in kept)
    return Summary(
        requests=len(kept),
        states=dict(sorted(states.items())),
        refused_lines=refused_lines,
        repeated_lines=repeated_lines,
        rows=kept,
    )


def to_value(made: Summary) -> JsonValue:
    """The summary as a JSON value."""
    value: JsonValue = msgspec.to_builtins(made)
    return value


def encode(made: Summary) -> bytes:
    """`summary.json`: ASCII, indented."""
    return msgspec.json.format(jsonio.dump(to_value(made)), indent=2) + b"\n"


def markdown(made: Summary) -> bytes:
    """`summary.md`: the counts, then the table."""
    counts = ", ".join(f"{state} {count}" for state, count in made.states.items()) or "none"
    lines = [f"{made.requests} requests: {counts}.", ""]
    if made.refused_lines:
        lines += [f"{made.refused_lines} lines of the list were refused and are not in this table.", ""]
    if made.weakened:
        lines += [f"Weakened: {', '.join(made.weakened)}.", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in made.rows]
    return ("\n".join(lines) + "\n").encode("utf-8")


def cells(row: Row) -> tuple[str, ...]:
    """One row of the Markdown table."""
    facts = row.facts
    if facts is None:
        return (cell(row.target), NO_RESULT, *("" for _ in COLUMNS[2:-1]), str(row.attempts))
    canaries = [f"read {_names(facts.canaries_read)}"] if facts.canaries_read.names else []
    canaries += [f"sent {_names(facts.canaries_sent)}"] if facts.canaries_sent.names else []
    tried = _names(facts.hosts) or _names(facts.names_asked)
    return (
        cell(row.target),
        cell(facts.state + (f" ({facts.error.partition(':')[0]})" if facts.error else "")),
        cell(" ".join(word for word in (facts.protocol, facts.server) if word)),
        "" if facts.tools is None else str(facts.tools),
        cell(tried),
        cell(_names(facts.programs)),
        cell(", ".join(f"{name} {count}" for name, count in facts.files.items())),
        cell("; ".join(canaries)),
        (facts.behaviour or "")[:12],
        f"{facts.seconds:.1f}",
        str(row.attempts),
    )


def cell(text: str) -> str:
    """Text as the content of one cell: on one line, cut, and without anything that Markdown or HTML acts on."""
    line = " ".join(text.split())
    cut = line if len(line) <= _CELL_CHARACTERS else line[:_CELL_CHARACTERS] + "…"
    return _MARKUP.sub(r"\\\1", cut).replace("\\&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")


def _names(listed: Named) -> str:
    return ", ".join(listed.names) + (f" and {listed.more} more" if listed.more else "")
