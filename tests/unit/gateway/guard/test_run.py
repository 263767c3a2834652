"""A server runs behind every wall or not at all, and its status is the guard's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fumehood.core.clock import SystemClock
from fumehood.gateway.guard import cell, run
from fumehood.gateway.guard.cell import WallError
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.guard.run import Session
from fumehood.gateway.guard.walls import Ready
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import End, Exit


def ended(end: End, *, status: int | None = None, signal: int | None = None) -> Exit:
    return Exit(
        end=end,
        status=status,
        signal=signal,
        wall_seconds=1.0,
        cpu_seconds=None,
        peak_memory_bytes=None,
        stop_seconds=0.0,
    )


@pytest.mark.parametrize(
    ("exited", "told", "status", "said"),
    [
        (ended(End.EXITED, status=7), None, 7, []),
        (ended(End.EXITED, status=0), 15, 0, []),
        (ended(End.SIGNALLED, signal=11), None, 139, []),
        (ended(End.STOPPED), None, 0, []),
        (ended(End.STOPPED), 15, 143, []),
        (ended(End.CANCELLED), 2, 130, []),
        (ended(End.MEMORY), None, 4, ["fumehood: the server was ended: memory"]),
        (ended(End.DEADLINE), None, 4, ["fumehood: the server was ended: deadline"]),
    ],
)
def test_the_status_says_how_it_ended(exited: Exit, told: int | None, status: int, said: list[str]) -> None:
    words: list[str] = []
    assert run._status(exited, told, words.append) == status
    assert words == said


@pytest.mark.threat("G2")
def test_without_a_wall_nothing_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(name="memory", state=WallState.UNAVAILABLE, why="no cgroup")

    class Running:
        containment = Containment(route="user", walls=(wall,))

    @contextlib.asynccontextmanager
    async def sandbox(*_: object) -> AsyncIterator[Any]:
        yield Running()

    class Taken:
        uid = 7

    monkeypatch.setattr(cell, "sandbox", sandbox)
    nothing: Any = None
    taken: Any = Taken()
    session = Session(
        ready=Ready(argv=("/usr/bin/true",), policy=GuardPolicy()),
        host=nothing,
        run=taken,
        client=nothing,
        traffic=nothing,
        audit=None,
        clock=SystemClock(),
        say=lambda _: None,
    )
    with pytest.raises(WallError, match=r"not run: memory \(no cgroup\)"):
        asyncio.run(run.guard(session))
