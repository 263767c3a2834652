"""Ends a command that is told to end, by Ctrl-C or by a signal, the same way: everything is taken away, exit 130.

SIGTERM is what a job manager sends, SIGHUP what a closed terminal sends. One that whoever started the command wanted
ignored (`nohup`) stays ignored.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

_TOLD = (signal.SIGTERM, signal.SIGHUP)
_Answer = TypeVar("_Answer")


def interruptible() -> contextlib.AbstractContextManager[None]:
    """Let a signal to end raise `KeyboardInterrupt`, as Ctrl-C does."""
    return _handled_by(_interrupt)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Pass over signals to end: for a cleaning up whose time is bounded, and that would leave something behind."""
    numbers = (signal.SIGINT, *_TOLD)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def tether() -> None:
    """Be told to end when standard input closes: whoever holds its other end has died, or lets go of this command."""
    main = threading.main_thread().ident or 0

    def follow() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        signal.pthread_kill(main, signal.SIGTERM)  # to that thread: a wait of its loop has to end

    threading.Thread(target=follow, name="tether", daemon=True).start()


def run(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run it in a loop of its own; a signal to end cancels it, and is a `KeyboardInterrupt` once it has cleaned up."""
    try:
        return asyncio.run(_cancelled_when_told(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _cancelled_when_told(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)

    def cancel(number: int, frame: FrameType | None) -> None:
        del number, frame
        loop.call_soon_threadsafe(_cancel_once, task)  # wakes the loop, which a handler alone does not

    with _handled_by(cancel):
        return await task


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _TOLD}
    heeded = [number for number in _TOLD if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])


def _cancel_once(task: "asyncio.Task[Any]") -> None:
    """A second signal must not disturb the cleaning up after the first."""
    if not task.cancelling():
        task.cancel()


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
