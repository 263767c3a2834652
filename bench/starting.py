"""(a) `fumehood --help` beside a Python that does nothing."""

import sys

import bare
from measure import Candidate, interleaved, ratio, table

HELP = "fumehood --help"
PEER = "python -c pass"


def bench(rounds: int) -> list[str]:
    """Print the table; what the aims say of it."""

    def candidate(*words: str) -> Candidate:
        return Candidate(run=lambda: bare.run([sys.executable, *words]))

    samples = interleaved(
        {
            PEER: candidate("-c", "pass"),
            HELP: candidate("-m", "fumehood", "--help"),
            "fumehood review --help": candidate("-m", "fumehood", "review", "--help"),
            "imports of a review": candidate("-c", "import fumehood.cli.reviewing"),
        },
        rounds,
    )
    table("Start of the command", samples, PEER)
    median, least = ratio(samples, HELP, PEER, "wall")
    return [f"{HELP}: {median:.1f} times (least {least:.1f}) a bare Python; aim: 80 ms where that takes 17, so 4.7"]
