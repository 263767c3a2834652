"""`make bench`: what a review costs beside its peers, measured in one run, interleaved.

Seven parts: the start of the command, the launch of a sandbox, its launch in SINKHOLE, INSTALL, `initialize`, whole
reviews by profile, and a batch on two workers. The last lines compare with the aims. Where no registry answers, what
needs one is left out with one line.
"""

import argparse
import sys

import batching
import initializing
import installing
import launching
import profiling
import sinkholing
import starting
from measure import machine

from fumehood.core.errors import FumehoodError
from fumehood.review.states import ReviewEndedError

PARTS = ("start", "launch", "sinkhole", "initialize", "install", "profiles", "batch")


def main() -> int:
    """Run the parts that were asked for; 1 when one could not be measured."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("parts", nargs="*", default=[], metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    asked.add_argument("--rounds", type=int, default=7, help="of INSTALL; the short ones run three times as many")
    given = asked.parse_args()
    parts = given.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        asked.error(f"no such part: {', '.join(sorted(unknown))}")
    print(f"fumehood beside its peers: {machine()}, Python {sys.version.split()[0]}")
    said, failed = [], False
    for part in parts:
        try:
            said += _measure(part, given.rounds)
        except (ReviewEndedError, FumehoodError) as error:
            print(f"\n{part}: not measured: {error}")
            failed = not (isinstance(error, ReviewEndedError) and error.code == "registry")
    print("\nBeside the aims (CPU and the least of each carry the least noise of others on this machine)")
    for line in said:
        print(f"  {line}")
    return int(failed)


def _measure(part: str, rounds: int) -> list[str]:
    many = 3 * rounds
    parts = {
        "start": lambda: starting.bench(many),
        "launch": lambda: launching.bench(many),
        "sinkhole": lambda: sinkholing.bench(many),
        "initialize": lambda: initializing.bench_demo(many),
        "install": lambda: installing.bench(
            rounds, lambda work, runner, source: initializing.bench_installed(rounds, work, runner, source)
        ),
        "profiles": lambda: profiling.bench(rounds),
        "batch": lambda: batching.bench(max(1, rounds // 2)),
    }
    return parts[part]()


if __name__ == "__main__":
    sys.exit(main())
