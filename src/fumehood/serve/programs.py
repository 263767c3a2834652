"""Lend git and ripgrep to the tools: the starter of `sandbox`, as `serve.context` asks for it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from fumehood.core.budget import Budget
from fumehood.sandbox import started, starter
from fumehood.serve.context import Child, Ended


class StarterPrograms:
    """Programs that a starter starts."""

    __slots__ = ("_starter",)

    def __init__(self, running: starter.Starter) -> None:
        """The starter stays its owner's."""
        self._starter = running

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> Child:
        """Start `git` or `rg`. Errors: those of `Starter.start`."""
        return _Child(self._starter.start(program, arguments, environment, budget))


class _Child:
    """A child, whose end is told in the words of a call."""

    __slots__ = ("_child",)

    def __init__(self, child: started.Child) -> None:
        self._child = child

    def chunks(self) -> Iterator[bytes]:
        return self._child.chunks()

    def wait(self) -> Ended:
        ended = self._child.wait()
        return Ended(status=ended.status, stderr=ended.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()
