"""One short question put to a program of ours or of the system, whose failure is an answer too.

Holds: never raises for what the program does; what it says is bounded by `launch.run_tool`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.errors import FumehoodError
from fumehood.core.limits import PROBE_SECONDS
from fumehood.sandbox.launch import run_tool

_BARE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program said; `status` is None when it did not start or did not end in time."""

    status: int | None
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        """It ended with 0."""
        return self.status == 0

    @property
    def why(self) -> str:
        """The last line of its complaint, for a person."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ("" if self.ok else f"ended with status {self.status}")


def ask(argv: Sequence[str | Path], *, pass_fds: Sequence[int] = (), seconds: float = PROBE_SECONDS) -> Answer:
    """Run `argv` to its end and give back what it said."""
    try:
        done = run_tool([str(word) for word in argv], timeout_seconds=seconds, pass_fds=pass_fds, environment=_BARE)
    except FumehoodError as error:
        return Answer(status=None, stderr=error.message)
    return Answer(
        status=done.status, stdout=done.stdout.decode("utf-8", "replace"), stderr=done.stderr.decode("utf-8", "replace")
    )
