"""What every server that is started here stands on: this host, the operator's settings, seats, and who is told.

Invariants: no variable that holds a credential of the gateway's own (of a remote server, or of fumehood itself) is
passed to a command, named or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import settings
from fumehood.core.clock import Clock
from fumehood.core.errors import RefusedError
from fumehood.core.sections import Settings
from fumehood.gateway import lockstore
from fumehood.gateway.guard.acquire import Shop
from fumehood.gateway.topology.model import Topology
from fumehood.gateway.upstreams import accepted
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.station import Station

_SPARE_SEATS = 2  # one that could not be made free at once is set aside


class OwnVariableError(RefusedError):
    """A server's policy names a variable that is the gateway's own."""

    code = "own_variable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Made once for a gateway. `station` has `seats` for its servers."""

    host: HostFacts
    settings: Settings
    settings_file: Path | None  # as named by a flag
    environ: Mapping[str, str]  # the operator's
    variables: frozenset[str]  # of these, the gateway's own (`own_variables`)
    files: tuple[str, ...]  # the gateway's own, which no server sees (`own_files`)
    folder: str  # where a command is started that names no folder
    station: Station
    shop: Shop
    clock: Clock
    say: Callable[[str], None]  # a line of words for the operator; it waits for nobody
    world: World = World()  # resolver, connect and clock of the relay

    def environ_for(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """The environment that a command's is made from. Errors: `OwnVariableError`, where its policy names one."""
        named = next((name for name in names if self._is_own(name)), None)
        if named is not None:
            words = f"env {named}: it is the gateway's own, and passed to no command"
            raise OwnVariableError(words, remedy="give the server a variable of another name")
        return {name: value for name, value in self.environ.items() if not self._is_own(name)}

    def _is_own(self, name: str) -> bool:
        return name in self.variables or name.startswith(settings.PREFIX)


def seats(topology: Topology) -> int:
    """How many seats a station for these servers has."""
    return sum(1 for one in topology.servers.values() if one.command is not None and one.enabled) + _SPARE_SEATS


def own_variables(topology: Topology) -> frozenset[str]:
    """Variables that hold what remote servers are told of us."""
    tokens = {one.token_env for one in topology.servers.values() if one.token_env is not None}
    return frozenset(tokens.union(*(one.headers_env.values() for one in topology.servers.values())))


def own_files(topology: Topology, source: str) -> tuple[str, ...]:
    """What the gateway goes by, and what it writes. `source` is the file of the topology, absolute."""
    gateway = topology.gateway
    named = [source, gateway.lock_file, gateway.audit_file]
    named += [one.token_file for one in topology.servers.values()]
    named += [one.program for one in topology.tools.values()]
    lock = Path(gateway.lock_file) if gateway.lock_file is not None else None
    beside = [str(accepted.proposed(lock)), str(lockstore.beside(lock))] if lock is not None else []
    return (*(one for one in named if one is not None), *beside)
