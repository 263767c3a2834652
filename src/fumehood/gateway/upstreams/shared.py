"""What a keeper is given: the server that it keeps, and what all keepers share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fumehood.content.control import Controls
from fumehood.gateway.upstreams.accepted import Pins, Who
from fumehood.gateway.upstreams.breaker import RESTARTS, Pace
from fumehood.gateway.upstreams.model import Dial

_Made = TypeVar("_Made")


class Work(Protocol):
    """Does what takes a moment, away from the loop."""

    async def __call__(self, do: Callable[[], _Made], /) -> _Made:
        """What it gives or raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """One server of the topology: who it is, and how it is started or reached."""

    who: Who
    dial: Dial


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What every keeper is given. `work` is `asyncio.to_thread`, `chance` is from 0 to 1."""

    pins: Pins
    controls: Controls
    say: Callable[[str], None]  # a line of words for the operator; it waits for nobody
    chance: Callable[[], float]
    work: Work
    restarts: Pace = RESTARTS
