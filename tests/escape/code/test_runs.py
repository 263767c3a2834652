"""Runs from their start to their end: what a program has, how it ends, and that nothing of it is left."""

import asyncio
import contextlib
import dataclasses
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fumehood.code import conversation
from fumehood.code.conversation import missing
from fumehood.code.job import Job, JobLimits, JobResult, State
from fumehood.code.run import Ground, run_job
from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonValue
from fumehood.core.limits import MIB
from fumehood.sandbox import limiting, lineage
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.hostfacts import CgroupFacts

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
Run = Any
Tools = Any


def ok(result: JobResult) -> JsonValue:
    assert result.state is State.OK, result
    value: JsonValue = result.value
    return value


def left(ground: Ground) -> list[str]:
    """What of runs is still there: folders, and processes below us."""
    processes = [f"process {pid}" for pid in lineage.children(os.getpid())]
    return [*processes, *(path.name for path in ground.host.run_root.glob("run-*"))]


# --- what a program has


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("return 1", 1),
        ("const n: number = input.a; return {n, s: 'ü\\u{1F600}'}", {"n": 1, "s": "ü\U0001f600"}),
        ("", None),
        ("return await Promise.all([1, 2, 3].map((p) => tools.x({p})))", [{"echo": {"p": p}} for p in (1, 2, 3)]),
        ("return await amcp.run('x')", {"echo": {}}),
        ("return await amcp.search('q', {limit: 3})", [{"name": "x", "description": "q 3"}]),
        ("return await amcp.describe(['a', 'b'])", "a\nb"),
        ("return [1e20, '\\ud800', NaN, undefined, 2 ** 53]", [1e20, "�", None, None, 2**53]),
        ("await new Promise((done) => setTimeout(done, 1)); return structuredClone({a: 1})", {"a": 1}),
        ("// a comment at its end", None),
        ("enum Colour { Red = 3 } return Colour.Red", 3),
    ],
)
def test_a_program_computes_and_calls(ground: Ground, run: Run, program: str, value: JsonValue) -> None:
    assert ok(run(ground, program)) == value


def test_what_a_program_logs_is_kept(ground: Ground, run: Run) -> None:
    result: JobResult = run(ground, "console.log('a', {b: [1]}); console.error('c'); console.assert(false, 'd')")
    assert [(line.level, line.message) for line in result.logs] == [
        ("log", "a { b: [ 1 ] }"),
        ("error", "c"),
        ("error", "assertion failed: d"),
    ]


@pytest.mark.parametrize(
    ("program", "state", "name", "place"),
    [
        ("let a = 1;\nthrow new TypeError('no')", State.USER_ERROR, "TypeError", (2, 7)),
        ("const f = () => null.x;\n\nreturn f()", State.USER_ERROR, "TypeError", (1, 22)),
        ("\nlet y = ;", State.SYNTAX_ERROR, "SyntaxError", (2, 9)),
        ("let y = 1; let y = 2", State.SYNTAX_ERROR, "SyntaxError", None),
        ("return (", State.SYNTAX_ERROR, "SyntaxError", None),
        ("fetch('/')", State.USER_ERROR, "NotCapable", (1, 1)),
        ("tools.nothing()", State.USER_ERROR, "Error", (1, 7)),
        ("await amcp.run('nothing')", State.USER_ERROR, "ToolError", None),
        ("await amcp.search(3)", State.USER_ERROR, "ToolError", None),
        ("Promise.reject(new RangeError('r')); await new Promise(() => {})", State.USER_ERROR, "RangeError", (1, 16)),
        ("setTimeout(() => { throw new Error('t') }); await new Promise(() => {})", State.USER_ERROR, "Error", (1, 26)),
        ("let a = []; for (let i = 0; i < 100; i++) a = [a]; return a", State.USER_ERROR, "RangeError", None),
    ],
)
def test_an_error_names_its_place_in_the_program(  # noqa: PLR0913, PLR0917  # one column each
    ground: Ground, run: Run, program: str, state: State, name: str, place: tuple[int, int] | None
) -> None:
    result: JobResult = run(ground, program)
    assert (result.state, result.ok, result.value) == (state, False, None)
    assert result.error is not None
    assert result.error.name == name
    assert place is None or (result.error.line, result.error.column) == place
    assert "harness" not in result.error.stack
    assert "data:" not in result.error.message


@pytest.mark.parametrize(
    "name", ["fetch", "Deno", "process", "Worker", "localStorage", "caches", "navigator", "WebAssembly"]
)
def test_a_capability_that_is_none_here_says_what_to_use(ground: Ground, run: Run, name: str) -> None:
    result: JobResult = run(ground, f"try {{ new {name}('x') }} catch (e) {{ return [e.name, e.message] }}")
    value = ok(result)
    assert isinstance(value, list)
    assert value[0] == "NotCapable"
    assert str(value[1]).startswith(f"{name} is not available to a program; ")


