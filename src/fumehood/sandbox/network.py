"""The network side of one sandbox: what is opened inside, and what serves it outside."""

from dataclasses import dataclass
from pathlib import Path

from fumehood.core.errors import UnsupportedError
from fumehood.sandbox import rlimits
from fumehood.sandbox.egress import EgressReport, Mode, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """Which limits could not be set on the child, and why."""

    unlimited: dict[int, str]


class Network:
    """Listeners and relay of one sandbox."""

    def __init__(self, policy: Policy, setpriv: Path) -> None:
        """Begin to start what takes time."""
        if policy.mode is not Mode.NONE:
            raise UnsupportedError("only network mode NONE is built")
        self._setpriv = setpriv

    async def open(self, pid: int, uid: int, pairs: rlimits.Pairs) -> Limited:
        """Open the listeners in the namespace of a blocked child, and set its limits."""
        return Limited(unlimited=rlimits.apply(pid, pairs, setpriv=self._setpriv, uid=uid))

    async def stop(self) -> EgressReport:
        """End everything and say what was seen."""
        return EgressReport()
