"""However a sandbox ends, nothing of it is left."""

import asyncio
import dataclasses
import os
import select
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.limits import MIB
from fumehood.sandbox import launch, lineage, runs
from fumehood.sandbox.spec import Bind, Bounds, End, Route, TraceMode
from fumehood.sandbox.start import RouteError, SandboxStartError
from fumehood.sandbox.supervise import Running, StartTimeoutError, Wiring, sandbox

pytestmark = pytest.mark.sandbox
Lab = Any
# A child that leaves its parent, its session and every ordinary signal behind.
DETACHED = """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print('ready', flush=True)
            while True: signal.pause()
        os._exit(0)
"""
STAY = DETACHED + "while True: signal.pause()\n"
EVERY_TRACE = pytest.mark.parametrize("trace", [None, TraceMode.NETWORK, TraceMode.PLAIN])


async def held(running: Running) -> list[int]:
    """Pidfds of every process of a sandbox once its detached children are there."""
    seen = b""
    while seen.count(b"ready") < 3:
        seen += await running.read()
    return [os.pidfd_open(pid) for pid in lineage.tree(running._chain.process.pid)]


def all_gone(pidfds: list[int]) -> bool:
    """Whether every one of these processes has ended, closing what we hold of them."""
    try:
        return all(select.select([descriptor], [], [], 10)[0] for descriptor in pidfds)
    finally:
        for descriptor in pidfds:
            os.close(descriptor)


@pytest.mark.threat("R5")
@EVERY_TRACE
def test_the_end_takes_detached_children_along(lab: Lab, trace: TraceMode | None) -> None:
    pidfds: list[int] = []

    async def act(running: Running) -> None:
        pidfds.extend(await held(running))

    outcome = lab.run(STAY, act=act, trace=trace, stdout_bytes=None)
    assert outcome.exit.end is End.STOPPED
    assert len(pidfds) >= 6
    assert all_gone(pidfds)


@pytest.mark.threat("R5")
@EVERY_TRACE
def test_a_deadline_ends_a_child_that_ignores_every_signal(lab: Lab, trace: TraceMode | None) -> None:
    outcome = lab.run(STAY, wall_seconds=0.5, trace=trace)
    assert outcome.exit.end is End.DEADLINE
    assert outcome.exit.status is None


@pytest.mark.threat("R5")
def test_children_left_behind_end_with_the_first_process(lab: Lab) -> None:
    program = DETACHED + "import select; time.sleep(0.2); open('/tmp/late', 'w').close() if 0 else None\nsys.exit(5)"
    outcome = lab.run(program)
    assert (outcome.exit.end, outcome.exit.status) == (End.EXITED, 5)


LATE = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.3); open('/tmp/late', 'w').close()
    os._exit(0)
sys.exit(6)
"""


@EVERY_TRACE
def test_lingering_lets_children_left_behind_act_and_keeps_the_status(lab: Lab, trace: TraceMode | None) -> None:
    lingered = lab.run(LATE, linger_seconds=20.0, trace=trace)
    assert (lingered.exit.end, lingered.exit.status) == (End.EXITED, 6)
    assert "tmp/late" in lingered.upper
    assert lingered.exit.wall_seconds < 20.0  # nobody lived any longer
    assert "tmp/late" not in lab.run(LATE, trace=trace).upper


@pytest.mark.threat("R5")
@EVERY_TRACE
def test_lingering_has_an_end(lab: Lab, trace: TraceMode | None) -> None:
    outcome = lab.run(DETACHED + "sys.exit(7)", linger_seconds=0.3, trace=trace)
    assert (outcome.exit.end, outcome.exit.status) == (End.EXITED, 7)


def test_lingering_keeps_the_deadline(lab: Lab) -> None:
    outcome = lab.run(DETACHED + "sys.exit(7)", linger_seconds=30.0, wall_seconds=0.6)
    assert outcome.exit.end is End.DEADLINE


def test_a_signal_is_told(lab: Lab) -> None:
    outcome = lab.run("os.kill(os.getpid(), signal.SIGSEGV)")
    assert (outcome.exit.end, outcome.exit.signal, outcome.exit.status) == (End.SIGNALLED, 11, None)


@pytest.mark.threat("R6")
def test_a_flood_on_both_streams_is_cut_counted_and_costs_little_memory(lab: Lab) -> None:
    program = """
if os.fork() == 0:
    for _ in range(1024): os.write(2, b'e' * 65536)
    os._exit(0)
