"""Run the trials of `proving` on this host: each wall's acts with every wall, and with that wall taken away.

Dangerous in one respect, which is its purpose: it starts sandboxes with a wall missing. What runs in them is a program
of ours. Holds: everything planted and started is gone afterwards.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Self

from fumehood.core.errors import FumehoodError, HarnessError
from fumehood.core.limits import PROBE_SECONDS
from fumehood.sandbox import launch, start
from fumehood.sandbox.containment import WALLS
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.proof.planting import OTHERS_FILE, others_file, planted
from fumehood.sandbox.proof.proving import (
    NOT_PROVEN,
    Acts,
    Outcome,
    Proven,
    Side,
    Trial,
    joined,
    judge,
    read_outcomes,
    trials,
    unprovable,
)
from fumehood.sandbox.proof.weakened import Weakened
from fumehood.sandbox.runs import Run, open_run, overlay
from fumehood.sandbox.spec import Bind, Bounds, DataFile, Identity, Overlay, PlainFolder, Route, SandboxSpec
from fumehood.sandbox.streams import read_chunk
from fumehood.sandbox.supervise import Wiring, sandbox

_PROGRAM: Final = "/opt/acts.py"  # where it is shown inside
_PYTHON: Final = "/opt/python"
_ALIVE_SECONDS: Final = (
    0.5  # a child that outlives its parent by this does not follow it; the signal takes microseconds
)


async def prove(host: HostFacts, route: Route) -> list[Proven]:
    """Try every wall of one route. Raises what a sandbox raises only where no run can be made at all."""
    with open_run(host) as run, planted(run, host.tools["setpriv"].path) as things:
        bench = Bench(host, run, route)
        by_wall: dict[str, list[Proven]] = {}
        for trial in trials(route, things):
            inside = await bench.run(trial.acts, trial.with_wall)
            outside = await bench.run(trial.acts, trial.without_wall)
            by_wall.setdefault(trial.wall, []).append(judge(trial, inside, outside))
        by_wall["parent_death"] = [await bench.orphaned()]
    for wall, why in unprovable(route).items():
        by_wall[wall] = [Proven(wall=wall, result=NOT_PROVEN, why=why, with_wall={}, without_wall={})]
    return [joined(by_wall[wall]) for wall in WALLS]


class Bench:
    """Runs acts on one route of one host."""

    def __init__(self, host: HostFacts, run: Run, route: Route) -> None:
        """Take the run that its sandboxes belong to."""
        self._host = host
        self._run = run
        self._route = route
        self._layers = 0

    async def run(self, acts: Acts, side: Side) -> Outcome:
        """Run the acts once and say what came of each."""
        spec = self._spec(acts, side)
        bounds = Bounds(wall_seconds=side.wall_seconds, layer_bytes=side.layer_bytes)
        wiring = Wiring(unsafe_reshape=Weakened(without=side.without))
        try:
            async with sandbox(spec, self._host, self._run, bounds, wiring, route=self._route) as running:
                await running.wait()
                ended = await running.end()
        except FumehoodError as error:
            return Outcome(acts={}, problem=error.message)
        stderr = running.stderr.data.decode("utf-8", "replace").strip()
        return Outcome(acts=read_outcomes(running.stdout.data), ended=ended.end.value, problem=stderr[-500:])

    def _spec(self, acts: Acts, side: Side) -> SandboxSpec:
        python, binds = interpreter()
        if self._route is not Route.USER:
            binds = (*binds, Bind(source=others_file(self._run), target=OTHERS_FILE))
        identity = Identity(uid=self._run.uid, user="sam", host=f"pc-{secrets.token_hex(3)}")
        return SandboxSpec(
            argv=(python, "-I", "-S", _PROGRAM, json.dumps(acts)),
            environment=(("LC_ALL", "C.UTF-8"),),
            workdir="/",
            identity=identity,
            limits=side.limits,
            binds=binds,
            files=(DataFile(target=_PROGRAM, content=(launch.PROGRAMS / "prove.py").read_bytes()),),
            # A layer's files must belong to the child, who is another without the uid wall.
            overlay=None if "uid" in side.without else self._overlay(),
        )

    def _overlay(self) -> Overlay | PlainFolder:
        """A fresh layer above one that has a tmp and a home; where no overlay mounts, the one that has them."""
        self._layers += 1
        below = self._run.layer(f"below-{self._layers}")
        for name in ("tmp", "home"):
            place = below.upper / name
            place.mkdir()
            if os.geteuid() == 0:
                os.chown(place, self._run.uid, self._run.uid)
        if self._host.no_overlay:
            return PlainFolder(upper=below.upper)
        return overlay([below], self._run.layer(f"proof-{self._layers}"))

    async def orphaned(self) -> Proven:
        """The parent_death wall: a chain whose parent ends is dead, and without the wall it lives on."""
        act = "outlive_parent"
        outcomes = []
        for without in (frozenset[str](), frozenset({"parent_death"})):
            lived = await self._lives_on(without)
            outcomes.append(Outcome(acts={act: (lived, "lived on" if lived else "died with it")}))
        return judge(Trial(wall="parent_death", acts={act: 0}), *outcomes)

    async def _lives_on(self, without: frozenset[str]) -> bool:
        """Start a chain from a thread, end the thread, and see: PR_SET_PDEATHSIG follows the thread (prctl(2))."""
        spec = self._spec({"open_many": 0, "outlast": PROBE_SECONDS * 2}, Side(without=without))
        plan = start.Plan(spec=spec, host=self._host, run=self._run, route=self._route)
        with contextlib.ExitStack() as stack:
            pipes = start.Pipes(self._run.private())
            stack.callback(pipes.close)
            parent = stack.enter_context(Parent(plan, pipes, Weakened(without=without)))
            async with asyncio.timeout(PROBE_SECONDS):
                process = await parent.begun()
                stack.callback(process.close)
                init = await start.Status(pipes.status.ours).child_pid()
                if init is None:
                    raise HarnessError("the sandbox did not start")
                held = os.pidfd_open(init)
                stack.callback(os.close, held)
                stack.callback(_kill, held)
                os.write(pipes.block.ours, b"x")
                await read_chunk(pipes.stdout.ours)  # the first act has answered: it runs
            await asyncio.to_thread(parent.leave)
            return not await _ends(held)


class Parent:
    """A thread that starts a chain and is its parent until it leaves."""

    def __init__(self, plan: start.Plan, pipes: start.Pipes, weakened: Weakened) -> None:
        """Take what is started; entering the block starts it."""
        self._weakened = weakened
        self._plan = plan
        self._pipes = pipes
        self._begun: Future[launch.Process] = Future()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, name="parent")

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave at the latest now."""
        self.leave()

    async def begun(self) -> launch.Process:
        """The chain, or the error that it did not start with."""
        return await asyncio.wrap_future(self._begun)

    def leave(self) -> None:
        """End the thread, and wait until it has ended."""
        self._leave.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._begun.set_result(start.spawn_chain(self._plan, self._pipes, None, self._weakened))
        except FumehoodError as error:
            self._begun.set_exception(error)
        self._leave.wait(PROBE_SECONDS)


def _kill(held: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(held, signal.SIGKILL)


async def _ends(held: int) -> bool:
    """Whether a process ends soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ALIVE_SECONDS):
            await launch.readable(held)
            return True
    return False


def interpreter() -> tuple[str, tuple[Bind, ...]]:
    """The path of this Python inside, and what has to be shown for it: nothing when it lies below /usr."""
    real = Path(sys.executable).resolve()
    if real.is_relative_to("/usr"):
        return str(real), ()
    prefix = Path(sys.base_prefix).resolve()
    return f"{_PYTHON}/{real.relative_to(prefix)}", (Bind(source=prefix, target=_PYTHON),)
