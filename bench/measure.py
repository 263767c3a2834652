"""Measure in interleaved series: each round runs every candidate once, in an order that changes."""

import atexit
import contextlib
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run says of itself beyond what is measured around it."""

    beyond: float = 0.0  # CPU seconds that `getrusage` cannot see: those of a pid namespace
    wall: float | None = None  # when not the whole run counts, e.g. up to the first answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing to measure. `before` and `after` are not measured."""

    run: Callable[[], Ran | None]
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    used: Callable[[], float] | None = None  # CPU seconds so far, of whoever does the work; else of this process


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds of wall time, and of CPU of everything that ran."""

    wall: float
    cpu: float


Samples = Mapping[str, Sequence[Sample]]
_groups: list[Path] = []  # that which counts, if any


def count_by_cgroup() -> None:
    """Count CPU by a cgroup of version 1 around this process and all that it starts, where one can be made.

    Children that were waited for do not tell of a pid namespace; what a run's own cgroup tells has bubblewrap in it,
    which is waited for as well. Before the host is looked at: its runs' cgroups have to lie in this one.
    """
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines())
    own = next((path for _, name, path in lines if name == "cpuacct"), None)
    if _groups or own is None:
        return
    home = Path("/sys/fs/cgroup/cpuacct", own.lstrip("/"))
    group = home / f"fumehood-bench-{os.getpid()}"
    with contextlib.suppress(OSError):
        group.mkdir()
        _groups.append(group)
        atexit.register(_leave, group, home)
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def is_counted() -> bool:
    """Whether a cgroup counts; else what runs in a pid namespace is not all seen."""
    return bool(_groups)


def _leave(group: Path, home: Path) -> None:
    (home / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    for _ in range(1000):  # until the kernel has reaped the last process there
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.001)


def used() -> float:
    """CPU seconds of this process and its children: by the cgroup, or of every one that it has waited for."""
    if _groups:
        return int((_groups[0] / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def sample(candidate: Candidate) -> Sample:
    """Run once."""
    if candidate.before:
        candidate.before()
    spending = candidate.used or used
    cpu, begun = spending(), time.perf_counter()
    said = candidate.run() or Ran()
    beyond = 0.0 if _groups and spending is used else said.beyond
    wall, spent = time.perf_counter() - begun, spending() - cpu + beyond
    if candidate.after:
        candidate.after()
    return Sample(wall if said.wall is None else said.wall, spent)


def interleaved(candidates: Mapping[str, Candidate], rounds: int) -> Samples:
    """`rounds` samples of each candidate, after one round that does not count."""
    samples: dict[str, list[Sample]] = {name: [] for name in candidates}
    chance = random.Random(1)
    for number in range(rounds + 1):
        names = list(candidates)
        chance.shuffle(names)
        for name in names:
            taken = sample(candidates[name])
            if number:
                samples[name].append(taken)
    return samples


def table(title: str, samples: Samples, peer: str, *, wall: str = "wall") -> None:
    """Print medians and smallest values, and their ratios to those of `peer`. The smallest carry the least noise."""
    rounds = len(next(iter(samples.values())))
    print(f"\n{title}  ({rounds} rounds, interleaved; ms; each ratio is to the first line's)")
    wide = max(len(name) for name in samples) + 2
    halves = "".join(f"{f'{what} median':>14}{'ratio':>7}{'least':>10}{'ratio':>7}" for what in (wall, "CPU"))
    print(f"  {'':<{wide}}{halves}")
    for name, series in samples.items():
        cells = "".join(
            f"{mine * 1e3:>{width}.1f}{mine / base:>7.2f}"
            for which in ("wall", "cpu")
            for kind, width in ((statistics.median, 14), (min, 10))
            for mine, base in [(_one(kind, series, which), _one(kind, samples[peer], which) or 1e-9)]
        )
        print(f"  {name:<{wide}}{cells}")


def beside(title: str, samples: Samples, ours: str) -> None:
    """The same for servers: each ratio is ours to that line's; CPU as a mean, for some of it is counted in ticks."""
    rounds = len(next(iter(samples.values())))
    print(f"\n{title}  ({rounds} rounds, interleaved; ms; each ratio is {ours}'s to that line's)")
    wide = max(len(name) for name in samples) + 2
    print(f"  {'':<{wide}}" + "".join(f"{what:>12}{'ratio':>7}" for what in ("wall median", "least", "CPU mean")))
    kinds = ((statistics.median, "wall"), (min, "wall"), (statistics.fmean, "cpu"))
    for name, series in samples.items():
        cells = ""
        for kind, which in kinds:
            one = _one(kind, series, which)
            cells += f"{one * 1e3:>12.1f}{_one(kind, samples[ours], which) / (one or 1e-9):>7.2f}"
        print(f"  {name:<{wide}}{cells}")


def mean_cpu(samples: Samples, name: str, peer: str) -> float:
    """How the CPU time of `name` compares with that of `peer`."""
    mine, others = (_one(statistics.fmean, samples[one], "cpu") for one in (name, peer))
    return mine / (others or 1e-9)


def ratio(samples: Samples, name: str, peer: str, which: str) -> tuple[float, float]:
    """How `name` compares with `peer` by `wall` or `cpu`: of the medians, and of the smallest."""
    kinds = (statistics.median, min)
    median, least = (_one(kind, samples[name], which) / (_one(kind, samples[peer], which) or 1e-9) for kind in kinds)
    return median, least


def beyond(samples: Samples, name: str, peer: str) -> tuple[float, float]:
    """How many seconds of wall time `name` takes more than `peer`: of the medians, and of the smallest."""
    kinds = (statistics.median, min)
    median, least = (_one(kind, samples[name], "wall") - _one(kind, samples[peer], "wall") for kind in kinds)
    return median, least


def machine() -> str:
    """The machine in one line."""
    name = os.uname()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores, {name.sysname} {name.release}, {name.machine}, load {load}"


def _one(kind: Callable[[list[float]], float], series: Sequence[Sample], which: str) -> float:
    return kind([getattr(taken, which) for taken in series])
