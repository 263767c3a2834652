"""How servers stand, for whoever asks the gateway: which are missing, and why. Pure.

Invariant: the words are ours; of what is withheld no name is told, for that is the server's own word, which nobody has
accepted yet.
"""

from typing import Final

from fumehood.core.jsonio import JsonObject
from fumehood.gateway.gate import scopes
from fumehood.gateway.gate.model import Rights
from fumehood.gateway.upstreams import report
from fumehood.gateway.upstreams.model import Standing, Up, Upstreams, Withheld

LEFT_OUT: Final = "fumehood/left_out"  # the member of a list's `_meta`: servers that are not in it, and why


def how(standing: Standing, tools: int = 0) -> str:
    """How a server stands."""
    return report.WITHHELD if isinstance(standing, Withheld) else report.words(standing, tools)


def missing(upstreams: Upstreams, rights: Rights) -> dict[str, str]:
    """The servers that somebody may see and that are not there, and why."""
    return {
        server: how(standing)
        for server in upstreams.servers
        if not isinstance(standing := upstreams.standing(server), Up) and scopes.may_see_server(rights, server)
    }


def told(made: JsonObject, left_out: dict[str, str]) -> JsonObject:
    """A list that says what is not in it."""
    return {**made, "_meta": {LEFT_OUT: dict(left_out)}} if left_out else made
