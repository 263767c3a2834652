"""Run the gateway from the command line: settings, topology, host and the way to clients together."""

import asyncio
import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from fumehood.cli import guarding, interrupt, start
from fumehood.code import attest
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.gateway import run as gateway
from fumehood.gateway.run import Blueprint
from fumehood.gateway.topology import load
from fumehood.gateway.topology.load import Loaded
from fumehood.gateway.topology.model import Topology
from fumehood.wire import descriptors
from fumehood.wire.admission import Bounds
from fumehood.wire.descriptors import Wire
from fumehood.wire.opening import Opened
from fumehood.wire.server_stdio import Ended

_INTERRUPTED: Final = 130
_BOUNDS: Final = Bounds(
    running=limits.GATEWAY_RUNNING, queued=limits.GATEWAY_QUEUED, calls_a_minute=limits.GATEWAY_CALLS_A_MINUTE
)
_STATUS: Final = {Ended.INTERRUPTED: _INTERRUPTED, Ended.STALLED: 1, Ended.EXHAUSTED: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed."""

    config: Path
    transport: str
    host: str | None = None
    port: int | None = None


def run(asked: Asked) -> int:
    """Serve until the client is gone or a signal comes; why it ended. Errors: those of `gateway.run.assembled`."""
    wire = descriptors.claim() if asked.transport == "stdio" else None  # before anything could print on it
    made = start.start({"http.host": asked.host, "http.port": asked.port})
    loaded = load.load(asked.config)
    for line in told(loaded.topology, str(asked.config), local=wire is not None or not made.http.token_file):
        guarding.say(f"fumehood: {line}")
    with interrupt.interruptible():
        if wire is not None:
            if os.isatty(wire.reading):
                guarding.say("fumehood: a client would speak here, in JSON: Ctrl-D ends it")
            return interrupt.run(_over_stdio(blueprint(loaded, str(asked.config), made), wire))
        from fumehood.wire import opening

        production = made.environment == "production"
        with contextlib.closing(opening.open_listener(made.http, production=production)) as door:
            return interrupt.run(_over_http(blueprint(loaded, str(asked.config), made), door))


def told(topology: Topology, config: str, *, local: bool) -> Iterator[str]:
    """What an operator is told at the start. `local`: whether clients come without a token."""
    off = sum(not one.enabled for one in topology.servers.values())
    on = len(topology.servers) - off
    named = f"{on or 'no'} server{'' if on == 1 else 's'} of {config}"
    yield f"{named} {'is' if on == 1 else 'are'} started" + (f"; switched off: {off}" if off else "")
    if local and topology.roles and topology.gateway.local_role is None:
        yield "whoever comes without a token may use nothing: there are roles, and gateway.local_role names none"


def blueprint(loaded: Loaded, config: str, made: Settings, say: Callable[[str], None] = guarding.say) -> Blueprint:
    """Everything of this process that a gateway goes by."""
    named = click.get_current_context().find_root().params.get("settings")
    return Blueprint(
        loaded=loaded,
        config=config,
        settings=made,
        settings_file=Path(named) if named else None,
        environ=dict(os.environ),
        host=lambda: guarding.host(made),
        shop=lambda facts: guarding.shop(made, facts),
        controls=guarding.controls(made.content),
        trial=attest.Wanted(
            file=attest.file(os.environ),
            clock=SystemClock(),
            progress=lambda _: None,
            say=lambda text: say(f"fumehood: programs: {text}"),
        ),
        uid=os.getuid(),
        clock=SystemClock(),
        say=say,
    )


async def _over_stdio(given: Blueprint, wire: Wire) -> int:
    loading = asyncio.ensure_future(asyncio.to_thread(_load))  # a second, while the servers start
    with contextlib.ExitStack() as until_all_is_taken_away:
        async with gateway.assembled(given) as assembled:
            sdk = await loading
            ended = await sdk.stdio(sdk.Hosted(assembled.host, _BOUNDS), wire)
            until_all_is_taken_away.enter_context(interrupt.undisturbed())
    return _STATUS.get(ended, 0)


async def _over_http(given: Blueprint, door: Opened) -> int:
    loading = asyncio.ensure_future(asyncio.to_thread(_load))  # a second, while the servers start
    with contextlib.ExitStack() as until_all_is_taken_away:
        async with gateway.assembled(given) as assembled:
            sdk = await loading
            hosted = sdk.Hosted(assembled.host, _BOUNDS)
            ended = await sdk.http(hosted, door, sdk.Serving(announce=given.say))
            until_all_is_taken_away.enter_context(interrupt.undisturbed())
    return _INTERRUPTED if ended == signal.SIGINT else 0


def _load() -> ModuleType:
    """The SDK, and how a host is served by it."""
    return importlib.import_module("fumehood.wire.sdk.serving")
