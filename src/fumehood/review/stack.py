"""The layers of a review, in order, and what they make together.

Invariants: a layer is read after its namespace is dead, once, through the fence; its descriptor stays open until the
review ends, so that a digest is of the file that was listed. INSTALL is compared with FETCH above the same base: what
differs is what the scripts did. Whether a step stands on an overlay or on a copy is decided once, in `layering_for`;
either way a step's layer is the list of what it changed.
"""

import contextlib
import dataclasses
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from fumehood.core.errors import TooLargeError
from fumehood.fence import openat2
from fumehood.fence.copy import copy_trees
from fumehood.fence.walk import Entry, opened_layer
from fumehood.observe import layers
from fumehood.observe.layers import Change, EntryLike, View, Whiteout, compare
from fumehood.review.states import ReviewEndedError, State
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.runs import Layer, Run
from fumehood.sandbox.spec import Overlay, PlainFolder

_BY_COPIES = "each step ran on a copy of the tree, and what it changed is the difference of two listings"


def _none(entry: Entry, size: int) -> Iterator[bytes]:
    del entry, size
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """One layer that was read."""

    path: Path
    entries: tuple[EntryLike, ...]
    digest: Callable[[Entry], str | None]
    lost: dict[str, int]  # grows while digests are asked for
    pieces: Callable[[Entry, int], Iterator[bytes]] = _none  # the content of one of its files
    whole: bool = False  # the folder holds the whole tree, of which `entries` are what differs from the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """What a step is given to write to."""

    mount: Overlay | PlainFolder
    view: View  # the tree that it starts from
    held_bytes: int = 0  # that are in the folder before it starts
    left_out: tuple[str, ...] = ()  # what the tree before had and this one has not, in words


class Layering(Protocol):
    """How a step comes by the tree below it, and how what it changed is learnt."""

    sensor: str  # `layers.LAYER` or `layers.SNAPSHOT`
    plain: bool  # whether no overlay writes there
    limitations: tuple[str, ...]

    def lay(self, layer: Layer, below: Sequence[Path], view: View) -> Laid:
        """Make ready what a step writes to, above the folders `below`, the first at the bottom."""
        ...

    def changed(self, listed: "Layered", view: View) -> "Layered":
        """A step's folder, as it was listed, as the layer above the tree that it started from."""
        ...


class Overlays:
    """The kernel keeps what a step changes in a layer of its own."""

    sensor = layers.LAYER
    plain = False
    limitations: tuple[str, ...] = ()

    def lay(self, layer: Layer, below: Sequence[Path], view: View) -> Laid:
        """Mount an empty layer over the others."""
        return Laid(mount=Overlay(lowers=tuple(below), upper=layer.upper, work=layer.work), view=view)

    def changed(self, listed: Layered, view: View) -> Layered:
        """What was listed: an upper layer has nothing else."""
        del view
        return listed


class Copies:
    """Each step works on a copy of the tree, and what it changed is the difference of two listings."""

    sensor = layers.SNAPSHOT
    plain = True

    def __init__(self, owner: int | None, why: str) -> None:
        """Copies belong to `owner`; None: to us. `why` there is no overlay."""
        self._owner = owner
        self.limitations: tuple[str, ...] = (f"no overlay can be mounted on this host ({why}): {_BY_COPIES}",)

    def lay(self, layer: Layer, below: Sequence[Path], view: View) -> Laid:
        """Copy the folders into the layer's."""
        with contextlib.ExitStack() as stack:
            sources = [_opened(path, stack) for path in below]
            try:
                copied = copy_trees(sources, _opened(layer.upper, stack), owner=self._owner)
            except TooLargeError as error:
                raise ReviewEndedError(State.TARGET_FAILED, "layer_size", error.message) from error
        return Laid(
            mount=PlainFolder(upper=layer.upper),
            view=view.with_layer([Whiteout(path=path) for path in copied.left_out if view.get(path)], layers.unknown),
            held_bytes=copied.disk_bytes,
            left_out=layers.counted([*copied.left_out.values()], copied.lost),
        )

    def changed(self, listed: Layered, view: View) -> Layered:
        """The entries that differ from the tree before, and whiteouts for those that are gone."""
        after = View().with_layer(listed.entries, listed.digest)
        entries = tuple(layers.difference(view, after))
        return dataclasses.replace(listed, entries=entries, whole=True)