for _ in range(1024): os.write(1, b'o' * 65536)
os.wait()
"""
    before = int(Path("/proc/self/statm").read_text().split()[1])
    outcome = lab.run(program, stdout_bytes=100_000, stderr_bytes=50_000)
    after = int(Path("/proc/self/statm").read_text().split()[1])
    assert (after - before) * 4096 < 16 * MIB
    assert outcome.stdout.data == b"o" * 100_000
    assert outcome.stderr.data == b"e" * 50_000
    assert outcome.stdout.total_bytes == outcome.stderr.total_bytes == 64 * MIB
    assert outcome.stdout.dropped_bytes == 64 * MIB - 100_000


def test_a_caller_reads_and_writes_as_it_likes(lab: Lab) -> None:
    got = bytearray()

    async def act(running: Running) -> None:
        await running.write(b"one\n")
        got.extend(await running.read())
        await running.write(b"x" * 300_000)
        running.close_stdin()
        while chunk := await running.read():
            got.extend(chunk)
        await running.wait()

    program = "line = sys.stdin.readline(); print(line, end='', flush=True); print(len(sys.stdin.read()))"
    outcome = lab.run(program, act=act, stdout_bytes=None)
    assert bytes(got) == b"one\n300000\n"
    assert outcome.exit.end is End.EXITED


def test_writing_to_a_child_that_is_gone_or_never_reads_ends(lab: Lab) -> None:
    async def act(running: Running) -> None:
        with pytest.raises(BrokenPipeError):
            await running.write(b"x" * 10_000_000)
        await running.wait()

    assert lab.run("sys.exit(0)", act=act).exit.end is End.EXITED
    assert lab.run("signal.pause()", act=act, wall_seconds=0.5).exit.end is End.DEADLINE


def test_a_captured_stdout_is_not_read_twice(lab: Lab) -> None:
    async def act(running: Running) -> None:
        with pytest.raises(ValueError, match="captured"):
            await running.read()

    assert lab.run("signal.pause()", act=act).exit.end is End.STOPPED


@pytest.mark.threat("R5")
def test_cancelling_ends_everything(lab: Lab) -> None:
    pidfds: list[int] = []
    ends: list[End] = []

    async def go() -> None:
        async def act(running: Running) -> None:
            pidfds.extend(await held(running))
            try:
                await asyncio.Event().wait()
            finally:
                ends.append((await running.end(End.CANCELLED)).end)

        task = asyncio.create_task(lab.experiment(STAY_HERE, act=act, stdout_bytes=None))
        while len(pidfds) < 6 and not task.done():  # noqa: ASYNC110  # the test's own list
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert ends == [End.CANCELLED]
    assert all_gone(pidfds)


STAY_HERE = "import os, signal\n" + STAY


def test_an_error_of_the_caller_ends_the_child_and_comes_through(lab: Lab) -> None:
    pidfds: list[int] = []

    async def act(running: Running) -> None:
        pidfds.extend(await held(running))
        raise LookupError("the caller's")

    with pytest.raises(LookupError):
        lab.run(STAY, act=act, stdout_bytes=None)
    assert all_gone(pidfds)


def test_a_sensor_that_fails_ends_the_child_and_is_told(lab: Lab) -> None:
    def broken(_: bytes) -> None:
        raise ArithmeticError("the sensor's")

    async def go() -> None:
        with runs.open_run(lab.host) as run:
            spec = lab.spec(run, "import signal; signal.pause()", trace=TraceMode.PLAIN)
            async with sandbox(
                spec, lab.host, run, Bounds(wall_seconds=30), Wiring(trace=broken), route=lab.route
            ) as running:
                await running.wait()

    with pytest.raises(ArithmeticError):
        asyncio.run(go())


def test_a_start_that_fails_says_why_in_bubblewraps_words(lab: Lab) -> None:
    bind = Bind(source=Path("/nowhere/at/all"), target="/opt/thing")
    with pytest.raises(SandboxStartError, match="/nowhere/at/all"):
        lab.run("pass", binds=(bind,))


def test_a_route_that_this_host_has_not_is_refused(lab: Lab) -> None:
    other = Route.USER if lab.route is not Route.USER else Route.ROOT

    async def go() -> None:
        with runs.open_run(lab.host) as run:
            async with sandbox(lab.spec(run, ""), lab.host, run, Bounds(wall_seconds=1), Wiring(), route=other):
                pass

    with pytest.raises(RouteError, match="doctor"):
        asyncio.run(go())


def test_use_is_measured_for_the_whole_tree(lab: Lab) -> None:
    if "cpuacct" not in lab.host.cgroups.roots and "unified" not in lab.host.cgroups.roots:
        pytest.skip("no cgroup measures processor time here")
    program = """
if os.fork() == 0:
    while time.process_time() < 0.4: pass
    os._exit(0)
