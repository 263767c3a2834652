"""Which programs a step started and which hosts it turned to: names alone, for a comparison of two steps. Pure.

Invariant: at most NAMES of each, however many there were; what is beyond is not compared, and `lost` counts it.
"""

from fumehood.observe.model import Kind, Observation

NAMES = 500  # of each: as many as a list of a result has rows

_HOSTS = frozenset({Kind.NETWORK_DNS, Kind.NETWORK_CONNECT, Kind.NETWORK_TLS})


class Acts:
    """What one step did, by name."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._programs: set[str] = set()
        self._hosts: set[str] = set()
        self.lost = 0

    @property
    def programs(self) -> frozenset[str]:
        """Programs that were started."""
        return frozenset(self._programs)

    @property
    def hosts(self) -> frozenset[str]:
        """Names that were asked for, and names or addresses that were turned to."""
        return frozenset(self._hosts)

    def add(self, seen: Observation) -> None:
        """Take one observation of the step."""
        if seen.kind is Kind.PROCESS_EXEC and seen.detail.get("outcome") == "started":
            self._keep(self._programs, seen.detail.get("program"))
        elif seen.kind in _HOSTS and seen.collector == "egress":
            self._keep(self._hosts, seen.detail.get("name") or seen.detail.get("address"))

    def _keep(self, names: set[str], name: object) -> None:
        if not isinstance(name, str) or not name or name in names:
            return
        if len(names) < NAMES:
            names.add(name)
        else:
            self.lost += 1
