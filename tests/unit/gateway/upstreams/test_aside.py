"""Work in a thread with a loop of its own is answered, fails and is cancelled as if it ran here."""

import asyncio
import threading

import pytest

from fumehood.gateway.upstreams.aside import aside


def test_what_it_gives_comes_back_from_another_thread() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert asyncio.run(aside(work)) != threading.get_ident()


def test_what_it_raises_is_raised_here() -> None:
    async def work() -> None:
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        asyncio.run(aside(work))


def test_who_is_cancelled_cancels_it_and_waits_until_it_has_cleaned_up() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    async def leave() -> None:
        task = asyncio.create_task(aside(work))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()

    asyncio.run(leave())


def test_what_is_cancelled_before_it_began_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[int] = []
    gate = threading.Event()
    real = asyncio.to_thread

    async def late(work: object) -> object:
        def wait() -> object:
            gate.wait(60)
            return work()  # type: ignore[operator]  # as `asyncio.to_thread` has it

        return await real(wait)

    async def work() -> None:
        did.append(1)

    async def leave() -> None:
        task = asyncio.create_task(aside(work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        asyncio.get_running_loop().call_soon(gate.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(asyncio, "to_thread", late)
    asyncio.run(leave())
    assert did == []
