"""Ask the person at the terminal whether a call may be made.

Invariants: only a terminal is asked, where what is written is seen and what is answered is typed; what was typed before
the question is thrown away; anything but the offered letters is a refusal. The words of a question are inert already
(`gateway.gate.approval`). A question that nobody waits for any more is given up.
"""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from typing import Final

from fumehood.cli import render
from fumehood.core.jsonio import JsonValue
from fumehood.wire.hosting import Question, Reply, Verdict

_ANSWER_BYTES: Final = 100  # of a line that is typed
_LETTERS: Final = ("n", "y", "a")  # for the offered answers, in their order: no, this call, identical ones, too
_WORDS: Final = ("no", "yes", "all identical ones of this program")


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(question: Question, descriptor: int = 0, say: Callable[[str], None] = render.words) -> Reply:
    """What the person says."""
    name, offered = _offered(question)
    for line in question.message.splitlines():
        say(line)
    choices = [f"{letter} = {word}" for letter, word, _ in zip(_LETTERS, _WORDS, offered, strict=False)]
    termios.tcflush(descriptor, termios.TCIFLUSH)
    say(f"Allow it? {', '.join(choices)}:")
    typed = await _typed(descriptor)
    if typed is None:
        return Reply(verdict=Verdict.CANCEL)
    letter = typed.strip().lower()
    chosen = _LETTERS.index(letter) if letter in _LETTERS[: len(offered)] else 0
    return Reply(verdict=Verdict.ACCEPT, content={name: offered[chosen]})


def _offered(question: Question) -> tuple[str, list[JsonValue]]:
    """The one member that is asked for, and the answers that there are."""
    members = question.schema.get("properties")
    if isinstance(members, dict) and len(members) == 1:
        [(name, one)] = members.items()
        if isinstance(one, dict) and isinstance(answers := one.get("enum"), list) and answers:
            return name, answers
    raise ValueError("a question that is no choice")


async def _typed(descriptor: int) -> str | None:
    """A line; None at the end of input. The terminal gives a line at once, when it is whole."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(descriptor, _ANSWER_BYTES))

    loop.add_reader(descriptor, read)
    try:
        data = await line
    finally:
        loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace") if data else None