# --- its tools


class Failing:
    """A backend whose tools fail in each way; it remembers the calls that were refused before they came to it."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, JsonValue]] = []

    async def search(self, query: str, limit: int) -> JsonValue:
        raise RefusedError(f"{query} {limit}", remedy="ask otherwise")

    async def describe(self, names: Sequence[str]) -> JsonValue:
        return list(names)

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        if name == "slow":
            await asyncio.Event().wait()
        raise KeyError(name, arguments)

    async def refused(self, name: str, arguments: JsonValue) -> None:
        self.noted.append((name, arguments))


def run_with(ground: Ground, program: str, backend: Failing | None = None, **limits: Any) -> JobResult:
    job = Job(code=program, tools=("x", "slow"), limits=JobLimits(**limits))
    return asyncio.run(run_job(job, backend or Failing(), ground))


def test_a_tool_that_fails_is_an_error_in_the_program_and_shows_nothing_of_ours(ground: Ground) -> None:
    program = """
        const seen = [];
        for (const ask of [() => amcp.search("q"), () => amcp.run("x", {secret: 1}), () => amcp.run("y")])
            try { await ask() } catch (error) { seen.push([error.name, error.code, error.message]) }
        return seen"""
    backend = Failing()
    result = run_with(ground, program, backend)
    assert [name for name, _ in backend.noted] == ["y"]
    assert ok(result) == [
        ["ToolError", "refused", "q 10 (ask otherwise)"],
        ["ToolError", "harness", "the tool failed"],
        ["ToolError", "unknown_tool", "y: not among the tools of this run (amcp.search finds them)"],
    ]
    assert [call.outcome for call in result.calls] == ["refused", "failed", "refused"]


def test_time_in_tools_is_no_time_of_the_program(ground: Ground) -> None:
    result = run_with(ground, "await amcp.run('slow')", wall_seconds=3, cpu_seconds=0.5)
    assert result.state is State.TIMEOUT_WALL
    assert [call.outcome for call in result.calls] == ["cancelled"]


class Counted(Failing):
    """A tool whose first calls end only once as many are under way as may be."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.wanted, self.now, self.most = wanted, 0, 0
        self.full = asyncio.Event()

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        del name
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self.wanted:
            self.full.set()
        await self.full.wait()
        await asyncio.sleep(0)
        self.now -= 1
        return arguments


@pytest.mark.parametrize("most", [1, 3, limits.CODE_CALLS_IN_FLIGHT])
def test_as_many_calls_are_under_way_as_the_job_allows_and_never_more(ground: Ground, most: int) -> None:
    backend = Counted(most)
    program = "return await Promise.all(Array.from({ length: 50 }, (_, n) => tools.x({ n })))"
    result = run_with(ground, program, backend, calls_in_flight=most)
    assert ok(result) == [{"n": number} for number in range(50)]
    assert backend.most == most


class Stubborn(Failing):
    """A tool that goes on when it is cancelled, once."""

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        with contextlib.suppress(asyncio.CancelledError):
            await super().run("slow", arguments)
        return await super().run("slow", name)


def test_a_tool_that_does_not_end_is_not_waited_for(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "CODE_CANCEL_SECONDS", 0.01)
    job = Job(code="tools.x(); return 1", tools=("x",))
    assert ok(asyncio.run(run_job(job, Stubborn(), ground))) == 1
    assert "did not end" in caplog.text


# --- its end


def test_nothing_is_left_of_a_run(ground: Ground, run: Run) -> None:
    for program in ("return 1", "while (true) {}", "throw 1"):
        run(ground, program, cpu_seconds=0.2)
    assert left(ground) == []


def test_a_run_can_be_cancelled(ground: Ground, tools: Tools) -> None:
    async def cancelled() -> JobResult:
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(0.5, cancel.set)
        return await run_job(Job(code="await new Promise(() => {})"), tools, ground, cancel)

    assert asyncio.run(cancelled()).state is State.CANCELLED
    assert left(ground) == []


def test_a_cancelled_task_leaves_nothing(ground: Ground, tools: Tools) -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await run_job(Job(code="await new Promise(() => {})"), tools, ground)

    asyncio.run(cancelled())
    assert left(ground) == []


# --- never without walls


def test_without_a_route_there_is_no_run(ground: Ground, run: Run) -> None:
    bare = dataclasses.replace(ground, host=dataclasses.replace(ground.host, routes=()))
    result: JobResult = run(bare, "return 1")
    assert (result.state, result.ok) == (State.RUNNER_UNAVAILABLE, False)
    assert result.error is not None
    assert "no route works here" in result.error.message


