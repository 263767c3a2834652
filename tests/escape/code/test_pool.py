"""Programs in children that were started before them: as contained as any, each for one run, and nothing is left."""

import asyncio
import contextlib
import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.code import conversation
from fumehood.code.child import deno
from fumehood.code.job import Job, JobLimits, JobResult, State
from fumehood.code.pool import Pool
from fumehood.code.run import Ground, run_job
from fumehood.core import limits
from fumehood.core.errors import BusyError, HarnessError
from fumehood.core.limits import CODE_MEMORY_BYTES, MIB
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.spec import SandboxSpec

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
Attempt = Any
Canary = Any
Tools = Any
STAYS = "await amcp.run('x'); await new Promise(() => {})"
READY = b"""say('{"type":"ready"}');"""
# One of each way to get out, to forge and to take too much: the walls are those of a child that was not waiting.
TRIED = (
    "deno-read",
    "fetch",
    "imp-text",
    "node-getBuiltin",
    "worker-file",
    *("forge-result", "forge-call", "stdout-forge"),
)


class Held:
    """A backend whose tool says that it was called, and answers when it is let."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.answer = asyncio.Event()

    async def search(self, query: str, limit: int) -> Any:
        raise NotImplementedError(query, limit)

    async def describe(self, names: Any) -> Any:
        raise NotImplementedError(names)

    async def run(self, name: str, arguments: Any) -> Any:
        self.called.set()
        await self.answer.wait()
        return name, arguments


def pooled(ground: Ground, act: Callable[[Pool], Awaitable[Any]], **counts: int) -> Any:
    """What `act` gives with a pool of this ground; nothing of it is left."""

    async def one() -> Any:
        async with asyncio.timeout(120):
            async with Pool(ground, **counts) as pool:
                return await act(pool)

    given = asyncio.run(one())
    assert left(ground) == []
    return given


def left(ground: Ground) -> list[str]:
    """What of a pool is still there: folders, cgroups, and processes below us."""
    groups = [path.name for root in ground.host.cgroups.roots.values() for path in root.glob("run-*")]
    ours = {path.name for path in ground.host.run_root.glob("run-*")}
    processes = [f"process {pid}" for pid in lineage.children(os.getpid())]
    return [*processes, *ours, *(name for name in groups if name.rsplit("-", 2)[0] in ours)]


async def until(holds: Callable[[], object]) -> None:
    """Let others run until something holds; the pool's own deadline bounds it."""
    while not holds():  # noqa: ASYNC110 - a pool has no event for what a test waits for
        await asyncio.sleep(0.005)


async def ready(pool: Pool, warm: int) -> None:
    await until(lambda: pool.state.warm == warm and not pool.state.starting)


def children_of(pool: Pool) -> list[int]:
    """The outermost process of each child that waits."""
    return [child._running._chain.process.pid for child in pool._idle]


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> list[SandboxSpec]:
    """What each child that is started in advance is."""
    made: list[SandboxSpec] = []
    spec = deno.spec

    def noted(*arguments: Any) -> SandboxSpec:
        made.append(spec(*arguments))
        return made[-1]

    monkeypatch.setattr(deno, "spec", noted)
    return made


# --- what a run has


@pytest.mark.threat("C6")
def test_a_run_is_as_any_other_and_its_child_is_used_up(ground: Ground, tools: Tools) -> None:
    job = Job(code="console.log('a'); return [input, await tools.x({b: 2})]", input=[1], tools=("x",))
    cold = asyncio.run(run_job(job, tools, ground))

    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        waiting = children_of(pool)
        result = await pool.run(job, tools)
        assert waiting[0] not in lineage.children(os.getpid())
        await ready(pool, 1)
        assert [path.name for path in pool._station.path.iterdir()] == ["2"]
        assert children_of(pool) != waiting
        return result

    result = pooled(ground, act, runs=1, warm=1)
    assert (result.state, result.value, result.logs) == (State.OK, [[1], {"echo": {"b": 2}}], cold.logs)
    assert result.containment == cold.containment
    assert result.limitations == cold.limitations


def test_without_children_that_wait_each_run_gets_one_that_is_started_for_it(ground: Ground, tools: Tools) -> None:
    async def act(pool: Pool) -> list[JobResult]:
        return await asyncio.gather(*(pool.run(Job(code=f"return {n}"), tools) for n in range(6)))

    results = pooled(ground, act, runs=6, warm=0)
    assert [result.value for result in results] == list(range(6))


