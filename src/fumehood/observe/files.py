"""Which files a trace shows to be read, looked at, written, deleted or refused. Pure.

The path of an open is the kernel's answer (`= 3</path>`); of every other call it is what the target said, taken from
the folder that strace resolved: another thread may have changed the words meanwhile.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import limits
from fumehood.observe import arguments, paths
from fumehood.observe.processes import Process
from fumehood.observe.strace import Call

# Per call: what it does, and for each path it names the argument of its folder (None: the current one) and its own.
_AT, _HERE = ((0, 1),), ((None, 0),)
_HELD = ((0, 0),)  # the descriptor itself, whose path the kernel knows
_CALLS: dict[str, tuple[str, tuple[tuple[int | None, int], ...]]] = {
    "open": ("open", _HERE),
    "creat": ("open", _HERE),
    "openat": ("open", _AT),
    "openat2": ("open", _AT),
    "mkdir": ("create", _HERE),
    "mkdirat": ("create", _AT),
    "mknod": ("create", _HERE),
    "mknodat": ("create", _AT),
    "symlink": ("create", ((None, 1),)),
    "symlinkat": ("create", ((1, 2),)),
    "link": ("create", ((None, 1),)),
    "linkat": ("create", ((2, 3),)),
    "truncate": ("write", _HERE),
    "chmod": ("attributes", _HERE),
    "fchmodat": ("attributes", _AT),
    "fchmodat2": ("attributes", _AT),
    "chown": ("attributes", _HERE),
    "lchown": ("attributes", _HERE),
    "fchownat": ("attributes", _AT),
    "fchmod": ("attributes", _HELD),
    "fchown": ("attributes", _HELD),
    "fsetxattr": ("attributes", _HELD),
    "ftruncate": ("write", _HELD),
    "setxattr": ("attributes", _HERE),
    "lsetxattr": ("attributes", _HERE),
    "unlink": ("delete", _HERE),
    "unlinkat": ("delete", _AT),
    "rmdir": ("delete", _HERE),
    "rename": ("rename", ((None, 0), (None, 1))),
    "renameat": ("rename", ((0, 1), (2, 3))),
    "renameat2": ("rename", ((0, 1), (2, 3))),
    "stat": ("look", _HERE),
    "lstat": ("look", _HERE),
    "newfstatat": ("look", _AT),
    "statx": ("look", _AT),
    "access": ("look", _HERE),
    "faccessat": ("look", _AT),
    "faccessat2": ("look", _AT),
    "readlink": ("look", _HERE),
    "readlinkat": ("look", _AT),
}
CALLS = frozenset(_CALLS)
# How many arguments are told apart: those that are read, an open's flags, and the rest as one.
_READ = {name: max(own for _, own in places) + (3 if how == "open" else 2) for name, (how, places) in _CALLS.items()}
_WRITING = (b"O_WRONLY", b"O_RDWR", b"O_CREAT", b"O_TRUNC")
_OPENING = frozenset(name for name, (how, _) in _CALLS.items() if how == "open")
# Calls that give a file another name: where the one and the other stand.
_NAMING = {
    "link": ((None, 0), (None, 1)),
    "linkat": ((0, 1), (2, 3)),
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
}
_UNNAMED = "unnamed"  # O_TMPFILE makes a file without a name; the path is its folder's
_REFUSED = frozenset({"EPERM", "EACCES", "EROFS"})


@dataclass(slots=True, kw_only=True, eq=False)
class Touch:
    """One path, and what was done to it, as many times as it was done alike."""

    path: bytes  # as the target sees it
    how: list[str]  # "read", "list", "look", "write", "create", "attributes", "delete", "rename", "unnamed"; each once
    outcome: str | None  # "done" or the error; None: the call did not return
    process: Process  # the first that did it
    moment: float | None = None  # the first time
    assumed: bool = False  # the path is put together from words, from a folder that the trace does not show
    count: int = 1


@dataclass(slots=True, kw_only=True, eq=False)
class Opened:
    """A watched file that was opened so that it could be read, by one process in one activity."""

    path: bytes  # as it was called when the step began
    by: bytes  # the name by which it was opened first
    process: Process
    moment: float | None = None  # when first
    count: int = 1


_Key: TypeAlias = tuple[bytes, str, str | None, str]


class Files:
    """Every touch that is worth keeping, alike ones counted together."""

    def __init__(
        self,
        ordinary: Callable[[bytes], bool],
        notable: Callable[[bytes], bool],
        activity: Callable[[float | None], str],
        watched: Collection[bytes] = (),
    ) -> None:
        """`ordinary` says of a path whether reading it is nothing to mention: the workspace, the runtime, libraries.

        `notable` paths have a room of their own, that no flood of others can take. Only what happened in the same
        `activity` is counted together. Opens of `watched` ones are told apart by process, also by the names that links
        and renames give them.
        """
        self._activity = activity
        self._watched = {path: path for path in watched}
        self.opened: dict[tuple[bytes, int, str], Opened] = {}
        self._ordinary = ordinary
        self._notable = notable
        self._special = 0
        self._crowd: dict[tuple[str, bytes], int] = {}
        self.reads: dict[_Key, Touch] = {}
        self.changes: dict[_Key, Touch] = {}
        self.refused: dict[_Key, Touch] = {}
        self.lost: dict[str, int] = {}

    def take(self, process: Process, call: Call) -> None:
        """Look at one call out of CALLS."""
        how, places = _CALLS[call.name]
        words = arguments.split(call.arguments, _READ[call.name])
        outcome = None if call.result is None else call.error or "done"
        if self._watched and outcome == "done":
            self._watch(process, call, words)
        if how == "open":
            how = _opened(call.name, words)
        for at, place in enumerate(places):
            found = _path(process, call, words, place) if how != _UNNAMED else _named(process, words, place)
            if found is not None:
                done = "delete" if how == "rename" and at == 0 else how
                path, assumed = found
                self._touch(
                    Touch(path=path, how=[done], outcome=outcome, process=process, moment=call.moment, assumed=assumed)
                )

    def _watch(self, process: Process, call: Call, words: list[bytes]) -> None:
        if call.name in _NAMING:
            old, new = (_named(process, words, place) for place in _NAMING[call.name])
            known = None if old is None else self._watched.get(old[0])
            if known is not None and new is not None and len(self._watched) < limits.TRACE_RECORDS:
                self._watched[new[0]] = known
        elif call.name in _OPENING:
            found = _path(process, call, words, _CALLS[call.name][1][0])
            path = None if found is None else self._watched.get(found[0])
            if found is not None and path is not None and _may_read(call.name, words):
                self._open(path, found[0], process, call.moment)

    def _open(self, path: bytes, by: bytes, process: Process, moment: float | None) -> None:
        key = (path, process.number, self._activity(moment))
        known = self.opened.get(key)
        if known is not None:
            known.count += 1
        elif len(self.opened) < limits.TRACE_RECORDS:
            self.opened[key] = Opened(path=path, by=by, process=process, moment=moment)
        else:
            self.lost["watched"] = self.lost.get("watched", 0) + 1

    def _touch(self, touch: Touch) -> None:
        path, how, outcome = touch.path, touch.how[0], touch.outcome
        if outcome in _REFUSED:
            self._add("refused", self.refused, how, touch)
        elif how not in ("read", "list", "look"):
            if outcome in ("done", None) and path != b"/dev/null":
                self._add("changes", self.changes, "delete" if how == "delete" else "change", touch)
        elif self._notable(path) or not self._ordinary(path):
            self._add("reads", self.reads, how, touch)

    def _add(self, what: str, kept: dict[_Key, Touch], how: str, touch: Touch) -> None:
        key = (touch.path, how, touch.outcome, self._activity(touch.moment))
        known = kept.get(key)
        if known is not None:
            known.count += 1
            if touch.how[0] not in known.how:
                known.how.append(touch.how[0])
        elif self._room(what, kept, touch.path):
            kept[key] = touch
        else:
            self.lost[what] = self.lost.get(what, 0) + 1

    def _room(self, what: str, kept: dict[_Key, Touch], path: bytes) -> bool:
        if self._special < limits.TRACE_RECORDS and self._notable(path):
            self._special += 1
            return True
        crowd = (what, path.rpartition(b"/")[0])
        here = self._crowd.get(crowd, 0)
        if len(kept) >= limits.TRACE_RECORDS or here >= limits.TRACE_FOLDER_RECORDS:
            return False
        self._crowd[crowd] = here + 1
        return True


def within(*prefixes: bytes) -> Callable[[bytes], bool]:
    """A rule under which reading below any of these folders, or one of these files, is ordinary."""
    exact = frozenset(prefix.rstrip(b"/") or b"/" for prefix in prefixes)
    below = tuple(prefix.rstrip(b"/") + b"/" for prefix in prefixes)

    def ordinary(path: bytes) -> bool:
        return path in exact or path.startswith(below)

    return ordinary


def nothing(_: bytes) -> bool:
    """No path is notable."""
    return False


def _opened(name: str, words: list[bytes]) -> str:
    """What an open is for, by its flags."""
    if name == "creat":
        return "write"
    flags = words[1 if name == "open" else 2] if len(words) > (1 if name == "open" else 2) else b""
    if b"O_TMPFILE" in flags:
        return _UNNAMED
    if any(flag in flags for flag in _WRITING):
        return "write"
    if b"O_PATH" in flags:
        return "look"
    return "list" if b"O_DIRECTORY" in flags else "read"


def _may_read(name: str, words: list[bytes]) -> bool:
    """Whether what an open gives can be read from: neither for writing alone nor for its path."""
    flags = words[1 if name == "open" else 2] if len(words) > (1 if name == "open" else 2) else b""
    return name != "creat" and not any(flag in flags for flag in (b"O_WRONLY", b"O_PATH", b"O_TRUNC"))


def _path(process: Process, call: Call, words: list[bytes], place: tuple[int | None, int]) -> tuple[bytes, bool] | None:
    """A path as the target sees it, and whether it is only assumed."""
    folder_at, name_at = place
    if call.path is not None:
        found = arguments.unescape(call.path)
        return (_own(words[name_at], found) if len(words) > name_at else paths.as_seen(found)), False
    if folder_at == name_at and words:
        held = (arguments.descriptor(words[name_at]) or (None, None))[1]
        return (paths.as_seen(held), False) if held is not None and held.startswith(b"/") else None
    return _named(process, words, place)


def _named(process: Process, words: list[bytes], place: tuple[int | None, int]) -> tuple[bytes, bool] | None:
    """A path by the words of the call."""
    folder_at, name_at = place
    name = arguments.string(words[name_at]) if len(words) > name_at else None
    if name is None or not name[0]:
        return None  # an address, or the descriptor itself
    folder, known = process.cwd, process.cwd_known
    if folder_at is not None:
        held = (arguments.descriptor(words[folder_at]) or (None, None))[1]
        folder, known = (held, True) if held is not None else (folder, known)
    assumed = paths.climbs(name[0]) or not (known or name[0].startswith(b"/"))
    return paths.as_seen(paths.join(folder, name[0])), assumed


def _own(said: bytes, found: bytes) -> bytes:
    """`/proc/self/x` where the target said so and the kernel agrees but for the number, which differs each time."""
    if found.startswith(b"/proc/") and said.startswith(b'"/proc/self/'):
        name = arguments.string(said)
        rest = found[len(b"/proc/") :].partition(b"/")[2]
        if name is not None and name[0] == b"/proc/self/" + rest:
            return name[0]
    return paths.as_seen(found)