def test_without_its_libraries_there_is_no_run(ground: Ground, run: Run) -> None:
    parts = dataclasses.replace(ground.parts, libraries={})
    result: JobResult = run(dataclasses.replace(ground, parts=parts), "return 1")
    assert result.state is State.RUNNER_UNAVAILABLE


def test_a_program_is_not_sent_where_a_wall_lacks(
    ground: Ground, run: Run, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "missing", lambda _: ["memory (no cgroup)"])
    result: JobResult = run(ground, "await amcp.run('x')")
    assert result.state is State.RUNNER_UNAVAILABLE
    assert result.error is not None
    assert "memory (no cgroup)" in result.error.message
    assert tools.called == []


@pytest.mark.parametrize("limited", [True, False])
def test_a_program_is_not_sent_where_its_limits_could_not_be_set(
    ground: Ground, run: Run, tools: Tools, monkeypatch: pytest.MonkeyPatch, *, limited: bool
) -> None:
    if not limited:
        monkeypatch.setattr(limiting, "limit", lambda *_: {resource.RLIMIT_FSIZE: "not permitted"})
    result: JobResult = run(ground, "await amcp.run('x')")
    assert (result.state, bool(tools.called)) == ((State.OK, True) if limited else (State.RUNNER_UNAVAILABLE, False))
    assert limited or (result.error and "RLIMIT_FSIZE: not permitted" in result.error.message)


def test_a_wall_that_lacks_is_named() -> None:
    walls = (
        Wall(name="memory", state=WallState.UNAVAILABLE, why="no cgroup"),
        Wall(name="uid", state=WallState.NOT_REQUESTED),
        Wall(name="seccomp", state=WallState.ENFORCED),
    )
    assert missing(Containment(route="user", walls=walls)) == ["memory (no cgroup)"]


# --- whichever way it came to run


def test_a_child_runs_by_each_route(routed: Ground, run: Run) -> None:
    result: JobResult = run(routed, "return await tools.x({a: 1})")
    assert ok(result) == {"echo": {"a": 1}}
    assert not [wall for wall, state in result.containment.items() if state.startswith("unavailable")]


@pytest.mark.parametrize("grow", ["arrays", "buffers", "shared", "blobs", "strings", "workers"])
@pytest.mark.parametrize("by_cgroup", [True, False], ids=["cgroup", "rlimit"])
def test_memory_ends_near_its_limit(bare: Ground, run: Run, grow: str, *, by_cgroup: bool) -> None:
    program = {
        "arrays": "const a = []; for (;;) a.push(new Array(1e5).fill(0.5))",
        "buffers": "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))",
        "shared": "const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1e6)).fill(1))",
        "blobs": "const a = []; for (;;) a.push(new Blob([new Uint8Array(1e6).fill(1)]))",
        "workers": """
            const grow = "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))"
            for (let i = 0; i < 4; i++) new Worker(`data:text/javascript,${grow}`, { type: "module" })
            await new Promise(() => {})""",
        "strings": "const a = []; for (let i = 0; ; i++) a.push(String(i).repeat(1e5).split('').join(','))",
    }[grow]
    host = bare.host if by_cgroup else dataclasses.replace(bare.host, cgroups=CgroupFacts(version=None, roots={}))
    result: JobResult = run(dataclasses.replace(bare, host=host), program, cpu_seconds=20, wall_seconds=60)
    # Where no cgroup kills, a worker that gets no memory throws, and the program hears that a worker failed.
    counted = not any("where no cgroup counts" in words for words in result.limitations)
    assert by_cgroup or not counted
    thrown = {State.USER_ERROR} if grow == "workers" and not counted else set()
    assert result.state in {State.OUT_OF_MEMORY, *thrown}
    assert result.usage is not None
    assert result.usage.peak_memory_bytes is not None
    assert result.usage.peak_memory_bytes <= 1.1 * 256 * MIB


def test_a_run_finds_nothing_of_an_earlier_one(bare: Ground, run: Run) -> None:
    program = """
        const found = [];
        const write = () => Deno.writeTextFileSync("/a", "b");
        for (const keep of [() => localStorage.setItem("a", "b"), () => caches.open("a"), write])
            try { await keep(); found.push("kept") } catch (error) { found.push(error.name) }
        return [found, globalThis.seen ?? (globalThis.seen = 1), location.hostname]"""
    first, second = (ok(run(bare, program)) for _ in range(2))
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert "kept" not in str(first)
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_a_child_has_the_uid_of_its_slot_and_no_file_of_roots(bare: Ground, run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("planted")
    secret.chmod(0o600)
    program = f"try {{ return Deno.readTextFileSync({str(secret)!r}) }} catch (error) {{ return error.name }}"
    assert ok(run(bare, program)) == "NotCapable"
    assert os.geteuid() != 0 or bare.host.routes[0].value in {"dropped", "root"}
