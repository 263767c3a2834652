"""Who sent the request that is answered here, and whether this one still waits.

The guard of the HTTP listener sets `current` in the context of each request's task; whatever is started from there
inherits it, and nothing else does: that is how two clients at once are kept apart.
"""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from fumehood.wire.published import Caller


@dataclass(slots=True, kw_only=True, eq=False)
class Presence:
    """One request's sender. `leave()` may come from any thread, before or after `follow()`."""

    caller: Caller
    left: bool = False
    _wanted: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, cancel: Callable[[], None]) -> None:
        """Have `cancel` called once nobody waits for the answer any more; at once where that is so already."""
        with self._lock:
            if not self.left:
                self._wanted.append(cancel)
                return
        cancel()

    def leave(self) -> None:
        """Say that nobody waits any more; a second time it does nothing."""
        with self._lock:
            self.left = True
            wanted, self._wanted = self._wanted, []
        for cancel in wanted:
            cancel()


current: ContextVar[Presence | None] = ContextVar("fumehood_presence", default=None)