def layering_for(host: HostFacts, run: Run) -> Layering:
    """Overlays where this host mounts them, else copies."""
    if not host.no_overlay:
        return Overlays()
    return Copies(owner=run.uid if os.geteuid() == 0 else None, why=host.no_overlay)


def _opened(path: Path, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, openat2.FOLDER | os.O_NOFOLLOW)
    stack.callback(os.close, descriptor)
    return descriptor


def part(layer: Layered, belongs: Callable[[bytes], bool]) -> Layered:
    """A layer with those of its entries alone whose path belongs."""
    return dataclasses.replace(layer, entries=tuple(entry for entry in layer.entries if belongs(entry.path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a stack was at a moment."""

    layers: tuple[Path, ...]
    view: View


class Stack:
    """What the next step stands on."""

    def __init__(self, layering: Layering | None = None) -> None:
        """Nothing yet; on overlays unless another way is given."""
        self.layering: Layering = layering or Overlays()
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

    def lay(self, layer: Layer) -> Laid:
        """Make ready what the next step writes to."""
        laid = self.layering.lay(layer, self.layers, self._view)
        self._view = laid.view
        return laid

    def read(self, path: Path) -> Layered:
        """List a folder that we made ourselves."""
        return self._listed(path)

    def read_step(self, laid: Laid) -> Layered:
        """List what a step changed, once nobody writes there any more."""
        return self.layering.changed(self._listed(laid.mount.upper), self._view)

    def push(self, layer: Layered) -> None:
        """Put a layer on top."""
        self.layers = [layer.path] if layer.whole else [*self.layers, layer.path]
        self._view = self._view.with_layer(layer.entries, layer.digest)

    def closed(self, path: str) -> str:
        """The first folder on the way to `path`, itself included, that its owner cannot enter; empty: none."""
        parts = path.encode().split(b"/")
        for count in range(1, len(parts) + 1):
            placed = self._view.get(b"/".join(parts[:count]))
            if placed is not None and not placed.entry.mode & stat.S_IXUSR:
                return b"/".join(parts[:count]).decode()
        return ""

    def mark(self) -> Mark:
        """What the next step would stand on now."""
        return Mark(layers=tuple(self.layers), view=self._view)

    def rewind(self, mark: Mark) -> None:
        """Let the next step stand on what there was at the mark; what came since stays on disk, out of its sight."""
        self.layers = list(mark.layers)
        self._view = mark.view

    def set_fetched(self, layer: Layered, packages: Callable[[bytes], bool]) -> None:
        """Keep what FETCH unpacked beside the stack, for the comparison; whatever else it has hides nothing later."""
        self._fetched = part(layer, packages)

    def changes(self, layer: Layered) -> list[Change]:
        """How a layer on top would change the tree."""
        return compare(self._view, self._view.with_layer(layer.entries, layer.digest))

    def beyond_fetch(self, layer: Layered) -> list[Change]:
        """What INSTALL's layer has and FETCH's has not, both above the present tree."""
        if self._fetched is None:
            return self.changes(layer)
        fetched = self._view.with_layer(self._fetched.entries, self._fetched.digest)
        return compare(fetched, self._view.with_layer(layer.entries, layer.digest))

    def _listed(self, path: Path) -> Layered:
        walk = self._open.enter_context(opened_layer(path, plain=self.layering.plain))
        return Layered(path=path, entries=tuple(walk), digest=walk.digest, lost=walk.lost, pieces=walk.pieces)