@pytest.mark.parametrize(("after", "meanwhile"), [(3600.0, 0), (0.0, 1)])
def test_the_next_child_starts_a_little_later_or_when_no_run_is_under_way(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, after: float, meanwhile: int
) -> None:
    monkeypatch.setattr(limits, "CODE_REFILL_AFTER_SECONDS", after)
    held = Held()

    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        running = asyncio.ensure_future(pool.run(Job(code="return amcp.run('x')", tools=("x",)), held))
        await held.called.wait()
        await ready(pool, meanwhile)
        held.answer.set()
        result = await running
        await ready(pool, 1)
        return result

    assert pooled(ground, act, runs=1, warm=1).state is State.OK


def test_more_runs_than_may_are_refused_and_disturb_nobody(ground: Ground) -> None:
    async def act(pool: Pool) -> list[JobResult]:
        tools = [Held(), Held()]
        runs = [asyncio.ensure_future(pool.run(Job(code="return await amcp.run('x')", tools=("x",)), t)) for t in tools]
        for one in tools:
            await one.called.wait()
        with pytest.raises(BusyError, match="try again"):
            await pool.run(Job(code="return 1"), tools[0])
        assert pool.state.running == 2
        for one in tools:
            one.answer.set()
        results = await asyncio.gather(*runs)
        return [*results, await pool.run(Job(code="return 'again'"), tools[0])]

    assert [result.value for result in pooled(ground, act, runs=2, warm=1)] == [["x", {}], ["x", {}], "again"]


@pytest.mark.parametrize("memory", [limits.CODE_MEMORY_BYTES_MIN, limits.CODE_MEMORY_BYTES_MAX])
def test_a_job_with_another_bound_of_memory_has_a_child_of_its_own(ground: Ground, tools: Tools, memory: int) -> None:
    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        waiting = children_of(pool)
        bound = JobLimits(memory_bytes=memory)
        grow = "const a = []; for (let i = 0; i < 200; i++) a.push(new Uint8Array(1e6).fill(1)); return a.length"
        result = await pool.run(Job(code=grow, limits=bound), tools)
        assert children_of(pool) == waiting
        return result

    result = pooled(ground, act, runs=1, warm=1)
    assert result.state is (State.OK if memory > CODE_MEMORY_BYTES else State.OUT_OF_MEMORY)


# --- walls and bounds of one that waited


