"""What stands for a connection where the protocol knows none: one value for each principal. Pure.

Invariants: two principals never share a value, and whoever comes again, forgotten or not, has an equal one; a value is
kept while it is used, and until PRINCIPALS others came after it; whoever is forgotten is told of, each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire.hosting import Sessionless


@dataclass(slots=True, eq=False)
class _Known:
    connection: Hashable
    used: int = 0


class Principals:
    """Those who were here lately."""

    def __init__(self, left: Callable[[Hashable], None]) -> None:
        """`left` is told of each value that is over."""
        self._left = left
        self._known: OrderedDict[str, _Known] = OrderedDict()

    @contextmanager
    def using(self, principal: str) -> Iterator[Hashable]:
        """The value of a principal, for the time of one request. Errors: `BusyError`."""
        known = self._known.get(principal) or self._begin(principal)
        self._known.move_to_end(principal)
        known.used += 1
        try:
            yield known.connection
        finally:
            known.used -= 1

    def close(self) -> None:
        """Everybody has left."""
        while self._known:
            _, known = self._known.popitem()
            self._left(known.connection)

    def _begin(self, principal: str) -> _Known:
        if len(self._known) >= limits.PRINCIPALS:
            idle = next((name for name, known in self._known.items() if not known.used), None)
            if idle is None:
                raise BusyError("too many callers at once", remedy="try again in a minute")
            self._left(self._known.pop(idle).connection)
        known = self._known[principal] = _Known(Sessionless(principal=principal))
        return known