os.wait()
"""
    used = lab.run(program).exit
    assert used.cpu_seconds is not None
    assert used.cpu_seconds >= 0.35


HARNESS = """
import asyncio, sys
sys.path[:0] = {path!r}
from pathlib import Path
import pytest
import importlib.util
spec = importlib.util.spec_from_file_location("lab", {conftest!r})
module = importlib.util.module_from_spec(spec); sys.modules["lab"] = module; spec.loader.exec_module(module)
from fumehood.sandbox import lineage, runs
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.spec import Route, TraceMode
host = probe.probe_host({{}}, quick=True, run_root=Path({root!r}))
lab = module.Lab(host=host, route=Route({route!r}))
async def act(running):
    seen = b""
    while seen.count(b"ready") < 3: seen += await running.read()
    pids = [p for p in lineage.tree(running._chain.process.pid)]
    print(*pids, flush=True)
    await asyncio.Event().wait()
trace = TraceMode({trace!r}) if {trace!r} else None
lab.run({program!r}, act=act, trace=trace, stdout_bytes=None, wall_seconds=60.0, linger_seconds={linger!r})
"""


@pytest.mark.threat("R5")
@pytest.mark.parametrize(
    ("number", "trace", "linger"),
    [
        (signal.SIGKILL, "", 0.0),
        (signal.SIGKILL, "", 5.0),
        (signal.SIGKILL, "plain", 0.0),
        (signal.SIGKILL, "fast", 5.0),
        (signal.SIGTERM, "plain", 0.0),
        (signal.SIGINT, "plain", 0.0),
        (signal.SIGINT, "", 5.0),
    ],
)
def test_a_harness_that_is_killed_leaves_nothing(lab: Lab, number: int, trace: str, linger: float) -> None:
    root = lab.host.run_root
    program = HARNESS.format(
        path=[p for p in sys.path if p],
        conftest=str(Path(__file__).parent / "conftest.py"),
        root=str(root),
        route=lab.route.value,
        trace=trace,
        program=STAY,
        linger=linger,
    )
    streams = launch.Streams(stdout=launch.PIPE)
    process = launch.spawn([sys.executable, "-c", textwrap.dedent(program)], streams=streams, environment={"HOME": "/"})
    try:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) >= 6
        pidfds = [os.pidfd_open(pid) for pid in pids]
        helpers = [os.pidfd_open(pid) for pid in lineage.tree(process.pid) if pid not in {process.pid, *pids}]
        names = [path.name for path in root.glob("run-*")]
        assert len(names) == 1
        process.signal(number)
        assert all_gone(pidfds)
        assert all_gone([os.dup(process.pidfd)])
        assert all_gone(helpers)  # the janitor is one of them: it ends when it has cleaned up
    finally:
        process.close()
    assert [path.name for path in root.iterdir() if path.name != "slots"] == []
    for place in lab.host.cgroups.roots.values():
        assert list(place.glob(f"{names[0]}*")) == []


@pytest.mark.threat("R5")
def test_what_harness_and_janitor_left_is_swept_at_the_next_start(lab: Lab) -> None:
    root = lab.host.run_root
    left = root / "run-left"
    (left / "layer" / "upper" / "deep").mkdir(parents=True)
    (left / "layer" / "upper" / "deep").chmod(0)
    cgroups = [place / "run-left-1" for place in lab.host.cgroups.roots.values()]
    for place in cgroups:
        place.mkdir()
    with runs.open_run(lab.host) as run:
        assert runs.sweep(lab.host) == 1
        assert run.path.exists()  # a run that is locked is not swept
    assert not left.exists()
    assert not any(place.exists() for place in cgroups)


def test_a_start_that_takes_too_long_is_a_matter_of_time_and_leaves_nothing(lab: Lab) -> None:
    stuck = lab.host.run_root / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o755)
    tools = lab.host.tools | {"bwrap": dataclasses.replace(lab.host.tools["bwrap"], path=stuck)}
    slow = dataclasses.replace(lab, host=dataclasses.replace(lab.host, tools=tools))
    before = set(lineage.tree(os.getpid()))
    try:
        with pytest.raises(StartTimeoutError, match=r"did not start within 0\.1 s"):
            slow.run("pass", start_seconds=0.1)
    finally:
        stuck.unlink()
    assert set(lineage.tree(os.getpid())) <= before


def test_a_run_has_its_helper_ready_once_and_ends_it(host: Any) -> None:
    with runs.open_run(host) as run:
        taken = run.take_helper()
        assert taken is not None
        assert run.take_helper() is None
        taken.close()
        run.prepare_helper()
        run.prepare_helper()  # one that waits is enough
        again = run.take_helper()
        assert again is not None
        pid = again._process.pid
        again.close()
        assert not Path(f"/proc/{pid}").exists()
        run.prepare_helper()
        assert run._helper is not None
        waiting = run._helper._process.pid
    assert not Path(f"/proc/{waiting}").exists()
