"""Run folders, the uids of targets, and cleaning up after harnesses that were killed.

Everything of a run lies in one folder, `run-XXXXXX`, which nobody may enter but its harness and the target's uid (mode
0710), locked as long as its harness or that one's janitor lives. At the next start, folders that nobody locks are
swept, with the cgroups named after them. As root each run has a uid of its own for its targets, from a slot that is
locked likewise; one that the system knows, or that runs a process, is never taken. As an ordinary user there is only
one's own.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.sandbox import launch
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.netns import ListenerHelper
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.spec import Overlay

_RUN: Final = "run-"
_SLOTS: Final = "slots"
_PRIVATE: Final = "private"


class NoSlotError(UnsupportedError):
    """Every uid for targets is taken or known to the system."""

    code = "no_uid_slot"


class RunFolderError(HarnessError):
    """A folder of a run could not be made; the message has the kernel's reason."""

    code = "run_folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Where the writes of one phase go: `upper` is the evidence, `work` is the kernel's."""

    name: str
    upper: Path
    work: Path


class Run:
    """One run's folder and uid. Made by `open_run` only."""

    def __init__(self, path: Path, uid: int, *, once: bool = False) -> None:
        """Take over a locked folder. `once`: one sandbox is all that it is for."""
        self.path: Final = path
        self.uid: Final = uid
        self._once = once
        self._taken = False
        self._count = 0
        self._helper: ListenerHelper | None = None

    @property
    def name(self) -> str:
        """The folder's name; cgroups are named after it."""
        return self.path.name

    def layer(self, name: str) -> Layer:
        """A new, empty layer that the target's uid owns (overlayfs refuses files of ids it does not map)."""
        place = self._make(name, 0o711, owned=False)
        upper, work = place / "upper", place / "work"
        for folder in (upper, work):
            self._make_at(folder, 0o755, owned=True)
        return Layer(name=name, upper=upper, work=work)

    def folder(self, name: str) -> Path:
        """A new folder that the target's uid owns, e.g. for a cache that is bound beside the layers."""
        return self._make(name, 0o755, owned=True)

    def private(self) -> Path:
        """A new folder that no target can enter, e.g. for the FIFO of a tracer."""
        self._count += 1
        return self._make(f"{_PRIVATE}-{self._count}", 0o700, owned=False)

    def cgroup_name(self) -> str:
        """A name for one more cgroup of this run."""
        self._count += 1
        return f"{self.name}-{self._count}"

    def prepare_helper(self) -> None:
        """Start the program that opens listeners before it is needed: a Python takes longer to start than a sandbox."""
        if self._helper is None and not (self._once and self._taken):
            with contextlib.suppress(launch.StartError):  # whoever needs it starts it again, and is told
                self._helper = ListenerHelper.ready()

    def take_helper(self) -> ListenerHelper | None:
        """The program that is ready, for one sandbox; None when there is none."""
        helper, self._helper = self._helper, None
        self._taken = True
        return helper

    def close_helper(self) -> None:
        """End the one that nobody took."""
        helper = self.take_helper()
        if helper is not None:
            helper.close()

    def _make(self, name: str, mode: int, *, owned: bool) -> Path:
        if not name or "/" in name or name in {".", ".."}:
            raise ValueError(f"not a folder's name: {name!r}")
        return self._make_at(self.path / name, mode, owned=owned)

    def _make_at(self, folder: Path, mode: int, *, owned: bool) -> Path:
        try:
            folder.mkdir(mode=mode)
            folder.chmod(mode)  # the umask took bits
            if owned and self.uid != os.geteuid():
                os.chown(folder, self.uid, self.uid)
        except OSError as error:
            raise RunFolderError(f"{folder}: {os.strerror(error.errno or 0)}") from error
        return folder


def overlay(lowers: Sequence[Layer], top: Layer) -> Overlay:
    """The mount of `top` over the layers before it, bottom first."""
    return Overlay(lowers=tuple(layer.upper for layer in lowers), upper=top.upper, work=top.work)


