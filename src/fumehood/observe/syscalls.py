"""From the events of a trace to observations: what the target's processes did, tried, and were refused. Pure.

Bounded: alike things are counted together, each kind keeps TRACE_RECORDS, and what was not kept is counted.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.observe import connects, files, processes
from fumehood.observe.connects import Connects
from fumehood.observe.files import Files, Opened, Touch
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.observe.processes import Process, ProcessTree
from fumehood.observe.strace import Call, Ended, Event, TraceParser

COLLECTOR = "strace"
_ALWAYS = (
    "A trace shows system calls. What happens in memory, or through a mapped file or a pipe, is not in it.",
    "Words longer than 200 bytes, and command lines longer than 64 words, are cut.",
    "Only of an open is the path the kernel's answer. Elsewhere it is what the target said; a thread may change that.",
    "'connected' means that the sandbox's own listener took the connection; the egress records say what became of it.",
    "A shell looks for a command before it executes it: a missing one is no failed exec, but the exit status 127.",
)
_NOT_REFUSED = (
    "Calls that the sandbox's own filter refuses are not visible in this mode: their absence means nothing.",
)
_NOT_READ = ("Reads are recorded when a file is opened, not when it is only looked at.",)
_NO_FILES = ("File accesses are not traced in this mode; the layer shows what was written.",)
LIMITATIONS: dict[str, tuple[str, ...]] = {  # by the mode of the trace
    "plain": _ALWAYS,
    "fast": _ALWAYS + _NOT_REFUSED + _NOT_READ,
    "network": _ALWAYS + _NOT_REFUSED + _NO_FILES,
}
_REFUSALS = frozenset({"EPERM", "ENOSYS", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT"})
_WHAT = re.compile(rb"[A-Z][A-Z0-9_|]{2,60}")  # a first argument that says what was wanted: AF_PACKET, PTRACE_ATTACH
_UNUSUAL_CLONE = re.compile(rb"CLONE_(?:NEW|UNTRACED|PTRACE)")
_LIBUV_RINGS = (b"256, ", b"64, ")  # the sizes that libuv asks for
_KILLED = "SIGSYS"
_BEGINNINGS = frozenset({"set_robust_list", "sigaltstack"})  # traced so that strace lets a new task run: no facts
_SHOWN_ARGUMENTS = 300  # of a refused call's arguments


def no_activity(_: float | None) -> str:
    """Nothing is told apart by its moment."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """What a reader of traces is told by its caller."""

    program: bytes  # the target's program, as its execve names it
    ordinary: Callable[[bytes], bool]  # whether reading a path is nothing to mention; paths as the target sees them
    redact: Callable[[bytes], str]  # makes words of the target safe to keep and inert to show
    notable: Callable[[bytes], bool] = files.nothing  # paths that are always mentioned, and that no flood can hide
    activity: Callable[[float | None], str] = no_activity  # what was under way at a moment: never counted together
    watched: Collection[bytes] = ()  # paths of which each process that opens them is told
    words: processes.Words = processes.unheard  # is given every command line, as it was


@dataclass(slots=True, kw_only=True, eq=False)
class _Refusal:
    call: str
    error: str
    process: Process
    arguments: str
    usual: str
    moment: float | None = None
    count: int = 1


class TraceReader:
    """One trace. `take` its events as they come, `finish`, then ask for observations."""

    def __init__(self, policy: TracePolicy) -> None:
        """Nothing seen yet."""
        self._policy = policy
        self.tree = ProcessTree(policy.program, policy.redact, policy.words)
        self._files = Files(policy.ordinary, policy.notable, policy.activity, policy.watched)
        self._connects = Connects(policy.activity)
        self._refused: dict[tuple[str, str, int, str, bytes, str], _Refusal] = {}
        self._lost: dict[str, int] = {}
        self.calls = 0

    def take(self, events: Iterable[Event]) -> None:
        """Look at more of the trace."""
        for event in events:
            if isinstance(event, Call):
                if event.name in _BEGINNINGS:
                    continue
                process = self.tree.of(event)
                if process is not None:
                    self.calls += 1
                    self._look(process, event)
            elif isinstance(event, Ended):
                if event.signal == _KILLED:
                    self._killed(event.pid, b"", event.moment)
                self.tree.end(event)
            elif event.name == _KILLED:
                self._killed(event.pid, event.detail, event.moment)

    def finish(self) -> None:
        """The trace is at its end."""
        self.tree.finish()
        self._connects.finish()

    def opened(self) -> list[Opened]:
        """Who opened which of the watched files so that it could be read."""
        return list(self._files.opened.values())

    def writers(self) -> dict[bytes, tuple[int, float | None]]:
        """Which process first wrote, made or changed each path, and when; paths as the target sees them."""
        first: dict[bytes, tuple[int, float | None]] = {}
        for touch in self._files.changes.values():
            first.setdefault(touch.path, (touch.process.number, touch.moment))
        return first

    @property
    def begun(self) -> float | None:
        """When the target's program was first executed; None while it was not, or where the trace has no moments."""
        return self.tree.execs[0].moment if self.tree.execs else None

    def observations(self, phase: Phase, step: str, *, layered: Collection[bytes] = ()) -> list[Observation]:
        """Everything that was seen. Changes of a path in `layered` are left out: the layer says more about them."""
        made = _Maker(phase, step, self._policy.redact)
        for found in self.tree.execs:
            made.exec(found)
        for process in self.tree.processes:
            made.exit(process)
        for attempt in self._connects.attempts():
            made.connect(attempt)
        for refusal in self._refused.values():
            made.refusal(refusal)
        for touch in self._files.reads.values():
            made.touch(Kind.FILE_READ, touch)
        for touch in self._files.refused.values():
            made.touch(Kind.FILE_REFUSED, touch)
        for touch in self._files.changes.values():
            if touch.path not in layered:
                made.touch(Kind.FILE_DELETED if touch.how == ["delete"] else Kind.FILE_CHANGED, touch)
        return made.observations

    def collector(self, phase: Phase, parser: TraceParser, mode: str) -> Collector:
        """What this sensor did, lost, and cannot see. Without the target's first exec it saw nothing: unavailable."""
        lost = {**parser.lost, **self.lost}
        state = CollectorState.DEGRADED if lost else CollectorState.ACTIVE
        why = ", ".join(f"{what}: {count}" for what, count in sorted(lost.items()))
        if not self.tree.started:
            state, why = CollectorState.UNAVAILABLE, "the trace does not show the start of the target"
        return Collector(
            name=COLLECTOR,
            phase=phase,
            state=state,
            lost=sum(lost.values()),
            why=why,
            limitations=LIMITATIONS[mode],
            counts={"lines": parser.lines, "calls": self.calls, "processes": len(self.tree.processes)},
        )

    @property
    def lost(self) -> dict[str, int]:
        """What was seen and not kept, by kind."""
        lost = {**self._lost, **self.tree.lost, **self._files.lost}
        if self._connects.lost:
            lost["connects"] = self._connects.lost
        return lost

    def _killed(self, pid: int, detail: bytes, moment: float | None) -> None:
        """The filter kills calls of a foreign architecture; the signal is all that a trace shows of them."""
        call = Call(pid, "unknown", detail, -1, _KILLED, None, None, moment)
        process = self.tree.of(call)
        if process is not None:
            self._refuse(process, call, _KILLED)

    def _look(self, process: Process, call: Call) -> None:
        if call.name in files.CALLS:
            self._files.take(process, call)
        elif call.name in connects.CALLS:
            self._connects.take(process, call)
            if call.name == "socket" and call.error in _REFUSALS:
                self._refuse(process, call, call.error or "")
        elif call.error in _REFUSALS and call.name not in processes.EXECS:
            self._refuse(process, call, call.error or "")

    def _refuse(self, process: Process, call: Call, error: str) -> None:
        usual = _usual(process, call)
        what = _WHAT.match(call.arguments)
        activity = self._policy.activity(call.moment)
        key = (call.name, error, process.number, usual, what[0] if what else b"", activity)
        known = self._refused.get(key)
        if known is not None:
            known.count += 1
        elif len(self._refused) >= limits.TRACE_RECORDS:
            self._lost["refused"] = self._lost.get("refused", 0) + 1
        else:
            shown = self._policy.redact(call.arguments[:_SHOWN_ARGUMENTS])
            self._refused[key] = _Refusal(
                call=call.name, error=error, process=process, arguments=shown, usual=usual, moment=call.moment
            )


