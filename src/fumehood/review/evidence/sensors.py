"""The sensors of one step: what was traced, sent, written and said becomes observations in the ledger.

Invariants: a layer is read after its namespace is dead, through the fence, never by path; each sensor states whether
it was active, what it lost and what it cannot see; what a sensor gave a moment carries the activity that was under way
then, and the seconds since the release. What npm itself does in INSTALL and PREPARE below its own process
(temporary names that it renames) is counted, not listed: the layers have its outcome.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fumehood.core import limits
from fumehood.fence.walk import Entry, EntryKind
from fumehood.observe import layers, output, paths
from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.layers import EntryLike
from fumehood.observe.model import CollectorState, Kind, Observation, Phase
from fumehood.observe.output import Captured
from fumehood.observe.requests import RequestReader
from fumehood.observe.strace import TraceParser
from fumehood.observe.syscalls import TracePolicy, TraceReader
from fumehood.review import lacking
from fumehood.review.evidence import rooms, traffic
from fumehood.review.evidence.acts import Acts
from fumehood.review.evidence.canaries import Pieces, Written
from fumehood.review.evidence.timeline import Timeline
from fumehood.review.plan import TARGETS, Step
from fumehood.review.show import show, show_lines
from fumehood.review.stack import part
from fumehood.review.work import Work
from fumehood.sandbox.egress import EgressReport, Inspect
from fumehood.sandbox.spec import End

if TYPE_CHECKING:
    from fumehood.review.steps import Ran

INSPECT = Inspect(question=parse_question, hello=parse_hello, requests=RequestReader)

# What every program on such a machine reads: programs and libraries, the loader's and the resolver's files, and what
# Node and the C library ask about the machine. Anything else of /etc, /proc and /sys is worth a line.
_RUNTIME = (
    *(b"/usr/", b"/lib/", b"/lib64/", b"/bin/", b"/sbin/", b"/opt/node/", b"/opt/uv/", b"/dev/"),
    *(b"/etc/ld.so.", b"/etc/ssl/", b"/etc/alternatives/", b"/etc/pki/"),
    *(b"/proc/self/", b"/sys/fs/cgroup", b"/sys/devices/system/cpu", b"/sys/kernel/mm/"),
)
_LOOKED_UP = frozenset(
    [b"/proc/" + name for name in (b"cpuinfo", b"meminfo", b"stat", b"loadavg", b"version_signature", b"uptime")]
    + [b"/proc/sys/vm/overcommit_memory", b"/proc/sys/kernel/cap_last_cap", b"/proc/filesystems"]
    + [b"/etc/" + name for name in (b"hosts", b"resolv.conf", b"nsswitch.conf", b"host.conf", b"gai.conf")]
    + [b"/etc/" + name for name in (b"passwd", b"group", b"localtime", b"services", b"protocols", b"os-release")]
)
_COMPARED = (Phase.FETCH, Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)
TRACER_LOST = "strace was killed, and the target with it: what came after is not known"
_NPM_PHASES = (Phase.INSTALL, Phase.PREPARE)
_WRITES = (Kind.FILE_CHANGED, Kind.FILE_DELETED, Kind.FILE_CREATED)


class Sensors:
    """The sensors of one step, from before its start until its report."""

    def __init__(self, work: Work, step: Step, timeline: Timeline | None = None) -> None:
        """Make ready what the step's trace mode asks for; `timeline` grows while the step runs."""
        self._work = work
        self._timeline = timeline or Timeline(step.name)
        self.acts = Acts()
        self._step = step
        self._untraced = lacking.untraced(work.host, step)
        self._parser = TraceParser()
        self._ordinary = _ordinary(work, step)
        policy = TracePolicy(
            program=step.argv[0].encode(),
            ordinary=self._ordinary,
            redact=show,
            notable=self._notable,
            activity=self._timeline.at,
        )
        self._watch = None
        if work.canaries and step.phase in TARGETS:
            self._watch = work.canaries.begin(step.phase, step.name, self._timeline.at)
            policy = dataclasses.replace(policy, watched=work.canaries.paths, words=self._watch.words)
        self._reader = TraceReader(policy)
        self._released: float | None = None  # the wall clock's seconds

    @property
    def trace(self) -> Callable[[bytes], None] | None:
        """Where the tracer's bytes go."""
        return self._feed if self._step.trace and not self._untraced else None

    def _feed(self, data: bytes) -> None:
        self._reader.take(self._parser.feed(data))

    def report(self, ran: "Ran", egress: EgressReport) -> None:
        """Put what the sensors saw into the ledger."""
        self._reader.take(self._parser.finish())
        self._reader.finish()
        self._released = egress.started_at if egress.started_at is not None else self._reader.begun
        self._report_layer(ran)
        self._report_trace(ran)
        step, ledger = self._step, self._work.ledger
        for seen in traffic.observations(egress, step.phase, step.name, show):
            self._observe(seen)
        ledger.collector(traffic.collector(egress, step.phase, step.network.mode), step=step.name)
        self._report_output(ran)
        self._report_canaries(ran, egress)

    def _report_canaries(self, ran: "Ran", egress: EgressReport) -> None:
        watch = self._watch
        if watch is None:
            return
        watch.egress(egress)
        for name, capture in (("stdout", ran.stdout), ("stderr", ran.stderr)):
            watch.output(name, capture.data)
        entries = {entry.path: entry for entry in ran.layer.entries}
        watch.files(
            [
                Written(
                    path=paths.from_layer(change.path), size=change.after.size, content=_content(ran, entries, change)
                )
                for change in self._changes(ran)
                if change.after is not None
            ]
        )
        for seen in watch.observations(self._reader.opened(), installer=self._step.phase in _NPM_PHASES):
            self._observe(seen)
        self._work.ledger.collector(watch.collector(), step=self._step.name)

    def _observe(self, seen: Observation) -> None:
        self.acts.add(seen)
        bench = self._work.bench
        moment = seen.moment
        if moment is not None:
            seen = dataclasses.replace(seen, step=self._timeline.at(moment))
            if self._released is not None:
                seen.detail.setdefault("at_seconds", round(moment - self._released, 3))
        self._work.ledger.observe(seen, room=rooms.of(seen.kind, seen.detail, bench.identity.home, bench.workspace))

    def _notable(self, path: bytes) -> bool:
        """What no flood of other paths hides; a read of what is ordinary is still none to mention."""
        bench = self._work.bench
        text = path.decode("utf-8", "surrogateescape")
        return not self._ordinary(path) and rooms.of_path(text, bench.identity.home, bench.workspace) != ""

    def _report_layer(self, ran: "Ran") -> None:
        step, stack = self._step, self._work.stack
        counts = {"entries": len(ran.layer.entries)}
        if step.phase in _COMPARED:
            changes = self._changes(ran)
            where = (step.phase, step.name, stack.layering.sensor)
            for seen in layers.observations(changes, where, show, self._reader.writers()):
                self._observe(seen)
            counts["changes"] = len(changes)
        collector = layers.collector(stack.layering.sensor, step.phase, ran.layer.lost, counts)
        self._work.ledger.collector(collector, step=step.name)

    def _changes(self, ran: "Ran") -> list[layers.Change]:
        """What a step's layer tells: of FETCH what is no package, of INSTALL what FETCH did not unpack."""
        stack, bench = self._work.stack, self._work.bench
        if self._step.phase is Phase.FETCH:
            return stack.changes(part(ran.layer, lambda path: not bench.is_package(path)))
        return stack.beyond_fetch(ran.layer) if self._step.phase is Phase.INSTALL else stack.changes(ran.layer)

    def _report_trace(self, ran: "Ran") -> None:
        step, ledger = self._step, self._work.ledger
        if step.trace is None:
            return
        if self._untraced:
            ledger.collector(lacking.no_trace(step, self._untraced), step=step.name)
            ledger.limitation(f"{lacking.NO_TRACE}: {self._untraced}")
            return
        layered = frozenset(paths.from_layer(entry.path) for entry in ran.layer.entries)
        own = 0
        scripted = step.phase is Phase.INSTALL and self._work.bench.uv is None  # a wheel has no script that runs there
        if scripted:
            self._work.count("hooks_run", 0)
        for seen in self._reader.observations(step.phase, step.name, layered=layered):
            if scripted and _by_hook(seen):
                self._work.count("hooks_run", 1)
            if step.phase in _NPM_PHASES and _by_npm(seen):
                own += 1
            else:
                self._observe(seen)
        collector = self._reader.collector(step.phase, self._parser, step.trace.value)
        if own:
            name = f"writes_of_{self._work.bench.installer}_itself"
            collector = dataclasses.replace(collector, counts={**collector.counts, name: own})
        if ran.exit.end is End.SENSOR:
            collector = dataclasses.replace(collector, state=CollectorState.DEGRADED, why=TRACER_LOST)
        ledger.collector(collector, step=step.name)

    def _report_output(self, ran: "Ran") -> None:
        step, ledger = self._step, self._work.ledger
        streams = tuple(
            Captured(stream=name, data=capture.data, total_bytes=capture.total_bytes)
            for name, capture in (("stdout", ran.stdout), ("stderr", ran.stderr))
        )
        for seen in output.observe(streams, (step.phase, step.name), show_lines):
            self._observe(seen)
        ledger.collector(output.collector(step.phase, streams), step=step.name)
        self._work.count("bytes_captured", sum(len(s.data) for s in streams))
        self._work.count("bytes_dropped", sum(s.total_bytes - len(s.data) for s in streams))


