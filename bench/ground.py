"""What the benchmarks stand on: a host, a run folder, and reviews in the middle of their steps."""

import contextlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import measure

from fumehood.core import settings
from fumehood.core.sections import Settings
from fumehood.review import acquire, identity, operator, steps
from fumehood.review.acquire import Ground, PinnedSource
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.node import plan as nodeplan
from fumehood.review.plan import Bench
from fumehood.review.request import NpmTarget
from fumehood.review.stack import Stack, layering_for
from fumehood.review.work import Work
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.runs import open_run, sweep

TARGET = NpmTarget(name="@modelcontextprotocol/server-everything", version="2026.8.31")
DEMO = Path(__file__).parents[1] / "src" / "fumehood" / "data" / "demo" / "safe"


def host_and_settings() -> tuple[HostFacts, Settings]:
    """As `fumehood review run` finds them."""
    measure.count_by_cgroup()
    mine = settings.load(None, environ=os.environ)
    root = mine.sandbox.run_root
    host = probe.probe_host(mine.sandbox.tools, quick=True, run_root=Path(root) if root else None)
    sweep(host)
    return host, mine


@contextlib.contextmanager
def opened(host: HostFacts, mine: Settings, *, registry: bool) -> Iterator[Work]:
    """A review that has not taken a step yet."""
    chance, node = random.Random(), host.tools["node"].path
    sources = operator.sources(mine, host, os.environ) if registry else None
    with open_run(host) as run, Stack(layering_for(host, run)) as stack:
        yield Work(
            host=host,
            settings=mine,
            run=run,
            bench=Bench(
                identity=identity.identity(run.uid, chance),
                folder=identity.folder(chance),
                node=node,
                node_library=node.parent.parent / "lib" / "node_modules",
                registry=sources.registry if sources else None,
                ca_file=sources.ca_file if sources else None,
            ),
            ledger=forgetful(),
            progress=lambda _: None,
            stop_on_output=False,
            stack=stack,
        )


def forgetful() -> Ledger:
    """A ledger whose events go nowhere."""
    return Ledger(lambda _: True)


async def fetched(work: Work) -> tuple[Ground, PinnedSource]:
    """Acquire TARGET from the registry and fill npm's cache; INSTALL can begin."""
    ground = acquire.lay_ground(work)
    source = await acquire.acquire(work, TARGET, ground, Path())
    ran = await steps.perform(work, nodeplan.fetch(work.bench), scratch=ground.cache)
    if ran.exit.status != 0:
        raise RuntimeError(f"fetch ended with {ran.exit.status}: {ran.stderr.data[-2000:]!r}")
    work.stack.set_fetched(ran.layer, work.bench.is_package)
    work.stack.push(work.stack.read(ground.cache_layer))
    return ground, source


def copied(work: Work, names: list[tuple[Path, str]], folder: Path) -> None:
    """Make a folder of the target's uid with copies of some files."""
    folder.mkdir(mode=0o755)
    for source, name in names:
        shutil.copyfile(source, folder / name)
        os.chown(folder / name, work.run.uid, work.run.uid)
    os.chown(folder, work.run.uid, work.run.uid)


def demo_files() -> list[tuple[Path, str]]:
    """The files of the demo server, for `copied`."""
    return [(path, path.name) for path in DEMO.iterdir() if path.is_file()]


def purge(path: Path) -> None:
    """Remove a folder that a target wrote to."""
    if path.exists() and not janitor.purge(str(path)):
        raise RuntimeError(f"{path} could not be removed")
