"""What an overlay's layers say: the tree that they make together, and how two trees differ. Pure.

A view is a merged tree: paths and what lies there. Putting a layer on a view follows the kernel's rules (whiteouts,
opaque folders, a file over a folder), so that a phase's changes, the difference between two phases, and a comparison
of snapshots are one function: `compare`.

Invariants: nothing is opened here; content is known by digests that the caller's function gives, asked for only where
two entries could differ. A folder that was deleted is one change that says how much it held. A rename is a deletion and
a creation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from fumehood.observe import paths
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value

LAYER, SNAPSHOT = "layer", "snapshot"
_BOTH = (
    "A file that is made and deleted inside one phase is in no layer and no snapshot; a trace may show it.",
    "Times, owners and extended attributes are not compared; a file that was only touched is no change.",
    "What is written to /dev/shm, or only to memory, is not seen.",
    "A rename shows as a deletion and a creation.",
)
LIMITATIONS: dict[str, tuple[str, ...]] = {
    LAYER: _BOTH,
    SNAPSHOT: (
        *_BOTH,
        "A snapshot is taken before and after a phase by reading every file, not by the kernel's record.",
        "FIFOs, sockets, devices and extended attributes of one phase are not there in the next.",
    ),
}
UNREAD = "its content could not be compared: perhaps it is the same"
FORGED = "a whiteout for which nothing lay below"


class EntryLike(Protocol):
    """One name in a layer; what `fence.walk` gives fits."""

    @property
    def path(self) -> bytes:
        """Relative to the layer, no leading slash."""
        ...

    @property
    def kind(self) -> str:
        """`file`, `folder`, `link`, `whiteout` or `other`."""
        ...

    @property
    def mode(self) -> int:
        """Permission bits."""
        ...

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    @property
    def link(self) -> bytes | None:
        """Where a link points."""
        ...

    @property
    def marks(self) -> tuple[str, ...]:
        """The overlay xattrs on it."""
        ...

    @property
    def opaque(self) -> bool:
        """Whether it hides what lies below."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Whiteout:
    """The word for "deleted" where no overlay wrote one."""

    path: bytes
    kind: str = "whiteout"
    mode: int = 0
    size: int = 0
    link: bytes | None = None
    marks: tuple[str, ...] = ()
    opaque: bool = False


Digest: TypeAlias = Callable[[Any], str | None]  # takes the entries that it came with


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry, and how to learn its content."""

    entry: EntryLike
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What lies at a path at one moment."""

    kind: str
    mode: int
    size: int
    sha256: str | None = None  # of a file whose content was asked for and could be read
    link: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that differs."""

    path: bytes
    before: State | None  # None: created
    after: State | None  # None: deleted
    holds: int = 0  # of a deleted folder: how many entries went with it
    note: str = ""


class View:
    """A merged tree. Views do not change; a layer on top makes another."""

    def __init__(self) -> None:
        """An empty tree."""
        self._placed: dict[bytes, Placed] = {}
        self._below: dict[bytes, set[bytes]] = {}
        self.strays: list[bytes] = []  # whiteouts of the last layer for which nothing lay below

    def __len__(self) -> int:
        """How many entries it has."""
        return len(self._placed)

    def __iter__(self) -> Iterator[bytes]:
        """Every path, in no particular order."""
        return iter(self._placed)

    def get(self, path: bytes) -> Placed | None:
        """What lies at a path."""
        return self._placed.get(path)

    def with_layer(self, entries: Iterable[EntryLike], digest: Digest) -> "View":
        """The tree with a layer on top; `entries` come as `fence.walk` gives them, a folder before what it holds."""
        made = View()
        made._placed = dict(self._placed)
        made._below = {folder: set(names) for folder, names in self._below.items()}
        for entry in entries:
            made._put(entry, digest)
        return made

    def _put(self, entry: EntryLike, digest: Digest) -> None:
        under = self._placed.get(entry.path)
        if entry.kind == "whiteout":
            if under is None:
                self.strays.append(entry.path)
            self._remove(entry.path)
            return
        if entry.kind != "folder" or entry.opaque or (under is not None and under.entry.kind != "folder"):
            self._remove(entry.path)
        self._placed[entry.path] = Placed(entry, digest)
        self._below.setdefault(entry.path.rpartition(b"/")[0], set()).add(entry.path)

    def _remove(self, path: bytes) -> None:
        self._below.get(path.rpartition(b"/")[0], set()).discard(path)
        pending = [path]
        while pending:
            gone = pending.pop()
            self._placed.pop(gone, None)
            pending.extend(self._below.pop(gone, ()))


def compare(before: View, after: View, *, digests: bool = True) -> list[Change]:
    """How `after` differs from `before`, by path. Without `digests`, created files are not hashed.

    What is the same entry of the same layer in both is the same; of the rest kind, mode, size and link are compared,
    and then content. A file whose content could not be read on either side counts as changed when it is another entry:
    doubt is shown.
    """
    changes = [change for path in after if (change := _compared(path, before, after, digests=digests)) is not None]
    gone = {path for path in before if after.get(path) is None}
    changes.extend(_deleted(gone, before))
    changes.extend(
        Change(path=path, before=None, after=State(kind="whiteout", mode=0, size=0), note=FORGED)
        for path in after.strays
        if before.get(path) is None
    )
    return sorted(changes, key=lambda change: change.path)


def difference(before: View, after: View) -> Iterator[EntryLike]:
    """The layer that makes `after` of `before`, as an overlay would have it: whiteouts first, then what is new.

    `after` is one listing: its entries keep the digests that it came with.
    """
    changes = compare(before, after)
    yield from (Whiteout(path=change.path) for change in changes if change.after is None)
    for change in changes:
        placed = after.get(change.path)
        if placed is not None:
            yield placed.entry


def unknown(entry: EntryLike) -> None:
    """The digest of entries that have no content."""
    del entry


def counted(kinds: Iterable[str], lost: Mapping[str, int]) -> tuple[str, ...]:
    """What was left out and lost, in words: a reason and how many."""
    total = Counter(kinds) + Counter(lost)
    return tuple(f"{kind}: {count}" for kind, count in sorted(total.items()))


def observations(
    changes: Iterable[Change],
    where: tuple[Phase, str, str],
    redact: Callable[[bytes], str],
    by: Mapping[bytes, tuple[int, float | None]],
) -> list[Observation]:
    """Changes as observations of a phase, a step and a collector (`LAYER` or `SNAPSHOT`).

    `by` says which process first wrote a path and when, by the trace, for paths as the target sees them.
    """
    phase, step, collector = where
    made: list[Observation] = []
    for change in changes:
        seen = paths.from_layer(change.path)
        detail: dict[str, Value] = {"path": redact(seen)}
        if change.after is not None:
            detail |= _described(change.after, redact)
        if change.before is not None:
            detail["before"] = _described(change.before, redact)
        if change.holds:
            detail["holds"] = change.holds
        if change.note:
            detail["note"] = change.note
        process, moment = by.get(seen, (None, None))
        if process is not None:
            detail["process"] = process
        made.append(
            Observation(
                phase=phase,
                step=step,
                kind=_kind(change),
                collector=collector,
                fidelity=Fidelity.SNAPSHOTTED,
                detail=detail,
                moment=moment,
            )
        )
    return made


def collector(name: str, phase: Phase, lost: Mapping[str, int], counts: dict[str, int]) -> Collector:
    """What this sensor did, lost, and cannot see; `lost` is the walk's."""
    why = ", ".join(f"{what}: {count}" for what, count in sorted(lost.items()))
    return Collector(
        name=name,
        phase=phase,
        state=CollectorState.DEGRADED if lost else CollectorState.ACTIVE,
        lost=sum(lost.values()),
        why=why,
        limitations=LIMITATIONS[name],
        counts=counts,
    )