def test_attempts_get_no_further_in_a_child_that_waited(
    bare: Ground, tools: Tools, canary: Canary, every_attempt: dict[str, Attempt]
) -> None:
    names = [one for one in every_attempt.values() if one.kind in {"leak", "forge", "perm", "after"} and one.succeeds]
    chosen = [*names[:: max(1, len(names) // 12)], *(every_attempt[name] for name in TRIED if name in every_attempt)]
    assert len(chosen) >= 12

    async def act(pool: Pool) -> None:
        for attempt in chosen:
            program = canary.filled(attempt.program, deno.HARNESS, deno.IMPORT_MAP)
            bounds = JobLimits(wall_seconds=20, cpu_seconds=2)
            result = await pool.run(Job(code=program, tools=("x", "slow"), limits=bounds), tools)
            assert result.state is not State.RUNNER_UNAVAILABLE, attempt.name
            assert not canary.given_away(result), attempt.name
            assert set(tools.called) <= {"x", "slow"}

    pooled(bare, act, runs=1, warm=2)


@pytest.mark.parametrize(
    ("program", "state", "bounds"),
    [
        ("for (;;);", State.TIMEOUT_CPU, {"cpu_seconds": 0.3}),
        ("await new Promise(() => {})", State.TIMEOUT_WALL, {"wall_seconds": 0.3}),
        ("for (;;) console.log('x'.repeat(1e4))", State.OUTPUT_LIMIT, {"output_bytes": 20_000}),
        ("for (let i = 0; i < 4; i++) await amcp.search('x')", State.CALL_LIMIT, {"calls": 3}),
        ("Deno.exit(3)", State.CHILD_EXIT, {}),
        ("Deno.stdout.writeSync(Uint8Array.of(120, 10)); for (;;);", State.PROTOCOL_VIOLATION, {}),
        ("throw new TypeError('no')", State.USER_ERROR, {}),
        ("let a = ;", State.SYNTAX_ERROR, {}),
    ],
)
def test_each_run_ends_in_its_state(
    bare: Ground, tools: Tools, program: str, state: State, bounds: dict[str, Any]
) -> None:
    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        return await pool.run(Job(code=program, limits=JobLimits(**bounds)), tools)

    assert pooled(bare, act, runs=1, warm=1).state is state


@pytest.mark.parametrize("by_cgroup", [True, False], ids=["cgroup", "rlimit"])
def test_memory_ends_near_its_limit_in_a_child_that_waited(bare: Ground, tools: Tools, *, by_cgroup: bool) -> None:
    host = bare.host if by_cgroup else dataclasses.replace(bare.host, cgroups=CgroupFacts(version=None, roots={}))
    grow = "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))"

    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        return await pool.run(Job(code=grow, limits=JobLimits(cpu_seconds=20, wall_seconds=60)), tools)

    result = pooled(dataclasses.replace(bare, host=host), act, runs=1, warm=1)
    assert result.state is State.OUT_OF_MEMORY
    assert result.usage.peak_memory_bytes <= 1.1 * 256 * MIB


def test_one_that_waited_for_longer_than_its_time_has_all_of_it_and_is_charged_for_nothing_before(
    ground: Ground, tools: Tools
) -> None:
    burn = b"const began = performance.now(); while (performance.now() - began < 900);\n  " + READY
    slow = with_harness(ground, READY, burn)

    async def act(pool: Pool) -> JobResult:
        await ready(pool, 1)
        return await pool.run(Job(code="return 1", limits=JobLimits(wall_seconds=0.8, cpu_seconds=0.5)), tools)

    result = pooled(slow, act, runs=1, warm=1)
    assert result.state is State.OK
    assert result.usage.cpu_milliseconds < 500


# --- one run and the next


@pytest.mark.threat("C6")
def test_tenants_find_nothing_of_one_another_side_by_side_and_one_after_the_other(
    bare: Ground, tools: Tools, specs: list[SandboxSpec]
) -> None:
    program = """
        const found = [];
        const write = () => Deno.writeTextFileSync("/deno_dir/gen/a", "b");
        for (const keep of [() => localStorage.setItem("a", "b"), () => caches.open("a"), write])
            try { await keep(); found.push("kept") } catch (error) { found.push(error.name) }
        try { found.push(Deno.readTextFileSync("/deno_dir/gen/a")) } catch (error) { found.push(error.name) }
        try { found.push(Object.keys(Deno.env.toObject()).length) } catch (error) { found.push(error.name) }
        const before = globalThis.seen;
        globalThis.seen = input;
        await tools.x({});
        return [found, before, globalThis.seen, location.hostname]"""

    async def act(pool: Pool) -> list[Any]:
        given = []
        for turn in range(3):
            await ready(pool, 2)
            jobs = [Job(code=program, input=[turn, n], tools=("x",)) for n in range(3)]
            given += [result.value for result in await asyncio.gather(*(pool.run(job, tools) for job in jobs))]
        return given

    given = pooled(bare, act, runs=3, warm=2)
    assert [seen for _, _, seen, _ in given] == [[turn, n] for turn in range(3) for n in range(3)]
    assert {before for _, before, _, _ in given} == {None}
    assert "kept" not in str(given)
    assert len({str(found) for found, _, _, _ in given}) == 1
    assert len({place for _, _, _, place in given}) == 9
    locations = [word for spec in specs for word in spec.argv if word.startswith("--location=")]
    assert len(set(locations)) == len(locations) >= 9


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has one uid")
def test_children_at_the_same_time_have_uids_cgroups_and_folders_of_their_own(
    ground: Ground, specs: list[SandboxSpec]
) -> None:
    async def act(pool: Pool) -> None:
        held = Held()
        await ready(pool, 2)
        run = asyncio.ensure_future(pool.run(Job(code=STAYS, tools=("x",)), held))
        await held.called.wait()
        await ready(pool, 2)
        assert len(specs) == len({spec.identity.uid for spec in specs}) == 3
        assert len(list(pool._station.path.iterdir())) == 3
        for root in ground.host.cgroups.roots.values():
            assert len(list(root.glob(f"{pool._station.path.name}-*"))) == 3
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    pooled(ground, act, runs=1, warm=2)


# --- children that are not what they should be


def with_harness(ground: Ground, old: bytes, new: bytes) -> Ground:
    assert old in ground.parts.harness
    parts = dataclasses.replace(ground.parts, harness=ground.parts.harness.replace(old, new))
    return dataclasses.replace(ground, parts=parts)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (rb"""say('{"type":"ready"}\n{"type":"ready"}');""", "something else than that it is ready"),
        (b"say('[]');", "something else than that it is ready"),
        (b"exit(7);", "before it was ready"),
        (b"for (;;);", "not ready within"),
    ],
    ids=["twice", "else", "exit", "never"],
)
def test_one_that_does_not_become_ready_is_not_used_and_the_reason_is_told(
    ground: Ground, tools: Tools, monkeypatch: pytest.MonkeyPatch, new: bytes, words: str
) -> None:
    monkeypatch.setattr(limits, "CODE_READY_SECONDS", 1.0)

    async def act(pool: Pool) -> JobResult:
        result = await pool.run(Job(code="return 1"), tools)
        assert result.ok or words in pool.state.trouble
        assert pool.state.warm == 0
        return result

    result = pooled(with_harness(ground, READY, new), act, runs=1, warm=1)
    assert result.state is State.RUNNER_UNAVAILABLE
    assert words in result.error.message


def test_where_nothing_can_be_started_each_run_is_told_why(ground: Ground, tools: Tools) -> None:
    bare = dataclasses.replace(ground, host=dataclasses.replace(ground.host, routes=()))

    async def act(pool: Pool) -> list[JobResult]:
        return [await pool.run(Job(code="return 1"), tools) for _ in range(3)]

    for result in pooled(bare, act, runs=1, warm=2):
        assert result.state is State.RUNNER_UNAVAILABLE
        assert "no route works here" in result.error.message


def test_no_child_is_kept_where_a_wall_lacks(ground: Ground, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "missing", lambda _: ["memory (no cgroup)"])

    async def act(pool: Pool) -> JobResult:
        return await pool.run(Job(code="await amcp.run('x')", tools=("x",)), tools)

    result = pooled(ground, act, runs=1, warm=1)
    assert result.state is State.RUNNER_UNAVAILABLE
    assert "memory (no cgroup)" in result.error.message
    assert tools.called == []


def test_one_that_dies_while_it_waits_is_noticed_and_replaced(ground: Ground, tools: Tools) -> None:
    async def act(pool: Pool) -> JobResult:
        await ready(pool, 2)
        first, second = children_of(pool)
        os.kill(first, signal.SIGKILL)
        await until(lambda: first not in children_of(pool))
        await ready(pool, 2)
        assert second in children_of(pool)
        return await pool.run(Job(code="return 1"), tools)

    assert pooled(ground, act, runs=1, warm=2).value == 1


def test_one_that_dies_at_the_last_moment_is_not_used(ground: Ground, tools: Tools) -> None:
    async def act(pool: Pool) -> JobResult:
        await ready(pool, 2)
        first = children_of(pool)[0]
        held = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        assert select.select([held], [], [], 20)[0]  # it is gone, and the loop has not had a turn to hear of it
        os.close(held)
        return await pool.run(Job(code="return 1"), tools)

    assert pooled(ground, act, runs=1, warm=2).value == 1


def test_one_that_speaks_while_it_waits_is_not_used(ground: Ground) -> None:
    late = READY + b"""setTimeout(() => say('{"type":"result","ok":true,"value":"forged"}'), 300);"""
    loud = with_harness(ground, READY, late)

    async def act(pool: Pool) -> None:
        await ready(pool, 1)
        await until(lambda: pool.state.trouble)
        assert "while it waited" in pool.state.trouble
        assert pool.state.warm == 0

    pooled(loud, act, runs=1, warm=1)


def test_old_ones_are_replaced(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_WARM_SECONDS", 0.05)

    async def act(pool: Pool) -> None:
        await ready(pool, 2)
        before = set(children_of(pool))
        await until(lambda: pool.state.warm == 2 and not before & set(children_of(pool)))
        assert pool.state.trouble == ""

    pooled(ground, act, runs=1, warm=2)


# --- its end


def test_a_run_can_be_cancelled_before_and_while_it_runs(ground: Ground) -> None:
    async def act(pool: Pool) -> list[JobResult]:
        set_before, held, cancel = asyncio.Event(), Held(), asyncio.Event()
        set_before.set()
        first = await pool.run(Job(code="return 1"), held, set_before)
        run = asyncio.ensure_future(pool.run(Job(code=STAYS, tools=("x",)), held, cancel))
        await held.called.wait()
        cancel.set()
        return [first, await run]

    assert [result.state for result in pooled(ground, act, runs=1, warm=0)] == [State.CANCELLED] * 2


def test_a_cancelled_task_leaves_nothing_whether_it_waits_or_runs(ground: Ground, tools: Tools) -> None:
    async def act(pool: Pool) -> None:
        waits = asyncio.ensure_future(pool.run(Job(code="return 1"), tools))
        await until(lambda: pool.state.starting)
        held = Held()
        runs = asyncio.ensure_future(pool.run(Job(code=STAYS, tools=("x",)), held))
        waits.cancel()
        await held.called.wait()
        runs.cancel()
        ended = await asyncio.gather(waits, runs, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
        assert pool.state.running == 0
        assert (await pool.run(Job(code="return 1"), tools)).value == 1

    pooled(ground, act, runs=2, warm=0)


def test_leaving_ends_what_runs_waits_and_starts(ground: Ground) -> None:
    async def one() -> list[JobResult]:
        async with Pool(ground, runs=2, warm=3) as pool:
            held = Held()
            runs = asyncio.ensure_future(pool.run(Job(code=STAYS, tools=("x",)), held))
            await held.called.wait()
            waits = asyncio.ensure_future(pool.run(Job(code=STAYS, tools=("x",)), held))
            await until(lambda: pool.state.running == 2)
        with pytest.raises(HarnessError, match="closed"):
            await pool.run(Job(code="return 1"), held)
        return list(await asyncio.gather(runs, waits))

    assert [result.state for result in asyncio.run(one())] == [State.CANCELLED] * 2
    assert left(ground) == []


OWNER = """
import asyncio, sys
from pathlib import Path
from fumehood.code.job import Job
from fumehood.code.pool import Pool
from fumehood.code.run import prepare
from fumehood.sandbox.probe import host, runtime

class Tools:
    async def run(self, name, arguments):
        called.set()
        await asyncio.Event().wait()

async def main():
    global called
    async with Pool(ground, runs=2, warm=2) as pool:
        for _ in range(2):
            called = asyncio.Event()
            asyncio.ensure_future(pool.run(Job(code="await amcp.run('x')", tools=("x",)), Tools()))
            await called.wait()
        while pool.state.warm < 2:
            await asyncio.sleep(0.01)
        print("full", pool._station.path.name, flush=True)
        await asyncio.Event().wait()

ground = prepare(host.probe_host({}, quick=True, run_root=Path(sys.argv[1])), runtime.find({}).runtime)
asyncio.run(main())
"""


def test_a_killed_owner_takes_everything_along_that_runs_and_that_waits(tmp_path: Path, ground: Ground) -> None:
    root = ground.host.run_root / "killed-pool"
    root.mkdir(mode=0o711)
    held = []
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(root)], stdout=subprocess.PIPE, cwd=tmp_path
    ) as owner:
        try:
            assert owner.stdout is not None
            said = re.fullmatch(rb"full (run-[0-9a-f]+)\n", owner.stdout.readline())
            assert said
            groups = [place / said[1].decode() for place in ground.host.cgroups.roots.values()]
            assert all(len(list(group.parent.glob(f"{group.name}-*"))) == 4 for group in groups)
            for pid in [pid for pid in lineage.tree(owner.pid) if pid != owner.pid]:
                with contextlib.suppress(ProcessLookupError):  # a helper that has ended meanwhile
                    held.append(os.pidfd_open(pid))
        finally:
            owner.kill()
    assert len(held) >= 4 * 2 + 1
    for descriptor in held:  # a pidfd can be read when its process has ended
        assert select.select([descriptor], [], [], 20)[0]
        os.close(descriptor)
    assert [path.name for path in root.glob("run-*")] == []
    assert not [path for group in groups for path in group.parent.glob(f"{group.name}*")]
    assert owner.returncode == -signal.SIGKILL
