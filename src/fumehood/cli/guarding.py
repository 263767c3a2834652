"""Guard one server from the command line: settings, policy, host, walls and lines together."""

import contextlib
import os
import secrets
import select
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from fumehood.cli import interrupt, render, start
from fumehood.content import rulefile
from fumehood.content.control import Controls
from fumehood.core import limits, settings
from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import ContentSettings, Settings
from fumehood.gateway.audit import calls, writer
from fumehood.gateway.guard import acquire, command, pinning, policy, surroundings
from fumehood.gateway.guard.acquire import Shop
from fumehood.gateway.guard.clientend import ClientEnd
from fumehood.gateway.guard.command import Command, Package, Plain
from fumehood.gateway.guard.installed import Installed
from fumehood.gateway.guard.pinning import Pinning
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.guard.record import Calls
from fumehood.gateway.guard.run import Session, guard
from fumehood.gateway.guard.surroundings import Surroundings
from fumehood.gateway.guard.traffic import Traffic
from fumehood.gateway.guard.walls import Ready
from fumehood.review import operator
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.runs import Run, open_run, sweep
from fumehood.wire import descriptors

_STDERR: Final = 2
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed."""

    command: tuple[str, ...]
    policy: str | None
    flags: Mapping[str, tuple[str, ...]]


def run(asked: Asked) -> int:
    """Guard the server to its end; its status. Errors: those of settings, policy, command, host, sandbox and audit."""
    made = start.start()
    typed = command.read(asked.command)
    pins = pinning.Place(folder=pinning.folder(os.environ), server=command.server(typed))
    allowed = _policy(asked)
    with interrupt.interruptible():
        facts = host(made)
        sweep(facts)
        wanted = _ready(typed, made, facts)
        cache = str(Path(wanted.folder).parent) if isinstance(wanted, Installed) else None
        kept = (asked.policy, _named(), cache, str(pins.folder))
        with open_run(facts, once=True) as taken:
            around = Surroundings(
                host=facts,
                settings=made,
                environ=os.environ,
                folder=os.getcwd(),  # noqa: PTH109 - a string, as it is shown inside
                files=tuple(os.path.abspath(one) for one in kept if one),  # noqa: PTH100 - links stay
                uid=taken.uid,
            )
            ready, notes = surroundings.decide(wanted, allowed, around)
            for note in notes:
                say(f"fumehood: {note}")
            with contextlib.closing(ClientEnd(descriptors.claim())) as client:
                return interrupt.run(_guarded(made, facts, Given(ready=ready, run=taken, client=client, pins=pins)))


def accept(words: tuple[str, ...]) -> int:
    """Take the tools of a server as they are now, after a person has seen how they differ."""
    start.start()
    place = pinning.Place(folder=pinning.folder(os.environ), server=command.server(command.read(words)))
    for line in pinning.accept(place, SystemClock()):
        render.data(line)
    render.words("accepted; start the server again")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is ready before the loop begins."""

    ready: Ready
    run: Run
    client: ClientEnd
    pins: pinning.Place


def _ready(typed: Command, made: Settings, facts: HostFacts) -> Plain | Installed:
    """A package is brought here first."""
    return interrupt.run(acquire.get(typed, shop(made, facts))) if isinstance(typed, Package) else typed


def shop(made: Settings, facts: HostFacts) -> Shop:
    """Where packages come from and go to."""
    return Shop(
        cache=acquire.cache_folder(os.environ),
        host=facts,
        settings=made,
        sources=lambda: operator.sources(made, facts, os.environ),
        clock=SystemClock(),
        say=lambda text: say(f"fumehood: {text}"),
    )


async def _guarded(made: Settings, facts: HostFacts, given: Given) -> int:
    clock = SystemClock()
    caller = calls.Caller(source="guard", who=calls.user(os.getuid()), run=secrets.token_hex(8))
    traffic = Traffic(controls(made.content), Pinning(given.pins, clock), Calls(caller, clock.monotonic))
    named = given.ready.policy.audit_file or made.log.audit_file
    async with writer.named(named, clock) as audit:
        session = Session(
            ready=given.ready,
            host=facts,
            run=given.run,
            client=given.client,
            traffic=traffic,
            audit=audit,
            clock=clock,
            say=say,
        )
        return await guard(session)


def controls(content: ContentSettings) -> Controls:
    """The controls of what a server says. A line is never clipped: a server's data is often one line of JSON."""
    rules = None
    if content.rules_file is not None:
        text = settings.owned_text(Path(content.rules_file), "content.rules_file", size=limits.RULE_FILE_BYTES)
        rules = rulefile.parse(text.encode(), "content.rules_file")
    return Controls(
        key=secrets.token_bytes(_KEY_BYTES),
        redact=not content.unsafe_no_redaction,
        scan=not content.unsafe_no_scanning,
        datamark=content.datamarking,
        line_characters=limits.FRAME_BYTES,
        rules=rules,
    )


def say(text: str) -> None:
    """One line of words on stderr, inert; lost where nobody reads: a server's client may not."""
    data = memoryview(render.inert(text).encode("utf-8", "backslashreplace") + b"\n")
    poll = select.poll()
    poll.register(_STDERR, select.POLLOUT)
    with contextlib.suppress(OSError):
        while data and any(event & select.POLLOUT for _, event in poll.poll(0)):
            data = data[os.write(_STDERR, data[: select.PIPE_BUF]) :]


def _policy(asked: Asked) -> GuardPolicy:
    """The file's policy, if one is named, and what flags add."""
    flags = policy.from_flags({key: value for key, value in asked.flags.items() if value})
    if asked.policy is None:
        return flags
    source = ascii(asked.policy)[1:-1]
    text = settings.owned_text(Path(asked.policy), source, size=limits.GUARD_POLICY_BYTES)
    return policy.parse(text, source).plus(flags)


def _named() -> str | None:
    named = click.get_current_context().find_root().params.get("settings")
    return str(named) if named else None


def host(made: Settings) -> HostFacts:
    """What this host can confine a server with. Errors: `UnsupportedError`."""
    root = made.sandbox.run_root
    facts = probe.probe_host(made.sandbox.tools, quick=True, run_root=Path(root) if root else None)
    if not facts.routes:
        reasons = "; ".join(f"{one.name}: {one.detail}" for one in facts.probes if not one.ok)
        raise UnsupportedError(f"no route to a sandbox on this host: {reasons}", remedy="fumehood doctor explains each")
    return facts
