"""The HTTP requests of one connection, kept within what one connection and one sandbox may have kept.

Invariant: beyond every bound a request is still counted, and the first of each connection is kept with its first bytes,
so that no flood hides a small upload that comes later.
"""

from collections.abc import Sequence

from fumehood.sandbox.egress import EgressRequest, Heard, Reader
from fumehood.sandbox.relay.engine import Engine


class Hearing:
    """Reads requests as bytes come, and keeps them."""

    def __init__(self, engine: Engine, reader: Reader | None = None, *, relayed: bool = False) -> None:
        """Read with the engine's inspector; without one nothing is read."""
        self._engine = engine
        make = engine.inspect.requests
        self._reader = reader or (None if make is None else make(self._keep, relayed=relayed))
        self._kept: list[EgressRequest] = []
        self._held = 0
        self.count = 0

    @property
    def is_reading(self) -> bool:
        """Whether a further request could be read."""
        return self._reader is not None and self._reader.is_reading

    @property
    def requests(self) -> tuple[EgressRequest, ...]:
        """What was kept so far."""
        return tuple(self._kept)

    @property
    def is_whole(self) -> bool:
        """Whether every byte belongs to a request that was read to its end, so that nothing else needs to be kept."""
        return bool(self._kept) and self.is_reading and all(request.complete for request in self._kept)

    def feed(self, data: bytes) -> Sequence[Heard]:
        """The requests that these bytes complete."""
        return self._counted(self._reader.feed(data)) if self._reader else ()

    def finish(self) -> None:
        """Keep the request that was under way. Nothing is read any more."""
        if self._reader is not None:
            self._counted(self._reader.finish())
            self._reader = None

    def take_continue(self) -> bool:
        """Whether the client waits for `100 Continue`."""
        return self._reader is not None and self._reader.take_continue()

    def _counted(self, heard: Sequence[Heard]) -> Sequence[Heard]:
        engine, bounds = self._engine, self._engine.bounds
        for one in heard:
            self.count += 1
            if self._kept and (len(self._kept) >= bounds.requests_kept or engine.requests >= bounds.requests_total):
                engine.records.lose("http request")
                continue
            engine.requests += 1
            self._kept.append(_kept(one, engine.elapsed()))
        return heard

    def _keep(self, have: int, more: int) -> int:
        """How many further bytes of a body are kept, `have` of it being kept already."""
        engine, bounds = self._engine, self._engine.bounds
        room = min(more, bounds.body_bytes - have, bounds.bodies_bytes - self._held)
        kept = engine.grant(room, self._held)
        self._held += kept
        return kept


def _kept(heard: Heard, at_seconds: float) -> EgressRequest:
    return EgressRequest(
        method=heard.method,
        target=heard.target,
        host=heard.host,
        headers=heard.headers,
        headers_lost=heard.headers_lost,
        body=heard.body,
        body_bytes=heard.body_bytes,
        body_sha256=heard.body_sha256,
        complete=heard.complete,
        note=heard.note,
        at_seconds=at_seconds,
    )
