"""A context over a folder, and a stand-in for the starter that starts ripgrep as it would, without its walls."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.denylist import Denylist
from fumehood.fence.workspace import Workspace
from fumehood.serve.access import Access
from fumehood.serve.context import Context, Definition, Ended

RIPGREP = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which("rg")


class PlainChild:
    """A child as `serve.context.Child` has it."""

    def __init__(
        self, argv: Sequence[str | bytes], environment: Mapping[str, str], root: Path, ended: Callable[[], None]
    ) -> None:
        self._ended = ended
        self._popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root, env=environment
        )

    def chunks(self) -> Iterator[bytes]:
        self._out, self._err = self._popen.communicate()
        self._ended()
        for place in range(0, min(len(self._out), limits.CHILD_OUTPUT_BYTES), 65536):
            yield self._out[place : place + 65536]

    def wait(self) -> Ended:
        if not hasattr(self, "_err"):
            self._out, self._err = self._popen.communicate()
        status = self._popen.returncode
        return Ended(status=128 - status if status < 0 else status, stderr=self._err[: limits.CHILD_STDERR_BYTES])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.communicate()


@dataclass
class PlainPrograms:
    """Starts ripgrep in a folder. `ended` is called when it has, for what a repository does meanwhile."""

    root: Path
    started: list[Sequence[str | bytes]] = field(default_factory=list)
    ended: Callable[[], None] = lambda: None

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> PlainChild:
        assert program == "rg"
        assert RIPGREP
        assert sum(map(len, arguments)) < 128 * 1024  # what the starter takes
        budget.check()
        self.started.append(arguments)
        return PlainChild([RIPGREP, *arguments], environment, self.root, self.ended)


class NoSymbols:
    """No language is known."""

    def definitions(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        raise AssertionError(language, len(source), budget)


@dataclass
class Served:
    """A folder, and the context of a call over it."""

    root: Path
    context: Context
    programs: PlainPrograms

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


def plain_context(
    workspace: Workspace, root: Path, settings: WorkspaceSettings | None = None, budget: Budget | None = None
) -> Served:
    """A context over an open workspace."""
    programs = PlainPrograms(root)
    context = Context(
        access=Access(workspace, Denylist(), name=root.name),
        settings=settings or WorkspaceSettings(),
        budget=budget or Budget(60.0),
        programs=programs,
        symbols=NoSymbols(),
    )
    return Served(root=root, context=context, programs=programs)
