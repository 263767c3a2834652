"""A loop whose time stands still while something can be done, and jumps to the next timer when nothing can.

So a minute of back-off takes no time and is exactly a minute. Not for code that waits for threads or other processes:
the loop does not know that they are at work, and would jump.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Made = TypeVar("_Made")


class _Selector(selectors.SelectSelector):
    """Waits for nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing can happen any more")
        if not ready and timeout:
            self.at += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is what its timers say."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.at


def run(work: Coroutine[Any, Any, _Made]) -> _Made:
    """What a coroutine gives, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