class _Maker:
    """Writes observations of one phase and step."""

    def __init__(self, phase: Phase, step: str, redact: Callable[[bytes], str]) -> None:
        self._phase = phase
        self._step = step
        self._redact = redact
        self.observations: list[Observation] = []

    def exec(self, found: processes.Exec) -> None:
        detail: dict[str, Value] = {
            **_who(found.process),
            "program": found.program,
            "argv": list(found.argv),
            "cut": found.cut,
            "outcome": found.error or "started",
        }
        if found.tried:
            detail["tried"] = list(found.tried)
        self._add(Kind.PROCESS_EXEC, detail, found.moment, returned=found.error != "unfinished")

    def exit(self, process: Process) -> None:
        if process.ended:
            detail: dict[str, Value] = {
                **_who(process),
                "program": self._redact(process.program),
                "status": process.status,
                "signal": process.signal,
            }
            self._add(Kind.PROCESS_EXIT, detail, process.moment)

    def connect(self, attempt: connects.Attempt) -> None:
        address = attempt.address
        detail: dict[str, Value] = {**_who(attempt.process), "call": attempt.call, "family": address.family}
        if address.family == "unix":
            detail |= {"path": self._redact(address.path), "abstract": address.abstract}
        else:
            detail |= {"address": address.host, "port": address.port, "protocol": attempt.protocol}
        detail |= {"outcome": attempt.outcome, "count": attempt.count}
        kind = Kind.NETWORK_OTHER if attempt.call == "bind" else Kind.NETWORK_CONNECT
        self._add(kind, detail, attempt.moment, returned=attempt.outcome not in (None, "in progress"))

    def refusal(self, refusal: _Refusal) -> None:
        detail: dict[str, Value] = {
            **_who(refusal.process),
            "call": refusal.call,
            "error": refusal.error,
            "arguments": refusal.arguments,
            "count": refusal.count,
        }
        if refusal.usual:
            detail["usual"] = refusal.usual
        self._add(Kind.PROCESS_REFUSED, detail, refusal.moment)

    def touch(self, kind: Kind, touch: Touch) -> None:
        detail: dict[str, Value] = {
            **_who(touch.process),
            "path": self._redact(touch.path),
            "how": "+".join(touch.how),
            "outcome": touch.outcome,
            "count": touch.count,
        }
        if touch.assumed:
            detail["assumed"] = True
        self._add(kind, detail, touch.moment, returned=touch.outcome is not None)

    def _add(self, kind: Kind, detail: dict[str, Value], moment: float | None, *, returned: bool = True) -> None:
        fidelity = Fidelity.OBSERVED if returned else Fidelity.ATTEMPTED
        self.observations.append(
            Observation(
                phase=self._phase,
                step=self._step,
                kind=kind,
                collector=COLLECTOR,
                fidelity=fidelity,
                detail=detail,
                moment=moment,
            )
        )


def _usual(process: Process, call: Call) -> str:
    """Why a refused call is made at every start of such a program; empty when it is not."""
    if call.error != "ENOSYS":
        return ""
    if call.name == "clone3" and _UNUSUAL_CLONE.search(call.arguments) is None:
        return "the C library tries it before clone, at each new thread"
    if call.name == "io_uring_setup" and process.program.endswith(b"/node") and call.arguments.startswith(_LIBUV_RINGS):
        return "Node tries it at each start"
    return ""


def _who(process: Process) -> dict[str, Value]:
    """The process and its parent: None for the target's first, 0 where the trace does not show whose child it is."""
    if process.parent is None:
        return {"process": process.number, "parent": None if process.number == 1 else 0}
    return {"process": process.number, "parent": process.parent.number}
