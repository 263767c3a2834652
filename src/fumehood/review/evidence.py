"""The sensors of one step: what was traced, sent, written and said becomes observations in the ledger.

Invariants: a layer is read after its namespace is dead, through the fence, never by path; each sensor states whether
it was active, what it lost and what it cannot see. What npm itself does in INSTALL and PREPARE below its own process
(temporary names that it renames) is counted, not listed: the layers have its outcome.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fumehood.observe import layers, output, paths
from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.model import Collector, Kind, Observation, Phase
from fumehood.observe.output import Captured
from fumehood.observe.strace import TraceParser
from fumehood.observe.syscalls import TracePolicy, TraceReader
from fumehood.review import traffic
from fumehood.review.plan import Step
from fumehood.review.show import show, show_lines
from fumehood.review.work import Work
from fumehood.sandbox.egress import EgressReport, Inspect

if TYPE_CHECKING:
    from fumehood.review.steps import Ran

INSPECT = Inspect(question=parse_question, hello=parse_hello)

# What every program on such a machine reads.
_RUNTIME = (b"/usr/", b"/lib/", b"/lib64/", b"/bin/", b"/sbin/", b"/opt/node/", b"/etc/", b"/proc/", b"/sys/", b"/dev/")
_COMPARED = (Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)
_NPM_PHASES = (Phase.INSTALL, Phase.PREPARE)
_WRITES = (Kind.FILE_CHANGED, Kind.FILE_DELETED, Kind.FILE_CREATED)


class Sensors:
    """The sensors of one step, from before its start until its report."""

    def __init__(self, work: Work, step: Step) -> None:
        """Make ready what the step's trace mode asks for."""
        self._work = work
        self._step = step
        self._parser = TraceParser()
        policy = TracePolicy(program=step.argv[0].encode(), ordinary=_ordinary(work, step), redact=show)
        self._reader = TraceReader(policy)

    @property
    def trace(self) -> Callable[[bytes], None] | None:
        """Where the tracer's bytes go."""
        return self._feed if self._step.trace else None

    def _feed(self, data: bytes) -> None:
        self._reader.take(self._parser.feed(data))

    def report(self, ran: "Ran", egress: EgressReport) -> None:
        """Put what the sensors saw into the ledger."""
        self._reader.take(self._parser.finish())
        self._reader.finish()
        self._report_layer(ran)
        self._report_trace(ran)
        step, ledger = self._step, self._work.ledger
        for seen in traffic.observations(egress, step.phase, step.name, show):
            ledger.observe(seen)
        ledger.collector(traffic.collector(egress, step.phase, step.network.mode))
        self._report_output(ran)

    def _report_layer(self, ran: "Ran") -> None:
        step, stack = self._step, self._work.stack
        counts = {"entries": len(ran.layer.entries)}
        if step.phase in _COMPARED:
            changes = stack.beyond_fetch(ran.layer) if step.phase is Phase.INSTALL else stack.changes(ran.layer)
            where = (step.phase, step.name, layers.LAYER)
            for seen in layers.observations(changes, where, show, self._reader.writers()):
                self._work.ledger.observe(seen)
            counts["changes"] = len(changes)
        self._work.ledger.collector(layers.collector(layers.LAYER, step.phase, ran.layer.lost, counts))

    def _report_trace(self, ran: "Ran") -> None:
        step, ledger = self._step, self._work.ledger
        if step.trace is None:
            return
        layered = frozenset(paths.from_layer(entry.path) for entry in ran.layer.entries)
        own = 0
        for seen in self._reader.observations(step.phase, step.name, layered=layered):
            if step.phase in _NPM_PHASES and _by_npm(seen):
                own += 1
            else:
                ledger.observe(seen)
        collector = self._reader.collector(step.phase, self._parser, step.trace.value)
        ledger.collector(_with_count(collector, "writes_of_npm_itself", own) if own else collector)

    def _report_output(self, ran: "Ran") -> None:
        step, ledger = self._step, self._work.ledger
        streams = tuple(
            Captured(stream=name, data=capture.data, total_bytes=capture.total_bytes)
            for name, capture in (("stdout", ran.stdout), ("stderr", ran.stderr))
        )
        for seen in output.observe(streams, (step.phase, step.name), show_lines):
            ledger.observe(seen)
        ledger.collector(output.collector(step.phase, streams))
        self._work.count("bytes_captured", sum(len(s.data) for s in streams))
        self._work.count("bytes_dropped", sum(s.total_bytes - len(s.data) for s in streams))


def _ordinary(work: Work, step: Step) -> Callable[[bytes], bool]:
    """Which reads say nothing: of the runtime, the workspace and the folders above it; for npm, of its own cache."""
    workspace, home = work.bench.workspace.encode(), work.bench.identity.home.encode()
    above = frozenset({b"/", b"/var", b"/home", b"/tmp", home, workspace})
    below = (*_RUNTIME, workspace + b"/", *((home + b"/.npm/",) if step.phase in _NPM_PHASES else ()))
    return lambda path: path in above or path.startswith(below)


def _by_npm(seen: Observation) -> bool:
    """Whether npm's own process wrote: the first of the step."""
    return seen.kind in _WRITES and seen.detail.get("parent") is None


def _with_count(collector: Collector, name: str, number: int) -> Collector:
    return Collector(
        name=collector.name,
        phase=collector.phase,
        state=collector.state,
        lost=collector.lost,
        why=collector.why,
        limitations=collector.limitations,
        counts={**collector.counts, name: number},
    )
