"""The audit log that the operator's settings name: for one run of this user, and for a server behind its walls."""

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from pathlib import Path

from fumehood.code.gate import AuditRecord
from fumehood.code.gated import Audit
from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.gateway.audit import calls, scribe, writer
from fumehood.gateway.audit.faults import AuditPlaceError
from fumehood.gateway.audit.scribe import Scribe
from fumehood.sandbox.containment import Containment
from fumehood.serve.records import Record


@contextlib.asynccontextmanager
async def kept(settings: Settings, workspace: Path | None) -> AsyncIterator[Audit | None]:
    """What keeps the records of a run; None where no log is named. Errors: those of `gateway.audit.faults`."""
    if settings.log.audit_file is None:
        yield None
        return
    file = Path(settings.log.audit_file)
    _outside(file, workspace)
    caller = calls.Caller(source="code", who=calls.user(os.getuid()), run=secrets.token_hex(8))
    async with writer.opened(file, SystemClock()) as log:

        def keep(record: AuditRecord) -> Awaitable[None]:
            return log.record(calls.event(record, caller))

        yield keep


@contextlib.contextmanager
def served(settings: Settings, workspace: Path, *, audited: bool = False) -> Iterator["Served | None"]:
    """What keeps the records of a server; None where no log is named, or `audited` says that its caller keeps them.

    Errors: those of `gateway.audit.faults`.
    """
    if settings.log.audit_file is None or audited:
        yield None
        return
    file = Path(settings.log.audit_file)
    _outside(file, workspace)
    with scribe.start(file, askers=settings.workspace.running) as writing:
        yield Served(writing)


class Served:
    """A writer in a process of its own, as `serve.recording` asks for one."""

    def __init__(self, writing: Scribe) -> None:
        """All records are of one run."""
        self._writing = writing
        self._run = secrets.token_hex(8)
        self._uid = os.getuid()

    @property
    def containments(self) -> Sequence[Containment]:
        """The walls of the writer."""
        return self._writing.containments

    @property
    def is_alive(self) -> bool:
        """Whether a record could be kept."""
        return self._writing.is_alive

    def ready(self) -> None:
        """Return once the log is open. Errors: those of `gateway.audit.faults`."""
        self._writing.ready()

    def keep(self, record: Record) -> None:
        """Return when a record is kept. Errors: `AuditError`."""
        who = calls.who(record.principal, self._uid)
        self._writing.keep(calls.served(record, calls.Caller(source="serve", who=who, run=self._run)))


def _outside(file: Path, workspace: Path | None) -> None:
    """`AuditPlaceError` for a log that the served tools could read."""
    if workspace is not None and file.parent.resolve().is_relative_to(workspace.resolve()):
        words = "the audit log is refused: it lies in the workspace, which is served"
        raise AuditPlaceError(words, remedy="let log.audit_file name another folder")
