"""The audit log that the operator's settings name, for the calls of one run by the user of this process."""

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

from fumehood.code.gate import AuditRecord
from fumehood.code.gated import Audit
from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.gateway.audit import calls, writer
from fumehood.gateway.audit.faults import AuditPlaceError


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


def _outside(file: Path, workspace: Path | None) -> None:
    """`AuditPlaceError` for a log that the served tools could read."""
    if workspace is not None and file.parent.resolve().is_relative_to(workspace.resolve()):
        words = "the audit log is refused: it lies in the workspace, which is served"
        raise AuditPlaceError(words, remedy="let log.audit_file name another folder")
