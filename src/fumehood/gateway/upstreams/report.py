"""How a server stands, in words for an operator and for who asks it. Pure.

Invariants: a line is one line of inert characters, within a bound; an operator's holds no word that is not ours, but
for names of tools, which are escaped where they are made; what who asks is told holds none at all, for of what is
withheld nobody has accepted a name.
"""

from typing import Final, assert_never

from fumehood.content import terminal
from fumehood.core import limits
from fumehood.gateway.upstreams.model import Down, Standing, Starting, Up, UpstreamError, Withheld

WITHHELD: Final = "its tools are withheld: as they are now, whoever runs the gateway has not accepted them"
_LINE_BYTES: Final = 2000  # of one line: a reason names five tools and a command


def lines(server: str, standing: Standing, tools: int = 0) -> list[str]:
    """What an operator is told on stderr, a line each: of what is withheld the whole difference."""
    more = standing.difference[: limits.GUARD_SAID] if isinstance(standing, Withheld) else ()
    return [_inert(f"{server}: {words(standing, tools)}"), *(_inert(f"{server}: | {line}") for line in more)]


def words(standing: Standing, tools: int = 0) -> str:
    """How it stands, and what comes next."""
    match standing:
        case Starting():
            return "is being started"
        case Up():
            return f"is up, with {tools} tools"
        case Withheld(reason=reason):
            return f"its tools are withheld: {reason}"
        case Down(reason=reason, again_seconds=None):
            return f"is down: {reason}; it is not tried again before the gateway is started again"
        case Down(reason=reason, again_seconds=seconds):
            return f"is down: {reason}; it is tried again in {max(seconds or 0.0, 0.1):.1f} s"
        case _:
            assert_never(standing)


def refused(server: str, standing: Standing) -> UpstreamError:
    """What who asks it is told."""
    how = WITHHELD if isinstance(standing, Withheld) else words(standing)
    match standing:
        case Starting():
            remedy = "ask again in a moment"
        case Down(again_seconds=seconds) if seconds is not None:
            remedy = "ask again then"
        case _:
            remedy = "whoever runs the gateway has to look at it"
    return UpstreamError(_inert(f"{server}: {how}"), remedy=remedy)


def _inert(text: str) -> str:
    return terminal.inert(text.encode("utf-8", "replace"), limit_bytes=_LINE_BYTES)
