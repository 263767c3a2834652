"""One cgroup for one sandbox: memory, processes and CPU of the whole tree, with version 1 or 2.

Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. What a version or a host lacks
is a note, never silence. A cgroup is named after its run folder, so that the sweep finds those of a killed harness. The
name can be read inside (/proc/self/cgroup) by who was moved into it after its namespace was made, and says nothing.

A sandbox's processes are born in it where that can be (`start`: version 1, ADR 36), with bubblewrap's outer process,
which is one more than the bound counts; else its first process inside is moved (`add`), which waits for the kernel.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.sandbox import cradle
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.launch import Process
from fumehood.sandbox.programs.janitor import empty_cgroup
from fumehood.sandbox.spec import ProcessLimits

_OUTER: Final = 1  # bubblewrap's process outside of the namespace, where it was born in the cgroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tree used; None where its cgroup cannot tell."""

    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    out_of_memory: bool = False


class Cgroup:
    """The folders of one sandbox's cgroup, one for each controller (version 2: one for all)."""

    def __init__(self, facts: CgroupFacts, name: str, limits: ProcessLimits) -> None:
        """Make the folders and set the limits. What fails becomes a note; `has()` says what holds."""
        self.version: Final = facts.version
        self.notes: list[str] = [facts.why] if facts.version is None and facts.why else []
        self._folders: dict[str, Path] = {}
        self._bounded: set[str] = set()
        self._born: set[str] = set()
        self._processes: Final = limits.processes
        for controller, root in facts.roots.items():
            folder = root / name
            try:
                folder.mkdir()
            except OSError as error:
                self.notes.append(f"{folder}: {os.strerror(error.errno or 0)}")
                continue
            self._folders[controller] = folder
        self._limit(limits)

    def has(self, wall: str) -> bool:
        """Whether `memory` or `processes` is bounded by it."""
        return wall in self._bounded

    def start(self, start: Callable[[], Process]) -> Process:
        """Call `start` so that its process is in the cgroup from its first moment, as far as this host can do that.

        `complete` says whether that is so for each controller. Raises what `start` raises, and `CradleError`.
        """
        if self.version != 1 or not self._folders:
            return start()
        born = cradle.born_in(self._folders, start)
        self._born = set(self._folders) - set(born.refused)
        if "pids" in self._born and self.has("processes"):
            self._write(self._folders["pids"] / "pids.max", self._processes + _OUTER)
        return born.process

    @property
    def complete(self) -> bool:
        """Whether nobody has to be moved in any more."""
        return self._born == set(self._folders)

    def add(self, pid: int) -> None:
        """Move a process in; what it starts afterwards is in it as well. A folder that refuses bounds nothing."""
        for controller, folder in list(self._folders.items()):
            if controller in self._born:
                continue
            try:
                (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
            except OSError as error:
                self.notes.append(f"{folder}/cgroup.procs: {os.strerror(error.errno or 0)}")
                self._bounded -= {"memory": {"memory"}, "pids": {"processes"}}.get(
                    controller, {"memory", "processes"} if controller == "unified" else set()
                )

    def usage(self) -> Usage:
        """What the tree has used up to now."""
        return self._usage_v2() if self.version == 2 else self._usage_v1()  # noqa: PLR2004  # the name of a version

    def out_of_memory(self) -> bool:
        """Whether the kernel has killed one of its processes for memory."""
        if "unified" in self._folders:
            return _field(self._folders["unified"] / "memory.events", "oom_kill") > 0
        if "memory" in self._folders:
            return _field(self._folders["memory"] / "memory.oom_control", "oom_kill") > 0
        return False

    def remove(self) -> None:
        """Kill what is left in it, wait until it is empty, remove it."""
        for folder in self._folders.values():
            empty_cgroup(str(folder))
        self._folders = {}

    def _limit(self, limits: ProcessLimits) -> None:
        if "unified" in self._folders:
            folder = self._folders["unified"]
            if self._write(folder / "memory.max", limits.memory_bytes):
                self._bounded.add("memory")
                self._write(folder / "memory.swap.max", 0)
            if self._write(folder / "pids.max", limits.processes):
                self._bounded.add("processes")
        if "memory" in self._folders:
            folder = self._folders["memory"]
            if self._write(folder / "memory.limit_in_bytes", limits.memory_bytes):
                self._bounded.add("memory")
                self._write(folder / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        if "pids" in self._folders and self._write(self._folders["pids"] / "pids.max", limits.processes):
            self._bounded.add("processes")

    def _write(self, path: Path, value: int) -> bool:
        try:
            path.write_text(str(value), encoding="ascii")
        except OSError as error:
            self.notes.append(f"{path}: {os.strerror(error.errno or 0)}")
            return False
        return True

    def _usage_v1(self) -> Usage:
        cpu = peak = None
        if "cpuacct" in self._folders:
            nanoseconds = _number(self._folders["cpuacct"] / "cpuacct.usage")
            cpu = None if nanoseconds is None else nanoseconds / 1e9
        if "memory" in self._folders:
            peak = _number(self._folders["memory"] / "memory.max_usage_in_bytes")
        return Usage(cpu_seconds=cpu, peak_memory_bytes=peak, out_of_memory=self.out_of_memory())

    def _usage_v2(self) -> Usage:
        folder = self._folders.get("unified")
        if folder is None:
            return Usage()
        microseconds = _field(folder / "cpu.stat", "usage_usec", missing=-1)
        return Usage(
            cpu_seconds=None if microseconds < 0 else microseconds / 1e6,
            peak_memory_bytes=_number(folder / "memory.peak"),
            out_of_memory=self.out_of_memory(),
        )


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None


def _field(path: Path, name: str, *, missing: int = 0) -> int:
    """One line `NAME VALUE` of a file of a cgroup."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text(encoding="ascii").splitlines():
            word, _, value = line.partition(" ")
            if word == name:
                return int(value)
    return missing
