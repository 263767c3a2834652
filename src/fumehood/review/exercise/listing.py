"""One list of a server's, page by page, within bounds. Pure: pages in, cursors out, facts at the end.

Invariants: a list ends: after its last page, or at a bound on pages and items, or where a cursor comes twice; what came
until then is held, whatever came after it; no page can raise.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.observe.model import Value
from fumehood.review.exercise import definitions
from fumehood.review.exercise.definitions import Definition, What
from fumehood.review.show import show_untrusted
from fumehood.review.states import ReviewEndedError, State
from fumehood.wire import jsonrpc
from fumehood.wire.conversation import Answer, Ended, InputRequired, Refusal, Reply, TimedOut, Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """A sort of list: how it is asked for, where its members stand, and who offers it."""

    what: What
    method: str
    member: str
    capability: str


SORTS: Final = (
    Sort(what="tool", method="tools/list", member="tools", capability="tools"),
    Sort(what="prompt", method="prompts/list", member="prompts", capability="prompts"),
    Sort(what="resource", method="resources/list", member="resources", capability="resources"),
    Sort(
        what="resource_template",
        method="resources/templates/list",
        member="resourceTemplates",
        capability="resources",
    ),
)


class Listing:
    """One list while it is read, and afterwards."""

    def __init__(self, sort: Sort, *, offered: bool) -> None:
        """`offered`: whether the server says that it has such things; else nobody asks."""
        self.sort = sort
        self.offered = offered
        self.definitions: list[Definition] = []
        self.pages = 0
        self.complete = False
        self.why = "" if offered else "not offered"
        self.failure: ReviewEndedError | None = None  # how the review ends for it, after everything else
        self._cursors: set[bytes] = set()  # their digests: a hundred of any length would fill the memory

    @property
    def by_name(self) -> Mapping[str, Definition]:
        """The definitions that have a name; of two with one name the first."""
        found: dict[str, Definition] = {}
        for one in self.definitions:
            if one.name:
                found.setdefault(one.name, one)
        return found

    def take(self, reply: Reply) -> str | None:
        """Take the reply to one page; the cursor of the next one, or None when nothing more is asked."""
        match reply:
            case Answer(result=result):
                return self._page(result)
            case Refusal(code=code, message=message):
                self._refused(code, show_untrusted(message))
            case InputRequired():
                self.why = "input_required"
            case TimedOut():
                self._failed(State.TIMEOUT, "list_unanswered", f"{self.sort.method} was not answered in time")
            case Unreadable(problem=problem):
                self._failed(State.TARGET_FAILED, "bad_frame", f"what came for {self.sort.method}: {problem}")
            case Ended(why="stream_too_large"):
                self._failed(State.TARGET_FAILED, "stream_too_large", f"more frames than are read: {self.sort.method}")
            case Ended(why=why):
                words = "ended" if why == "exited" else "closed its input"
                self._failed(State.TARGET_FAILED, "exited", f"it {words} before it answered {self.sort.method}")
        return None

    def _page(self, result: JsonValue) -> str | None:
        found = result.get(self.sort.member) if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(found, list):
            self._failed(State.TARGET_FAILED, "list_shape", f"the answer to {self.sort.method} is no list")
            return None
        self.pages += 1
        room = limits.LISTED_ITEMS - len(self.definitions)
        self.definitions += [definitions.read(self.sort.what, value) for value in found[:room]]
        cursor = result.get("nextCursor")
        if len(found) > room:
            self.why = f"more than {limits.LISTED_ITEMS} items"
        elif cursor is None:
            self.complete = True
        elif not isinstance(cursor, str):
            self._failed(State.TARGET_FAILED, "list_shape", f"the cursor of {self.sort.method} is no string")
        elif (digest := hashlib.sha256(cursor.encode()).digest()) in self._cursors:
            self.why = "a cursor came twice"
        elif self.pages >= limits.LIST_PAGES:
            self.why = f"more than {limits.LIST_PAGES} pages"
        else:
            self._cursors.add(digest)
            return cursor
        return None

    def _refused(self, code: int, words: str) -> None:
        self.why = f"error {code}: {words}"
        if code != jsonrpc.METHOD_NOT_FOUND:
            message = f"{self.sort.method} was answered with error {code}: {words}"
            self.failure = ReviewEndedError(State.TARGET_FAILED, "error_reply", message)

    def _failed(self, state: State, code: str, message: str) -> None:
        self.why = message
        self.failure = ReviewEndedError(state, code, message)

    @property
    def detail(self) -> dict[str, Value]:
        """The fact about the whole list."""
        names = Counter(one.name for one in self.definitions if one.name)
        return {
            "what": self.sort.what,
            "offered": self.offered,
            "count": len(self.definitions) if self.offered else None,
            "sha256": definitions.digest_of([one.digest for one in self.definitions]) if self.offered else None,
            "pages": self.pages if self.offered else None,
            "complete": self.complete if self.offered else None,
            "why": self.why or None,
            "repeated_names": sum(count - 1 for count in names.values()) or None,
            "not_described": max(0, len(self.definitions) - limits.DEFINITIONS) or None,
        }

    def described(self) -> Iterator[dict[str, Value]]:
        """The facts about its definitions, the first of them."""
        for one in self.definitions[: limits.DEFINITIONS]:
            yield one.detail


def failure(lists: Mapping[str, Listing]) -> ReviewEndedError | None:
    """How the review ends for what one of its lists came to; None where each was answered."""
    return next((one.failure for one in lists.values() if one.failure is not None), None)
