"""How a runner stands: who may begin a run, and what `/healthz` says. Pure.

Invariants: a token is judged before anything else is told, busy or draining included; at most `runs` runs at once; what
health says holds numbers and one of a few words, nothing of a program or of a token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.code.job import JobResult, State
from fumehood.code.service.link import BusyMessage, RefusedMessage
from fumehood.core import jsonio, limits

Known: TypeAlias = Callable[[str], bool]  # whether a token is one of ours, in constant time

_NO_TOKEN: Final = RefusedMessage(code="bad_token", message="the token is none of this runner's")
_DRAINING: Final = RefusedMessage(code="draining", message="the runner is ending and takes no more programs")
_HEALTHY, _UNHEALTHY = 200, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer of `/healthz`."""

    status: int  # of HTTP
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """How many children wait for a program, and whether the last start of one failed."""

    warm: int = 0
    failing: bool = False


class Standing:
    """The books of one runner."""

    def __init__(self, known: Known, *, runs: int, stock: Callable[[], Children] = Children) -> None:
        """`runs` at once; `stock` says how it is with the children that wait for a program."""
        self._known = known
        self._runs = runs
        self._stock = stock
        self._running = 0
        self._draining = False
        self._childless = False

    @property
    def running(self) -> int:
        """How many programs run."""
        return self._running

    def admit(self, token: str) -> BusyMessage | RefusedMessage | None:
        """Why no run may begin with this token now; None when one may."""
        if not self._known(token):
            return _NO_TOKEN
        if self._draining:
            return _DRAINING
        if self._running >= self._runs:
            return BusyMessage(retry_after_seconds=limits.CODE_BUSY_SECONDS)
        return None

    def begin(self) -> None:
        """A run began."""
        self._running += 1

    def end(self, result: JobResult | None) -> None:
        """A run ended; None where nothing came of it that says how the runner is."""
        self._running -= 1
        if result is not None and result.state is not State.CANCELLED:
            self._childless = result.state is State.RUNNER_UNAVAILABLE

    def drain(self) -> None:
        """Let nobody begin any more."""
        self._draining = True

    def health(self) -> Health:
        """200 while a program could be run; 503 while draining, and while no child can be started."""
        children = self._stock()
        words = "draining" if self._draining else "no_child" if self._childless or children.failing else "ok"
        told = {"status": words, "running": self._running, "warm": children.warm, "runs": self._runs}
        return Health(status=_HEALTHY if words == "ok" else _UNHEALTHY, body=jsonio.dump(told))
