"""Bounds that no kernel limit holds for a whole tree: looked at often, and enforced by ending it.

Memory without a cgroup is the private resident memory of the tree; a layer is measured by blocks, names and files
that are open without a name. What is written between two looks passes: the file size limit bounds each file. A file
without a name that is only mapped, or on its way between two sockets, is found by nobody: so a sandbox ends as well
when the disk, whoever fills it, has lost more than the bound and has little left.
"""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.sandbox import lineage
from fumehood.sandbox.cgroup import Cgroup
from fumehood.sandbox.spec import End

_BLOCK: Final = 512  # st_blocks, whatever the file system's own is
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is looked at. `memory_bytes` is None where a cgroup holds the bound, `layer` where there is no layer.

    `cpu_seconds` is None where nobody bounds the CPU time of the whole tree.
    """

    init: int
    cgroup: Cgroup
    memory_bytes: int | None
    layer: Path | None
    layer_bytes: int
    beside: tuple[Path, ...] = ()  # folders that count with it
    cpu_seconds: float | None = None
    waits: bool = False  # for its work, until `Watch.arm`: nothing of a target runs before


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What a walk of a layer found; `excessive` is too deep or too many names for anybody to read it afterwards."""

    size_bytes: int
    complete: bool
    excessive: bool


class Watch:
    """Looks at one sandbox until a bound is broken."""

    def __init__(self, watched: Watched) -> None:
        """Remember what the disk has free now."""
        self._watched = watched
        self._free = 0 if watched.layer is None else _free(watched.layer)
        self._walked = time.monotonic()
        self._looked = 0.0
        self.peak_memory_bytes = 0
        self._cpu_bound = watched.cpu_seconds
        self._cpu_before = 0.0  # what was used before it was armed
        self._cpu_seen: float | None = None  # as last looked at
        self._armed = asyncio.Event()
        if not watched.waits:
            self._armed.set()

    def arm(self, cpu_seconds: float) -> None:
        """Bound the CPU time from now on, and look as often as at a child that works."""
        self._cpu_before = self._cpu_used()
        self._cpu_bound = cpu_seconds
        self._cpu_seen = None
        self._armed.set()

    def charged(self, counted: float | None) -> float | None:
        """CPU seconds since it was armed, of what a cgroup counted in all; else as last looked at; None if never."""
        return self._cpu_seen if counted is None else max(0.0, counted - self._cpu_before)

    async def broken(self) -> End:
        """Wait until a bound is broken and say which."""
        while True:
            await self._pause()
            if self._memory():
                return End.MEMORY
            if self._cpu():
                return End.CPU
            if await self._layer():
                return End.LAYER

    async def _pause(self) -> None:
        """Until the next look; one at a child that waits is rare, and ends when it is armed."""
        if self._armed.is_set():
            await asyncio.sleep(limits.WATCH_SECONDS)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.WATCH_WAITING_SECONDS):
                await self._armed.wait()

    def _cpu(self) -> bool:
        if self._cpu_bound is None:
            return False
        self._cpu_seen = max(0.0, self._cpu_used() - self._cpu_before)
        return self._cpu_seen > self._cpu_bound

    def _cpu_used(self) -> float:
        """CPU seconds of the whole tree since its start."""
        used = self._watched.cgroup.usage().cpu_seconds
        return lineage.cpu_seconds(self._watched.init) if used is None else used

    def _memory(self) -> bool:
        bound = self._watched.memory_bytes
        if bound is None:
            return self._watched.cgroup.out_of_memory()
        used = lineage.private_memory_bytes(self._watched.init)
        self.peak_memory_bytes = max(self.peak_memory_bytes, used)
        return used > bound

    async def _layer(self) -> bool:
        """Walk when the disk has lost half the bound, or when it is time; others use the disk as well."""
        layer, now = self._watched.layer, time.monotonic()
        if layer is None or now - self._looked < limits.LAYER_WATCH_SECONDS:
            return False
        self._looked = now
        free = _free(layer)
        lost = self._free - free
        bound = self._watched.layer_bytes
        patience = limits.LAYER_WALK_SECONDS * min(1.0, bound / limits.LAYER_SMALL_BYTES)
        if lost < bound // 2 and now - self._walked < patience:
            return False
        found = await asyncio.to_thread(_together, (layer, *self._watched.beside))
        self._walked = time.monotonic()
        if found.excessive or found.size_bytes > bound or (lost > bound and not found.complete):
            return True
        if lost > bound and free < limits.DISK_RESERVE_BYTES:
            return True
        return lost > bound and found.size_bytes + lineage.deleted_bytes(self._watched.init) > bound


def _together(folders: tuple[Path, ...]) -> Measure:
    """What several folders hold; each may have as many names as one layer."""
    found = [measure(folder) for folder in folders]
    return Measure(
        size_bytes=sum(one.size_bytes for one in found),
        complete=all(one.complete for one in found),
        excessive=any(one.excessive for one in found),
    )


def measure(layer: Path) -> Measure:
    """Walk a folder that may change meanwhile: relative to open folders, following nothing, opening only folders."""
    walk = _Walk()
    with contextlib.suppress(OSError):
        walk.enter(os.open(layer, _OPEN))
    try:
        while walk.stack and not walk.excessive:
            descriptor, folders = walk.stack[-1]
            if not folders:
                walk.stack.pop()
                os.close(descriptor)
                continue
            try:
                walk.enter(os.open(folders.pop(), _OPEN, dir_fd=descriptor))
            except FileNotFoundError:
                continue
            except OSError:  # a folder that its owner sealed: only root may enter
                walk.complete = False
    finally:
        for descriptor, _ in walk.stack:
            os.close(descriptor)
    return Measure(size_bytes=walk.size_bytes, complete=walk.complete, excessive=walk.excessive)


class _Walk:
    """The open folders of a walk, each with the names that are still to be entered."""

    def __init__(self) -> None:
        self.stack: list[tuple[int, list[str]]] = []
        self.size_bytes = 0
        self.names = 0
        self.complete = True

    @property
    def excessive(self) -> bool:
        return len(self.stack) > limits.LAYER_DEPTH or self.names > limits.LAYER_ENTRIES

    def enter(self, descriptor: int) -> None:
        folders: list[str] = []
        self.stack.append((descriptor, folders))
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self.names += 1
                if self.names > limits.LAYER_ENTRIES:
                    return
                with contextlib.suppress(OSError):
                    self.size_bytes += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)


def _free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bfree * status.f_frsize
