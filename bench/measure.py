"""Measure in interleaved series: each round runs every candidate once, in an order that changes."""

import os
import random
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds of wall time, and of CPU of everything that ran."""

    wall: float
    cpu: float


def used() -> float:
    """CPU seconds of this process and of every child that it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def sample(run: Callable[[], float | None]) -> Sample:
    """Run once. What `run` returns are CPU seconds that `getrusage` cannot see (those of a pid namespace)."""
    cpu, wall = used(), time.perf_counter()
    beyond = run() or 0.0
    return Sample(time.perf_counter() - wall, used() - cpu + beyond)


def interleaved(candidates: dict[str, Callable[[], float | None]], rounds: int) -> dict[str, list[Sample]]:
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


def table(title: str, samples: dict[str, list[Sample]], peer: str) -> None:
    """Print medians and ratios against `peer`, and the smallest values: those carry the least noise."""
    print(f"\n{title}  ({len(next(iter(samples.values())))} rounds, interleaved, {os.cpu_count()} cores)")
    print(f"  {'':<34}{'wall ms':>10}{'min':>9}{'ratio':>8}{'cpu ms':>11}{'min':>9}{'ratio':>8}")
    base = samples[peer]
    for name, series in samples.items():
        wall, cpu = ([s.wall * 1e3 for s in series], [s.cpu * 1e3 for s in series])
        base_wall = statistics.median(s.wall * 1e3 for s in base)
        base_cpu = statistics.median(s.cpu * 1e3 for s in base) or 1e-9
        print(
            f"  {name:<34}{statistics.median(wall):>10.1f}{min(wall):>9.1f}{statistics.median(wall) / base_wall:>8.2f}"
            f"{statistics.median(cpu):>11.1f}{min(cpu):>9.1f}{statistics.median(cpu) / base_cpu:>8.2f}"
        )
