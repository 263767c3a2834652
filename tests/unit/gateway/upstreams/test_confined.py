"""How a command ended is said in words of ours."""

import pytest

from fumehood.gateway.upstreams import confined
from fumehood.sandbox.spec import End, Exit


def ended(end: End, *, status: int | None = None, number: int | None = None) -> Exit:
    return Exit(
        end=end,
        status=status,
        signal=number,
        wall_seconds=1.0,
        cpu_seconds=None,
        peak_memory_bytes=None,
        stop_seconds=0.0,
    )


@pytest.mark.parametrize(
    ("exited", "said"),
    [
        (ended(End.EXITED, status=7), "ended with 7"),
        (ended(End.SIGNALLED, number=9), "was ended by SIGKILL"),
        (ended(End.SIGNALLED, number=40), "was ended by signal 40"),
        (ended(End.STOPPED), "closed its output"),
        (ended(End.MEMORY), "was ended: memory"),
        (ended(End.DEADLINE), "was ended: deadline"),
    ],
)
def test_how_it_ended_is_said(exited: Exit, said: str) -> None:
    assert confined._how(exited) == said
