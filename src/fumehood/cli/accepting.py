"""Accept what waits beside `fumehood.lock`: what is printed is what is accepted, and nothing that came since."""

from dataclasses import dataclass
from pathlib import Path

from fumehood.cli import render, start
from fumehood.core.clock import SystemClock
from fumehood.core.errors import RefusedError
from fumehood.gateway.codemode import saved
from fumehood.gateway.topology import load, place
from fumehood.gateway.topology.load import Loaded
from fumehood.gateway.topology.model import SAVED
from fumehood.gateway.upstreams.accepted import NothingWaitsError, Pins, Proposal, pins_of
from fumehood.gateway.upstreams.identity import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed."""

    config: Path
    server: str | None
    digest: str | None
    only_show: bool


def run(asked: Asked) -> int:
    """Print and accept; 0. Errors: those of settings and topology, `NothingWaitsError`, `LockError`."""
    start.start()
    loaded = load.load(asked.config)
    if asked.digest is not None and asked.server is None:
        raise RefusedError("--digest is of one server", remedy="name it")
    pins = pins_of(loaded, SystemClock(), config=str(asked.config))
    pins.load()
    for proposal in _proposals(asked, loaded, pins):
        render.data(f"{proposal.server}  {proposal.digest}")
        for line in proposal.difference:
            render.data(f"  {line}")
        if not asked.only_show:
            pins.accept(proposal)
            render.words(f"accepted: {proposal.server}")
    return 0


def _proposals(asked: Asked, loaded: Loaded, pins: Pins) -> list[Proposal]:
    """What may be accepted: of a server as it stands in the file now."""
    servers = _identities(loaded)
    if asked.server is not None and asked.server not in servers:
        words = f"{place.shown(asked.server)} is no server of {place.shown(str(asked.config))}"
        raise RefusedError(words, remedy=place.near(asked.server, servers))
    names = [asked.server] if asked.server is not None else [name for name in pins.waiting() if name in servers]
    if not names:
        raise NothingWaitsError("nothing waits to be accepted", remedy="a gateway that runs says what changed")
    found = [pins.proposal(name) for name in names]
    for one in found:
        if one.identity != servers[one.server]:
            words = f"what waits of {one.server} is of another command, address or folder than the file has now"
            raise NothingWaitsError(words, remedy="start the gateway with it: what changed is shown then")
        if asked.digest not in {None, one.digest}:
            words = f"what waits of {one.server} has the digest {one.digest}: it changed since"
            raise NothingWaitsError(words, remedy="look at it with --show")
    return found


def _identities(loaded: Loaded) -> dict[str, str]:
    """What each server of the file is; saved tools have their pin under a name of their own."""
    found = {name: identity(server, loaded.folder) for name, server in loaded.topology.servers.items()}
    return found | {SAVED: saved.IDENTITY} if loaded.topology.tools else found
