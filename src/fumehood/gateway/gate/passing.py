"""The way to a server and back: taint, approval, record, the server itself, and what its answer becomes.

Whatever a client or a program asks of a server comes through `Passing.passed`: tools, prompts, resources, completions.

Invariants: a tainted guest changes and sends nothing without a person's word; nothing is asked of a server before its
record is kept, where it may write or was approved; whatever words of an untrusted server a guest gets (a result, an
error, progress), the guest is tainted before it gets them; of `_meta` only trace context goes to a server; an answer is
controlled, and a large one in a thread, so that nobody else waits for it; members that are not for who asked are gone
before that (`bare`); the log holds no credential that somebody gave as a name.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from fumehood.content.control import Controls
from fumehood.content.taint import MEMBER
from fumehood.core import jsonio, limits
from fumehood.core.clock import Clock
from fumehood.core.errors import BusyError, RefusedError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.gate import taint
from fumehood.gateway.gate.asking import Approvals, NotApprovedError
from fumehood.gateway.gate.bare import bare
from fumehood.gateway.gate.model import Guest, Offered, Way
from fumehood.gateway.gate.recording import ALLOWED, Act, Audit, Recorder, Recording
from fumehood.gateway.guard import results
from fumehood.gateway.guard.results import ResultError
from fumehood.gateway.topology.model import Topology
from fumehood.gateway.upstreams.model import ServerRefusedError, Upstreams
from fumehood.wire.hosting import CannotAskError, ReportProgress

Controlled: TypeAlias = Callable[[JsonObject], JsonObject]  # errors: `ResultError`

_NUMBERS: Final = ("progress", "total")


class ChangedError(RefusedError):
    """What was approved is not what is offered now."""

    code = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the gate stands on."""

    topology: Topology
    upstreams: Upstreams
    controls: Controls
    clock: Clock
    audit: Audit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One request of a guest to a server, on its way there and back."""

    guest: Guest
    offered: Offered  # a tool, or what stands for a prompt, a resource or a completion
    method: str
    params: JsonObject  # for the server
    arguments: JsonObject  # of them what a person is shown
    way: Way


class Passing:
    """The one way."""

    def __init__(self, parts: Parts) -> None:
        """Nothing was asked yet."""
        self._parts = parts
        self._recorder = Recorder(parts.audit, parts.clock)
        self._approvals = Approvals(parts.controls)

    def recording(self, guest: Guest, name: str, arguments: JsonObject, *, writes: bool) -> Recording:
        """The records of one act of a guest, by a name that a caller may have made up: without credentials."""
        shown = results.error_words(name[: limits.CODE_NAME_CHARACTERS], self._parts.controls)
        return self._recorder.of(Act(guest=guest, name=shown, arguments=arguments, writes=writes))

    @asynccontextmanager
    async def counted(self, guest: Guest, name: str, arguments: JsonObject) -> AsyncIterator[None]:
        """One of the calls that a guest may have at once. Errors: `BusyError`, recorded."""
        if guest.in_flight >= limits.GATE_CALLS:
            await self.recording(guest, name, arguments, writes=False).refused(BusyError.code, BusyError.code)
            words = f"{limits.GATE_CALLS} calls of this client wait for their answers"
            raise BusyError(words, remedy="wait for one of them")
        guest.in_flight += 1
        try:
            yield
        finally:
            guest.in_flight -= 1

    async def decision(self, errand: Errand, recording: Recording, is_same: Callable[[], bool]) -> str:
        """The word for why it may be done; `is_same` tells whether what was shown is still what is offered.

        Errors, each of them recorded: `NotApprovedError`, `CannotAskError`, `ChangedError`.
        """
        if not taint.needs_approval(errand.guest, errand.offered):
            return ALLOWED
        try:
            said = await self._approvals.sought(errand.guest, errand.offered, errand.arguments, errand.way)
        except NotApprovedError as error:
            await recording.refused(error.rule, error.code)
            raise
        except CannotAskError as error:
            await recording.refused(error.code, error.code)
            raise
        if not is_same():
            words = f"{errand.offered.name} was changed or taken away while a person was asked"
            await recording.refused(ChangedError.code, ChangedError.code)
            raise ChangedError(words, remedy="list what there is, and ask again")
        return said.value

    async def asked(self, errand: Errand, controlled: Controlled) -> JsonObject:
        """The controlled answer of a server. Errors: those of `Upstreams.ask`, `ResultError`."""
        params = {**errand.params, "_meta": dict(errand.way.trace)} if errand.way.trace else errand.params
        server = errand.offered.server
        try:
            found = await self._parts.upstreams.ask(
                server,
                errand.method,
                params,
                seconds=self._parts.topology.servers[server].call_seconds,
                progress=self._progress(errand),
            )
        except ServerRefusedError:
            taint.taints(errand.guest, errand.offered)
            raise
        if "inputRequests" in found:
            raise ResultError(f"the server {server} asks for more input, which this gateway does not pass on")
        made = await _controlled(found, lambda given: _held(controlled(bare(errand.method, given))))
        taint.taints(errand.guest, errand.offered)
        return _marked(made, errand.offered)

    def _progress(self, errand: Errand) -> ReportProgress | None:
        """What a server says of its progress, bounded in number, controlled."""
        report, left = errand.way.progress, limits.GATE_PROGRESS
        if report is None:
            return None

        def told(members: JsonObject) -> None:
            nonlocal left
            kept = {name: members[name] for name in _NUMBERS if _is_number(members.get(name))}
            if left <= 0 or "progress" not in kept:
                return
            left -= 1
            if isinstance(words := members.get("message"), str):
                taint.taints(errand.guest, errand.offered)
                kept["message"] = results.error_words(words, self._parts.controls)
            report(kept)

        return told


async def _controlled(found: JsonObject, controlled: Controlled) -> JsonObject:
    if len(msgspec.json.encode(found)) <= limits.GATE_THREAD_BYTES:
        return controlled(found)
    return await asyncio.to_thread(controlled, found)


def _held(made: JsonObject) -> JsonObject:
    """The same result, if it fits an answer of ours with what is still put around it. Errors: `ResultError`."""
    size = len(jsonio.line(made))
    if size <= limits.GATE_ANSWER_BYTES:
        return made
    raise ResultError(f"its answer has {size} bytes, where {limits.GATE_ANSWER_BYTES} are passed on: ask for less")


def _marked(made: JsonObject, offered: Offered) -> JsonObject:
    """The same result, which says of its taint whose it is and whether that one is trusted."""
    meta = made.get("_meta")
    if not isinstance(meta, dict) or not isinstance(mark := meta.get(MEMBER), dict):
        return made
    trust = "trusted" if offered.trusted else "untrusted"
    return {**made, "_meta": {**meta, MEMBER: {**mark, "server": offered.server, "trust": trust}}}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
