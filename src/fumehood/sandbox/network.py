"""The network side of one sandbox: what is opened in its namespace, and what serves it outside.

The helper that enters the namespace is started before the sandbox, or with it, and told the pid when bubblewrap knows
it, so that its own start costs nothing. A silent network has no helper.
"""

import contextlib
from dataclasses import replace
from pathlib import Path

from fumehood.sandbox.egress import EgressReport, Inspect, Mode, Policy
from fumehood.sandbox.netns import Inside, ListenerHelper
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.relay.service import Relay


class Network:
    """Listeners and relay of one sandbox. Its owner calls `close`, whatever was reached."""

    def __init__(  # noqa: PLR0913  # each is a value of its own
        self,
        policy: Policy,
        nft: Path | None,
        inspect: Inspect | None,
        world: World,
        helper: ListenerHelper | None = None,
        *,
        silent: bool = False,
    ) -> None:
        """Take over a helper that is ready, or start one. Without parsers nothing is served: in mode NONE only.

        `silent` opens nothing in the namespace; its loopback stays down.
        """
        if inspect is None and policy.mode is not Mode.NONE:
            raise ValueError("a relay needs parsers: Wiring.inspect")
        if silent and (inspect is not None or policy.mode is not Mode.NONE):
            raise ValueError("a silent network has nothing to serve or to see")
        self._policy = policy
        self._inspect = inspect
        self._world = world
        self._relay: Relay | None = None
        self._notes: tuple[str, ...] = ()
        self._undo = contextlib.ExitStack()
        if silent and helper is not None:
            helper.close()
        self._helper = None if silent else helper or ListenerHelper.ready()
        if self._helper is not None:
            self._undo.callback(self._helper.close)
            self._helper.tell(policy, nft)

    async def open(self, pid: int) -> Inside:
        """Open the listeners in the namespace of a blocked child, begin to serve."""
        if self._helper is None:
            return Inside(sockets={})
        inside = await self._helper.open(pid)
        self._undo.callback(inside.close)
        self._undo.callback(self._helper.close)
        self._notes = inside.notes
        if self._inspect is not None:
            self._relay = Relay(self._policy, inside.sockets, self._inspect, world=self._world)
            self._relay.start()
        return inside

    async def stop(self) -> EgressReport:
        """End everything and say what was seen."""
        report = await self._relay.stop() if self._relay else EgressReport()
        self.close()
        return replace(report, notes=(*self._notes, *report.notes))

    def close(self) -> None:
        """Let go of what is still held; a relay that serves is to be stopped instead."""
        self._undo.close()
