"""The layers of a review, in order, and what they make together.

Invariants: a layer is read after its namespace is dead, once, through the fence; its descriptor stays open until the
review ends, so that a digest is of the file that was listed. INSTALL is compared with FETCH above the same base: what
differs is what the scripts did.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fumehood.fence.walk import Entry, opened_layer
from fumehood.observe.layers import Change, View, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """One layer that was read."""

    path: Path
    entries: tuple[Entry, ...]
    digest: Callable[[Entry], str | None]
    lost: dict[str, int]  # grows while digests are asked for


class Stack:
    """What the next step stands on."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.layers: list[Path] = []
        self._view = View()
        self._fetched: Layered | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Close every layer at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every layer."""
        self._open.close()

    def read(self, path: Path) -> Layered:
        """List a layer that nobody writes any more."""
        walk = self._open.enter_context(opened_layer(path))
        return Layered(path=path, entries=tuple(walk), digest=walk.digest, lost=walk.lost)

    def push(self, layer: Layered) -> None:
        """Put a layer on top."""
        self.layers.append(layer.path)
        self._view = self._view.with_layer(layer.entries, layer.digest)

    def set_fetched(self, layer: Layered) -> None:
        """Keep FETCH's layer beside the stack, for the comparison."""
        self._fetched = layer

    def changes(self, layer: Layered) -> list[Change]:
        """How a layer on top would change the tree."""
        return compare(self._view, self._view.with_layer(layer.entries, layer.digest))

    def beyond_fetch(self, layer: Layered) -> list[Change]:
        """What INSTALL's layer has and FETCH's has not, both above the present tree."""
        if self._fetched is None:
            return self.changes(layer)
        fetched = self._view.with_layer(self._fetched.entries, self._fetched.digest)
        return compare(fetched, self._view.with_layer(layer.entries, layer.digest))
