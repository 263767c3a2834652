"""A child that was started early and waits: what it may use counts from the moment at which it is given its work."""

from typing import Any

import pytest

from fumehood.sandbox.spec import End
from fumehood.sandbox.supervise import Running

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
Lab = Any
WAITS = "print('ready', flush=True); sys.stdin.readline(); print('done', flush=True)"
BURNS = "began = time.process_time()\nwhile time.process_time() - began < 0.8: pass\n"
STAYS = "print('ready', flush=True)\nwhile True: signal.pause()\n"
WAITING: dict[str, Any] = {"wall_seconds": None, "stdout_bytes": None}


async def ready(running: Running) -> None:
    assert await running.read() == b"ready\n"


async def to_the_end(running: Running) -> bytes:
    said = b""
    while data := await running.read():
        said += data
    await running.wait()
    return said


def test_one_that_waited_longer_than_its_time_still_has_all_of_it(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await ready(running)
        running.arm(wall_seconds=1.4, cpu_seconds=1.0)
        await running.write(b"go\n")
        assert await to_the_end(running) == b"done\n"

    outcome = lab.run("time.sleep(1.5)\n" + WAITS, act=act, **WAITING)
    assert outcome.exit.end is End.EXITED
    assert outcome.exit.wall_seconds < 1.4


def test_the_time_of_one_that_was_armed_ends(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await ready(running)
        running.arm(wall_seconds=0.2, cpu_seconds=1.0)
        await running.wait()

    outcome = lab.run(STAYS, act=act, **WAITING)
    assert outcome.exit.end is End.DEADLINE
    assert outcome.exit.wall_seconds >= 0.2


def test_what_was_computed_while_it_waited_is_not_charged(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await ready(running)
        running.arm(wall_seconds=30.0, cpu_seconds=0.6)
        await running.write(b"go\n")
        assert await to_the_end(running) == b"done\n"

    outcome = lab.run(BURNS + WAITS, act=act, **WAITING)
    assert outcome.exit.end is End.EXITED
    assert (outcome.exit.cpu_seconds or 0.0) < 0.6


def test_what_is_computed_afterwards_is_charged(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await ready(running)
        running.arm(wall_seconds=30.0, cpu_seconds=0.3)
        await running.write(b"go\n")
        await running.wait()

    program = "print('ready', flush=True); sys.stdin.readline()\nwhile True: pass\n"
    outcome = lab.run(program, act=act, **WAITING)
    assert outcome.exit.end is End.CPU
    assert outcome.exit.cpu_seconds >= 0.3


def test_one_that_computes_while_it_should_wait_is_ended(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await running.wait()

    outcome = lab.run("while True: pass", act=act, cpu_seconds=0.2, **WAITING)
    assert outcome.exit.end is End.CPU


def test_one_that_floods_stderr_while_it_should_wait_is_ended(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await running.wait()
        running.arm(wall_seconds=30.0, cpu_seconds=1.0)  # too late: nothing is counted any more

    outcome = lab.run("while True: os.write(2, b'x' * 4096)", act=act, stderr_bytes=10_000, stderr_ends=True, **WAITING)
    assert outcome.exit.end is End.OUTPUT


def test_one_that_spoke_or_went_is_not_quiet(lab: Lab) -> None:
    async def act(running: Running) -> None:
        await ready(running)
        assert running.is_quiet()
        await running.write(b"go\n")
        await running.wait()
        assert not running.is_quiet()
        assert await running.read() == b"done\n"
        assert not running.is_quiet()

    assert lab.run(WAITS, act=act, **WAITING).exit.end is End.EXITED