def _compared(path: bytes, before: View, after: View, *, digests: bool) -> Change | None:
    new, old = after.get(path), before.get(path)
    if new is None or new is old:
        return None
    note = _note(new.entry)
    if old is None:
        return Change(path=path, before=None, after=_state(new, content=digests), note=note)
    one, other = old.entry, new.entry
    both_files = one.kind == other.kind == "file"
    plain = (one.kind, one.mode, one.link) == (other.kind, other.mode, other.link)
    same = plain and (not both_files or one.size == other.size) and one.kind != "other"
    was, now = _state(old, content=True), _state(new, content=True)
    if same and both_files:
        same = was.sha256 is not None and was.sha256 == now.sha256
        note = note or (UNREAD if was.sha256 is None else "")
    return None if same and not note else Change(path=path, before=was, after=now, note=note)


def _deleted(gone: set[bytes], before: View) -> Iterator[Change]:
    """The topmost of the paths that are gone, each with the number of those below it."""
    tops: dict[bytes, int] = {}
    top_of: dict[bytes, bytes] = {}
    for path in sorted(gone, key=lambda p: p.count(b"/")):
        above = path.rpartition(b"/")[0]
        top = top_of.get(above, path)
        top_of[path] = top
        tops[top] = tops.get(top, -1) + 1
    for path, holds in tops.items():
        placed = before.get(path)
        if placed is not None:
            yield Change(path=path, before=_state(placed, content=True), after=None, holds=holds)


def _note(entry: EntryLike) -> str:
    """Overlay marks that the kernel did not write for its own ends: somebody set them."""
    strange = [mark for mark in entry.marks if mark != "user.overlay.opaque"]
    return "overlay marks: " + ", ".join(strange) if strange else ""


def _state(placed: Placed, *, content: bool) -> State:
    entry = placed.entry
    is_file = entry.kind == "file"
    return State(
        kind=str(entry.kind),
        mode=entry.mode,
        size=entry.size if is_file else 0,
        sha256=placed.digest(entry) if content and is_file else None,
        link=entry.link,
    )


def _described(state: State, redact: Callable[[bytes], str]) -> dict[str, Value]:
    detail: dict[str, Value] = {"kind": state.kind}
    if state.kind in ("file", "folder", "other"):
        detail["mode"] = f"{state.mode:04o}"
    if state.kind == "file":
        detail |= {"size": state.size, "sha256": state.sha256}
    if state.link is not None:
        detail["link"] = redact(state.link)
    return detail


def _kind(change: Change) -> Kind:
    if change.after is None:
        return Kind.FILE_DELETED
    return Kind.FILE_CREATED if change.before is None else Kind.FILE_CHANGED
