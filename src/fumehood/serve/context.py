"""What a call may use: one workspace behind its policy, its limits, its time, and the two programs that answer it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from fumehood.core.budget import Budget
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: its status (128 + n for signal n), and the beginning of what it wrote to stderr."""

    status: int
    stderr: bytes


class Child(Protocol):
    """One running program. Its output is read in chunks; whoever leaves the block early kills it."""

    def chunks(self) -> Iterator[bytes]:
        """Its stdout until its end or CHILD_OUTPUT_BYTES; raises when the budget is used up, after killing it."""
        ...

    def wait(self) -> Ended:
        """Wait for its end within the budget; what is still unread is dropped."""
        ...

    def __enter__(self) -> Self:
        """Own it."""
        ...

    def __exit__(self, *_: object) -> None:
        """Kill it if it runs, and let go of it."""
        ...


class Programs(Protocol):
    """Starts git and ripgrep, in the root of the workspace, behind walls of their own."""

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> Child:
        """Start `git` or `rg`; UnsupportedError when this host has none, or its walls cannot stand."""
        ...


class Symbols(Protocol):
    """Reads definitions out of source text, in a process of its own."""

    def definitions(self, language: str, source: bytes, budget: Budget) -> "Sequence[Definition] | None":
        """Every definition in `source`; None when it does not parse, or the process died of it.

        `Definitions` tells whether all of it was understood. `UnsupportedError` where no grammar can be used.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A name that source text defines; lines count from 1."""

    name: str
    kind: str  # function, class, method, type, constant, variable, module, macro …
    first_line: int
    last_line: int
    container: str = ""  # the definition around it


class Definitions(tuple[Definition, ...]):  # noqa: SLOT001 - a tuple of any length takes no slots
    """The definitions of one source in their order; `is_whole` is False where its tree has a fault."""

    is_whole: bool = True

    @classmethod
    def partly(cls, found: Iterable[Definition]) -> Self:
        """Those of a source that was not all understood."""
        made = cls(found)
        made.is_whole = False
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything of one call."""

    access: Access
    settings: WorkspaceSettings
    budget: Budget
    programs: Programs
    symbols: Symbols
