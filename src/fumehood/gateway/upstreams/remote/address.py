"""The way to one remote server: its name resolved with a deadline, every address judged, the judged one dialled.

Invariants: the address that is dialled is one that was judged, in the same moment, so that a name which resolves to
another one later (DNS rebinding) gains nothing; one bad address refuses the name; an address of this host is dialled
only where the operator set `allow_private`. A lookup runs in a thread of its own and is shared by all who wait for it.

Not promised: that the same address is dialled twice, or that a lookup which hangs ends before the system's resolver
gives up; few of them run at once, for each is waited for by all (`REMOTE_ADDRESSES_SECONDS`).
"""

import socket

from fumehood.core import limits
from fumehood.core.addresses import parse_address
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.place import Place, judge
from fumehood.sandbox.egress import Dial
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import DialFailedError, DialRefusedError, LookupFailedError, Outside, World

_LOOKUP_WORDS = {
    "no_such_name": "its name does not exist",
    "lookup_timed_out": "its name was not resolved in time",
    "lookup_failed": "its name could not be resolved",
    "too_many_lookups": "its name is being resolved by too many at once",
}


class UnreachableError(UpstreamError):
    """A server was not reached: nothing was sent to it."""


class Way:
    """Resolves, judges and dials for one server."""

    def __init__(self, place: Place, world: World) -> None:
        """Nothing is resolved yet."""
        self._place = place
        self._world = world
        self._outside: Outside | None = None
        self._until = 0.0

    async def connect(self) -> socket.socket:
        """A connected socket, owned by the caller. Errors: `UnreachableError`."""
        outside = self._fresh()
        place = self._place
        try:
            literal = parse_address(place.host)
            found = (str(literal),) if literal else await outside.addresses(place.host, operator=place.private)
            why = judge(found, place.allowed)
            if why is not None:
                raise UnreachableError(f"the server is not dialled: {why}")
            opened, _ = await outside.dial(
                Dial(host=place.host, port=place.port, operator=place.private, pins=tuple(found), strict=False)
            )
        except LookupFailedError as error:
            self._outside = None if str(error) != "lookup_timed_out" else self._outside
            raise UnreachableError(f"the server was not reached: {_LOOKUP_WORDS[str(error)]}") from None
        except DialRefusedError as error:
            words = "its address is one of this host" if str(error) == "own_address" else "its address is not public"
            raise UnreachableError(f"the server is not dialled: {words}") from None
        except DialFailedError as error:
            words = "nobody answered in time" if str(error) == "dial_timed_out" else "nobody is there"
            raise UnreachableError(f"the server was not reached: {words}") from None
        return opened

    def _fresh(self) -> Outside:
        """What keeps addresses for a moment, so that a burst of connections is one lookup."""
        now = self._world.clock.monotonic()
        if self._outside is None or now >= self._until:
            self._outside = Outside(self._world, RelayBounds())
            self._until = now + limits.REMOTE_ADDRESSES_SECONDS
        return self._outside
