"""What is known of a server's tools: whether its list has to be read (again), and what was decided of it. Pure.

Invariants: no tool is shown or called before the whole list of this moment was read and judged; a list that changes is
read again before the next call; what is not on the list is not called; the pages of one list are bounded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The definitions are those that were accepted, or are from now on."""

    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """The definitions are others than those that were accepted. The reason names the difference and the next step."""

    reason: str
    said: tuple[str, ...] = ()  # the whole difference, for the operator


Judgement: TypeAlias = Taken | Withheld
Judge: TypeAlias = Callable[[Sequence[JsonValue]], Judgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """There is no list."""

    reason: str


class Listing:
    """The list of one connection."""

    def __init__(self, judge: Judge) -> None:
        """Nothing is known."""
        self._judge = judge
        self._pages: list[JsonValue] = []
        self._cursors: set[str] = set()
        self._bytes = 0
        self._count = 0
        self.first: JsonObject = {}  # the first page, for what stands beside the tools
        self.tools: tuple[JsonValue, ...] = ()
        self.known = False  # whether the list of this moment was judged
        self.reading = False
        self._stale = False  # it changed while it was read
        self.outcome: Judgement | Failed = Failed(reason="its tools were not listed")

    def changed(self) -> None:
        """The server says that its tools are others now."""
        self.known = False
        self._stale = True

    def begin(self) -> None:
        """Read it from its first page."""
        self._pages, self._cursors, self._bytes, self._count = [], set(), 0, 0
        self.reading, self._stale, self.first = True, False, {}

    def page(self, result: JsonValue) -> str | None:
        """Take one page; the cursor of the next one, or None when the list is whole and judged, or is none."""
        found = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(found, list):
            self.fail("its list of tools is none")
            return None
        self._count += 1
        self._bytes += len(jsonio.line(result))
        if self._count == 1:
            self.first = {key: value for key, value in result.items() if key not in {"tools", "nextCursor"}}
        self._pages += found
        cursor = result.get("nextCursor")
        if cursor is None:
            self._whole()
            return None
        if not isinstance(cursor, str) or cursor in self._cursors:
            self.fail("its list of tools has no end")
            return None
        if self._count >= limits.GUARD_PAGES or self._bytes > limits.FRAME_BYTES:
            self.fail(f"its list of tools has more than {limits.GUARD_PAGES} pages or {limits.FRAME_BYTES} bytes")
            return None
        self._cursors.add(cursor)
        return cursor

    def fail(self, reason: str) -> None:
        """There is none now; the next call asks again."""
        self.reading, self.known, self.tools = False, False, ()
        self.outcome = Failed(reason=reason)

    def _whole(self) -> None:
        self.reading, self.known = False, not self._stale
        self.outcome = self._judge(self._pages)
        self.tools = tuple(self._pages) if isinstance(self.outcome, Taken) else ()
        self._pages = []


def accept_all(found: Sequence[JsonValue]) -> Judgement:
    """Take every list: where nothing is pinned."""
    del found
    return Taken()
