"""Run folders, the uids of targets, and cleaning up after harnesses that were killed.

Everything of a run lies in one folder, `run-XXXXXX`, which nobody may enter but its harness and the target's uid (mode
0710), locked as long as its harness or that one's janitor lives. At the next start, folders that nobody locks are
swept, with the cgroups named after them. As root each run has a uid of its own for its targets (`slots`); as an
ordinary user there is only one's own.

For many runs, one after the other and side by side, there is `station`: one folder, one lock, one janitor.
"""

import contextlib
import fcntl
import os
import secrets
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox import launch, slots
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.netns import ListenerHelper
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.spec import Overlay

_RUN: Final = "run-"


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
    """One run's folder and uid. Made by `open_run` and by a `Station` only."""

    def __init__(self, path: Path, uid: int, *, once: bool = False, name: str = "") -> None:
        """Take over a locked folder. `once`: one sandbox is all that it is for. `name`: other than the folder's."""
        self.path: Final = path
        self.name: Final = name or path.name  # cgroups are named after it
        self.uid: Final = uid
        self._once = once
        self._count = 0
        self._helper: ListenerHelper | None = None

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
        return self._make(f"{janitor.PRIVATE}{self._count}", 0o700, owned=False)

    def cgroup_name(self) -> str:
        """A name for one more cgroup of this run."""
        self._count += 1
        return f"{self.name}-{self._count}"

    def prepare_helper(self) -> None:
        """Start the program that opens listeners before it is needed: a Python takes longer to start than a sandbox."""
        if self._helper is None and not self._once:
            with contextlib.suppress(launch.StartError):  # whoever needs it starts it again, and is told
                self._helper = ListenerHelper.ready()

    def take_helper(self) -> ListenerHelper | None:
        """The program that is ready, for one sandbox; None when there is none."""
        helper, self._helper = self._helper, None
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
    with locked(host, 1) as (path, uids):
        give_to(path, uids[0])
        run = Run(path, uids[0], once=once)
        try:
            run.prepare_helper()
            yield run
        finally:
            run.close_helper()


@contextlib.contextmanager
def locked(host: HostFacts, seats: int) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """A new folder that only we may enter, with uids for so many runs, one lock and one janitor.

    On the way out the folder is removed, with the cgroups that are named after it. Raises `NoSlotError` and
    `RunFolderError`.
    """
    root, own = host.run_root, os.geteuid()
    with contextlib.ExitStack() as stack:
        try:
            taken = stack.enter_context(slots.taken(root, seats)) if own == 0 else ()
            path, lock = _locked_folder(root)
        except OSError as error:
            raise RunFolderError(f"{root}: {os.strerror(error.errno or 0)}") from error
        stack.callback(os.close, lock)
        stack.enter_context(_watched(path, host, [*(slot.lock for slot in taken), lock]))
        yield path, tuple(slot.uid for slot in taken) or (own,) * seats


def sweep(host: HostFacts) -> int:
    """Remove the folders and cgroups of harnesses that are gone; return how many folders."""
    swept = 0
    with _root_lock(host.run_root):
        for path in sorted(host.run_root.glob(f"{_RUN}*")):
            lock = slots.try_lock(path)
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
    try:
        theirs, ours = os.pipe()
    except OSError as error:
        path.rmdir()
        raise RunFolderError(f"{path}: {os.strerror(error.errno or 0)}") from error
    roots = [str(root) for root in host.cgroups.roots.values()]
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ours)
        with launch.closing(theirs):
            try:
                process = launch.start_program(
                    "janitor", str(theirs), path.name, str(path), *roots, pass_fds=[theirs, *held]
                )
            except launch.StartError:
                path.rmdir()  # nobody was there yet
                raise
        stack.callback(process.close)
        stack.callback(_leave, path, host, process, ours)
        yield


def _leave(path: Path, host: HostFacts, process: launch.Process, pipe: int) -> None:
    """Clean up ourselves, while the janitor still waits in case that we are killed; where we cannot, it does.

    It has descriptors of its own: ours may be what has run out.
    """
    try:
        _clean(path, host)
    except (OSError, RunFolderError):
        os.write(pipe, b"x")
        ended = select.poll()
        ended.register(process.pidfd, select.POLLIN)
        ended.poll(limits.STOP_SECONDS * 1000)
        if path.exists():
            raise


def _locked_folder(root: Path) -> tuple[Path, int]:
    with _root_lock(root):
        path = root / f"{_RUN}{secrets.token_hex(4)}"
        path.mkdir(mode=0o700)
        try:
            lock = slots.try_lock(path)
        except OSError:
            path.rmdir()
            raise
    if lock is None:
        raise RunFolderError(f"{path}: a new folder is already locked")
    return path, lock


def give_to(path: Path, uid: int) -> None:
    """Let a uid enter a folder of ours. The name can be read in our tracer's command line: so its group is that one."""
    if uid == os.geteuid():
        return
    try:
        os.chown(path, -1, uid)
        path.chmod(0o710)
    except OSError as error:
        raise RunFolderError(f"{path}: {os.strerror(error.errno or 0)}") from error


@contextlib.contextmanager
def _root_lock(root: Path) -> Iterator[None]:
    """Making and sweeping exclude each other: a folder is never seen between its making and its lock."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
