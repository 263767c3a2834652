"""A person at a terminal is asked; what was typed before the question, or is no answer, allows nothing."""

import asyncio
import os
import pty
from collections.abc import Iterator
from typing import Any

import pytest

from fumehood.cli import approving
from fumehood.wire.hosting import Question, Reply, Verdict

PROGRAM: Any = {"type": "object", "properties": {"answer": {"enum": ["no", "this call", "all of them"]}}}
CLIENT: Any = {"type": "object", "properties": {"answer": {"enum": ["no", "this call"]}}}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The end of a person, and that of a program."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def asked(
    terminal: tuple[int, int], typed: bytes, schema: Any = PROGRAM, before: bytes = b""
) -> tuple[Reply, list[str]]:
    person, program = terminal
    said: list[str] = []
    if before:
        os.write(person, before)

    there = asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Allow it?"):
            there.set()

    async def one() -> Reply:
        loop = asyncio.get_running_loop()
        asking = asyncio.ensure_future(
            approving.ask(Question(message="It writes.\nAllow?", schema=schema), program, say)
        )
        await asyncio.wait_for(there.wait(), 20)
        loop.call_later(0, os.write, person, typed)
        async with asyncio.timeout(20):
            return await asking

    return asyncio.run(one()), said


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (b"y\n", "this call"),
        (b" Y \n", "this call"),
        (b"a\n", "all of them"),
        (b"n\n", "no"),
        (b"\n", "no"),
        (b"yes\n", "no"),
        (b"\xff\n", "no"),
    ],
)
def test_one_letter_is_an_answer_and_anything_else_is_no(terminal: tuple[int, int], typed: bytes, answer: str) -> None:
    reply, said = asked(terminal, typed)
    assert reply == Reply(verdict=Verdict.ACCEPT, content={"answer": answer})
    assert said == ["It writes.", "Allow?", "Allow it? n = no, y = yes, a = all identical ones of this program:"]


def test_what_is_not_offered_cannot_be_chosen(terminal: tuple[int, int]) -> None:
    reply, said = asked(terminal, b"a\n", CLIENT)
    assert reply.content == {"answer": "no"}
    assert said[-1] == "Allow it? n = no, y = yes:"


@pytest.mark.threat("G11")
def test_what_was_typed_before_the_question_is_no_answer(terminal: tuple[int, int]) -> None:
    reply, _ = asked(terminal, b"n\n", before=b"y\ny\ny\n")
    assert reply.content == {"answer": "no"}


def test_the_end_of_input_is_no_answer(terminal: tuple[int, int]) -> None:
    reply, _ = asked(terminal, b"\x04")
    assert reply == Reply(verdict=Verdict.CANCEL)


def test_a_question_that_is_no_choice_is_a_fault_of_ours(terminal: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no choice"):
        asyncio.run(approving.ask(Question(message="", schema={"properties": {"a": {"type": "string"}}}), terminal[1]))


def test_a_question_that_is_given_up_reads_no_more(terminal: tuple[int, int]) -> None:
    async def one() -> None:
        asking = asyncio.ensure_future(approving.ask(Question(message="", schema=CLIENT), terminal[1], lambda _: None))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not asyncio.get_running_loop().remove_reader(terminal[1])

    asyncio.run(one())


def test_where_nobody_sits_at_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, *, terminal: bool) -> None:
            self._terminal = terminal

        def isatty(self) -> bool:
            return self._terminal

    for read, written in [(True, True), (True, False), (False, True)]:
        monkeypatch.setattr(approving.sys, "stdin", Stream(terminal=read))  # type: ignore[attr-defined]  # of the module
        monkeypatch.setattr(approving.sys, "stderr", Stream(terminal=written))  # type: ignore[attr-defined]  # as above
        assert approving.at_terminal() is (read and written)
