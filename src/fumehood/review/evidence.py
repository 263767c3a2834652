"""The sensors of one step: what was traced, sent, written and said becomes observations in the ledger.

Invariants: a layer is read after its namespace is dead, through the fence, never by path; each sensor states whether
it was active, what it lost and what it cannot see.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.strace import TraceParser
from fumehood.observe.syscalls import TracePolicy, TraceReader
from fumehood.review import traffic
from fumehood.review.plan import Step
from fumehood.review.show import show
from fumehood.review.work import Work
from fumehood.sandbox.egress import EgressReport, Inspect

if TYPE_CHECKING:
    from fumehood.review.steps import Ran

INSPECT = Inspect(question=parse_question, hello=parse_hello)

_RUNTIME = (b"/usr/", b"/lib/", b"/lib64/", b"/bin/", b"/sbin/", b"/opt/node/", b"/etc/", b"/proc/", b"/sys/", b"/dev/")


class Sensors:
    """The sensors of one step, from before its start until its report."""

    def __init__(self, work: Work, step: Step) -> None:
        """Make ready what the step's trace mode asks for."""
        self._work = work
        self._step = step
        self._parser = TraceParser()
        workspace = work.bench.workspace.encode()
        policy = TracePolicy(
            program=step.argv[0].encode(),
            ordinary=lambda path: path.startswith(_RUNTIME) or path == workspace or path.startswith(workspace + b"/"),
            redact=show,
        )
        self._reader = TraceReader(policy)

    @property
    def trace(self) -> Callable[[bytes], None] | None:
        """Where the tracer's bytes go."""
        return self._feed if self._step.trace else None

    def _feed(self, data: bytes) -> None:
        self._reader.take(self._parser.feed(data))

    def report(self, ran: "Ran", egress: EgressReport) -> None:
        """Put what the sensors saw into the ledger."""
        ledger, step = self._work.ledger, self._step
        if step.trace:
            self._reader.take(self._parser.finish())
            self._reader.finish()
            for seen in self._reader.observations(step.phase, step.name):
                ledger.observe(seen)
            ledger.collector(self._reader.collector(step.phase, self._parser, step.trace.value))
        for seen in traffic.observations(egress, step.phase, step.name, show):
            ledger.observe(seen)
        ledger.collector(traffic.collector(egress, step.phase, step.network.mode))
        del ran
