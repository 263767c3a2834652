"""code.service.remotetools: each call waits for its own answer, and for nobody who is gone."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from fumehood.code.job import Job
from fumehood.code.service import link
from fumehood.code.service.remotetools import RemoteTools
from fumehood.code.service.runnerend import Answered, RunnerEnd
from fumehood.core.errors import FailedError, NotFoundError

pytestmark = pytest.mark.threat("C5")


class Lab:
    """Tools whose calls go nowhere but into a list."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.out = asyncio.Event()
        end = RunnerEnd(lambda _: None)
        end.hear(link.write(link.JobMessage(token="t", job=Job(code="x"))))
        self.tools = RemoteTools(end, self.send)

    async def send(self, data: bytes) -> None:
        self.sent.append(data)
        self.out.set()

    async def asked(self, name: str = "a.b") -> "asyncio.Task[object]":
        """A call that is under way."""
        task: asyncio.Task[object] = asyncio.ensure_future(self.tools.run(name, {}))
        await self.out.wait()
        self.out.clear()
        return task


def held(test: Callable[[Lab], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(20):
            await test(Lab())

    asyncio.run(inside())


def test_answers_wake_those_that_they_are_for_in_any_order() -> None:
    async def test(lab: Lab) -> None:
        one, two = await lab.asked("a.one"), await lab.asked("a.two")
        lab.tools.answered(Answered(id=2, value="two"))
        assert await two == "two"
        lab.tools.answered(Answered(id=1, error=NotFoundError("one")))
        with pytest.raises(NotFoundError, match="one"):
            await one
        assert [json.loads(data)["args"][0] for data in lab.sent] == ["a.one", "a.two"]

    held(test)


def test_nobody_waits_for_a_backend_that_is_gone() -> None:
    async def test(lab: Lab) -> None:
        one = await lab.asked()
        lab.tools.gone()
        lab.tools.gone()
        with pytest.raises(FailedError, match="gone"):
            await one

    held(test)


def test_an_answer_for_a_call_that_was_given_up_wakes_nobody() -> None:
    async def test(lab: Lab) -> None:
        one = await lab.asked()
        one.cancel()
        await asyncio.wait([one])
        lab.tools.answered(Answered(id=1, value=1))
        lab.tools.answered(Answered(id=99, value=1))
        assert one.cancelled()

    held(test)


def test_a_call_that_cannot_be_sent_fails_and_leaves_nothing_unheard() -> None:
    async def test(lab: Lab) -> None:
        async def broken(data: bytes) -> None:
            del data
            lab.tools.gone()
            raise FailedError("not sent")

        lab.tools._send = broken
        with pytest.raises(FailedError, match="not sent"):
            await lab.tools.search("x", 1)
        assert lab.tools._waiting == {}

    held(test)


def test_arguments_that_are_no_json_fail_their_call() -> None:
    async def test(lab: Lab) -> None:
        with pytest.raises(FailedError, match="cannot be written"):
            await lab.tools.run("a.b", float("nan"))
        assert lab.sent == []

    held(test)