def _ordinary(work: Work, step: Step) -> Callable[[bytes], bool]:
    """Which reads say nothing: of the runtime, the workspace and the folders above it; for npm, of its own cache."""
    workspace, home = work.bench.workspace.encode(), work.bench.identity.home.encode()
    known = _LOOKED_UP | frozenset({b"/", b"/var", b"/home", b"/tmp", home, workspace})
    caches = (home + b"/.npm/", home + b"/.cache/uv/") if step.phase in _NPM_PHASES else ()
    below = (*_RUNTIME, workspace + b"/", *caches)
    return lambda path: path in known or path.startswith(below)


def _content(ran: "Ran", entries: Mapping[bytes, EntryLike], change: layers.Change) -> Pieces | None:
    """How to read what a change left; None where it left no other content than before."""
    entry, before, after = entries.get(change.path), change.before, change.after
    if not isinstance(entry, Entry) or entry.kind is not EntryKind.FILE or after is None:
        return None
    if before is not None and before.sha256 is not None and before.sha256 == after.sha256:
        return None
    return lambda: ran.layer.pieces(entry, limits.CANARY_PIECE_BYTES)


def _by_hook(seen: Observation) -> bool:
    """Whether npm started a script: its own child became a program."""
    return seen.kind is Kind.PROCESS_EXEC and seen.detail.get("parent") == 1 and seen.detail.get("outcome") == "started"


def _by_npm(seen: Observation) -> bool:
    """Whether npm's own process wrote: the first of the step."""
    return seen.kind in _WRITES and seen.detail.get("parent") is None
