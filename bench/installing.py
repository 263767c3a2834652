"""(c) INSTALL, observed, beside a bare `npm ci --offline` from the same cache, and what each sensor adds.

Neither side runs a script of a package: the set has none, which its lock says (checked), so both do the same.
"""

import asyncio
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import bare
import ground
from measure import Candidate, Ran, interleaved, ratio, table, used

from fumehood.review import plan, steps
from fumehood.review.acquire import PinnedSource
from fumehood.review.evidence import sensors
from fumehood.review.node import npm
from fumehood.review.node import plan as nodeplan
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy
from fumehood.sandbox.spec import Bounds, Overlay
from fumehood.sandbox.supervise import Wiring, sandbox

Then: TypeAlias = Callable[[Work, asyncio.Runner, PinnedSource], list[str]]

PEER = "bare npm ci --offline"
OBSERVED = "+ layer read and compared: INSTALL"


class Installs:
    """The same installation, watched by more each time."""

    def __init__(self, work: Work, cache: Path, runner: asyncio.Runner) -> None:
        """After FETCH: the stack is INSTALL's."""
        self._work = work
        self._cache = cache
        self._runner = runner
        self._step = nodeplan.install(work.bench, Policy(), 0.0)
        self._folder = work.run.path / "bare"
        self.collectors = work.ledger.collectors

    def bare(self) -> Candidate:
        """A plain folder on the same file system, the same node, npm, cache and uid."""
        work = self._work
        inside = work.bench.layer_workspace
        found = {name: layer / inside / name for layer in work.layers for name in npm_files(layer / inside)}
        names = [(path, name) for name, path in found.items()]
        environment = dict(plan.environment(work.bench, self._step))
        node, project = work.bench.node, self._folder / "project"
        assert node is not None
        assert work.bench.node_library is not None
        environment |= {
            "PATH": f"{node.parent}:/usr/bin:/bin",
            "HOME": str(self._folder),
            "PWD": str(project),
            "npm_config_cache": str(self._cache),
        }
        cli = work.bench.node_library / "npm" / "bin" / "npm-cli.js"
        argv = [str(node), str(cli), *npm.INSTALL_ARGUMENTS, "--ignore-scripts"]

        def before() -> None:
            ground.copied(work, [], self._folder)
            ground.copied(work, names, project)

        return Candidate(
            before=before,
            run=lambda: bare.run(bare.dropped(work.host, work.run.uid, argv), environment, str(project)),
            after=lambda: ground.purge(self._folder),
        )

    def confined(self, *, traced: bool) -> Candidate:
        """The sandbox of INSTALL, its layer not read: with its trace followed, or without one."""
        step = self._step if traced else dataclasses.replace(self._step, trace=None)

        def run() -> Ran:
            return self._runner.run(self._confined(step))

        return Candidate(run=run, after=self._clear)

    def observed(self) -> Candidate:
        """INSTALL as a review performs it."""

        def run() -> Ran:
            ran = self._runner.run(steps.perform(self._work, self._step))
            _demand(ran.exit.status, ran.stderr.data)
            return Ran(beyond=ran.exit.cpu_seconds or 0.0)

        return Candidate(before=self._fresh, run=run, after=self._clear)

    async def _confined(self, step: plan.Step) -> Ran:
        work = self._work
        layer = work.run.layer(step.name)
        overlay = Overlay(lowers=tuple(work.layers), upper=layer.upper, work=layer.work)
        watching = sensors.Sensors(work, step)
        wiring = Wiring(trace=watching.trace, inspect=sensors.INSPECT)
        spec = plan.spec(work.bench, step, overlay, None)
        async with sandbox(spec, work.host, work.run, Bounds(wall_seconds=step.seconds), wiring) as running:
            await running.wait()
            ended = await running.end()
        _demand(ended.status, running.stderr.data)
        return Ran(beyond=ended.cpu_seconds or 0.0)

    def _fresh(self) -> None:
        """FETCH's layer is listed anew, so that its digests are asked for anew, as in a review."""
        stack = self._work.stack
        stack.set_fetched(stack.read(self._work.run.path / "fetch" / "upper"), self._work.bench.is_package)
        self._work.ledger = ground.forgetful()

    def _clear(self) -> None:
        ground.purge(self._work.run.path / self._step.name)
        self.collectors = self._work.ledger.collectors or self.collectors


def npm_files(folder: Path) -> list[str]:
    """What `npm ci` needs, as far as a layer has it."""
    return [name for name in ("package.json", "package-lock.json") if (folder / name).is_file()]


def bench(rounds: int, and_then: Then) -> list[str]:
    """Print the tables; what the aims say of them. `and_then` goes on in the installed workspace."""
    host, mine = ground.host_and_settings()
    with ground.opened(host, mine, registry=True) as work, asyncio.Runner() as runner:
        begun, cpu = time.perf_counter(), used()
        start, source = runner.run(ground.fetched(work))
        wall, cpu = time.perf_counter() - begun, used() - cpu + sum(step.cpu_seconds or 0.0 for step in work.steps)
        lock = source.lock
        if npm.hooks(lock) != 0:
            raise RuntimeError("the set has install scripts: the two sides would not do the same")
        print(f"\nLOCK and FETCH, once, from the registry: {wall:.1f} s wall, {cpu:.1f} s CPU")
        installs = Installs(work, start.cache, runner)
        samples = interleaved(
            {
                PEER: installs.bare(),
                "sandbox, no trace": installs.confined(traced=False),
                "+ trace, followed": installs.confined(traced=True),
                OBSERVED: installs.observed(),
            },
            rounds,
        )
        table(f"INSTALL of {npm.package_count(lock)} packages ({ground.TARGET.name})", samples, PEER)
        for collector in installs.collectors:
            print(f"    {collector.name}: {', '.join(f'{n} {what}' for what, n in collector.counts.items())}")
        said = [
            f"observed INSTALL: {median:.2f} times (least {least:.2f}) a bare `npm ci --offline` by {which}; aim: 1.5"
            for which in ("cpu", "wall")
            for median, least in [ratio(samples, OBSERVED, PEER, which)]
        ]
        installed = runner.run(steps.perform(work, nodeplan.install(work.bench, Policy(), 0.0)))
        work.stack.push(installed.layer)
        return said + and_then(work, runner, source)


def _demand(status: int | None, stderr: bytes) -> None:
    if status != 0:
        raise RuntimeError(f"npm ended with {status}: {stderr[-2000:]!r}")
