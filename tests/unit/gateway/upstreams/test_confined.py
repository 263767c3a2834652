"""How a command ended is said in words of ours, and its last words stay its own."""

import pytest

from fumehood.core import limits
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


def test_its_last_line_is_kept_cut_and_everything_is_handed_on() -> None:
    said: list[str] = []
    last = confined._Last("one", said.append)
    assert last.words == ""
    lines = ["one| first", "one| " + "x" * 1000, "one| ", "fumehood: 3 lines of one are left out"]
    for line in lines:
        last.say(line)
    assert said == lines
    assert last.words == "; it said last: " + "x" * limits.UPSTREAM_WORDS_CHARACTERS