@contextlib.contextmanager
def open_run(host: HostFacts, *, once: bool = False) -> Iterator[Run]:
    """A locked run folder with its janitor; on the way out it is removed, in whatever way that comes.

    `once`: it is for one sandbox, and nothing is got ready for a next. Raises `NoSlotError` and `RunFolderError`.
    """
    root = host.run_root
    with contextlib.ExitStack() as stack:
        uid, held = os.geteuid(), []
        if uid == 0:
            uid, slot = _take_slot(root)
            stack.callback(os.close, slot)
            held.append(slot)
        path, lock = _locked_folder(root, uid)
        stack.callback(os.close, lock)
        held.append(lock)
        run = Run(path, uid, once=once)
        stack.callback(run.close_helper)
        run.prepare_helper()  # while the janitor starts
        with _watched(path, host, held):
            yield run


def sweep(host: HostFacts) -> int:
    """Remove the folders and cgroups of harnesses that are gone; return how many folders."""
    swept = 0
    with _root_lock(host.run_root):
        for path in sorted(host.run_root.glob(f"{_RUN}*")):
            lock = _try_lock(path)
            if lock is None:
                continue
            try:
                _clean(path, host)
                swept += 1
            finally:
                os.close(lock)
    return swept


def _clean(path: Path, host: HostFacts) -> None:
    janitor.remove_cgroups([str(root) for root in host.cgroups.roots.values()], path.name)
    janitor.end_waiting(str(path))
    if not janitor.purge(str(path)):
        raise RunFolderError(f"{path} could not be removed", remedy="look for processes that still use it")


@contextlib.contextmanager
def _watched(path: Path, host: HostFacts, held: Sequence[int]) -> Iterator[None]:
    """Have a janitor wait at a pipe. It keeps our locks, so that nobody else takes folder or uid before it is done."""
    theirs, ours = os.pipe()
    roots = [str(root) for root in host.cgroups.roots.values()]
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ours)
        with launch.closing(theirs):
            try:
                process = launch.start_program(
                    "janitor", str(theirs), path.name, str(path), *roots, pass_fds=[theirs, *held]
                )
            except launch.StartError:
                _clean(path, host)
                raise
        stack.callback(process.close)
        stack.callback(_clean, path, host)  # ourselves, while the janitor still waits in case that we are killed
        yield


def _locked_folder(root: Path, uid: int) -> tuple[Path, int]:
    """A new folder, locked. Its name can be read in our tracer's command line: so its group is the target's own."""
    try:
        with _root_lock(root):
            path = root / f"{_RUN}{secrets.token_hex(4)}"
            path.mkdir(mode=0o700)
            if uid != os.geteuid():
                os.chown(path, -1, uid)
                path.chmod(0o710)
            lock = _try_lock(path)
    except OSError as error:
        raise RunFolderError(f"{root}: {os.strerror(error.errno or 0)}") from error
    if lock is None:
        raise RunFolderError(f"{path}: a new folder is already locked")
    return path, lock


@contextlib.contextmanager
def _root_lock(root: Path) -> Iterator[None]:
    """Making and sweeping exclude each other: a folder is never seen between its making and its lock."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path, flags: int = os.O_RDONLY | os.O_DIRECTORY, mode: int = 0o600) -> int | None:
    """Lock a file or folder without waiting; None when somebody has it, or when it is gone."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return None
        raise
    return descriptor


def _take_slot(root: Path) -> tuple[int, int]:
    """A uid that no other run has, that the system does not know, and under which nothing runs."""
    slots = root / _SLOTS
    try:
        slots.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{slots}: {os.strerror(error.errno or 0)}") from error
    for uid in range(limits.FIRST_UID, limits.FIRST_UID + limits.UID_SLOTS):
        if _known(uid):
            continue
        lock = _try_lock(slots / str(uid), os.O_RDWR | os.O_CREAT)
        if lock is None:
            continue
        if not _running(uid):
            return uid, lock
        os.close(lock)
    last = limits.FIRST_UID + limits.UID_SLOTS - 1
    raise NoSlotError(
        f"no free uid from {limits.FIRST_UID} to {last}", remedy="end other runs, or free uids of that range"
    )


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _running(uid: int) -> bool:
    """Whether any process has this uid; its owner could signal a target, and count against its limits."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        return True
    return False
