"""Who is who in a trace: the target's processes, their parents, command lines and ends. Pure.

A trace begins with the work of those who build the sandbox. The target begins with the first successful execve of its
program; whoever was seen before does not belong to it, everybody who comes after does: also a child whose first calls
stand in the trace before its parent's fork returns. Whoever builds the sandbox has nothing more to do by then but to
wait: who acts nevertheless was taken over, and counts as the target's from there on.

Processes get numbers of their own, in the order in which they appear: a system's pids say nothing, and differ each
time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from fumehood.core import limits
from fumehood.observe import arguments, paths
from fumehood.observe.strace import Call, Ended

FORKS = frozenset({"clone", "clone3", "fork", "vfork"})
FOLDERS = frozenset({"chdir", "fchdir"})
EXECS = frozenset({"execve", "execveat"})
_WAITS = FORKS | {"wait4", "waitid", "exit", "exit_group", "unknown"}
_MISSING = "ENOENT"
_SIBLING = re.compile(rb"CLONE_PARENT\b")  # the child gets the caller's parent, clone(2)


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One process of the target; its threads count as it."""

    number: int
    pid: int
    parent: "Process | None" = None
    program: bytes = b""
    cwd: bytes = b"/"
    cwd_known: bool = False  # whether the kernel said so; else it is what the target asked for
    ended: bool = False
    status: int | None = None
    signal: str | None = None
    moment: float | None = None  # of its end


@dataclass(slots=True, kw_only=True)
class Exec:
    """One program that a process became, or tried to become."""

    process: Process
    program: str
    argv: list[str]
    cut: bool  # whether strace, or our bounds, left out a part of argv
    error: str | None = None
    tried: list[str] = field(default_factory=list)  # where a command was looked for and not found
    moment: float | None = None


class ProcessTree:
    """The target's processes, as far as the trace has been read."""

    def __init__(
        self,
        program: bytes,
        redact: Callable[[bytes], str],
        words: "Words | None" = None,
    ) -> None:
        """Wait for the first successful execve of `program`. `redact` makes words safe to keep and to show.

        `words` is given the program and the words of every execve, also of those that fail, as strace has them.
        """
        self._words = words or unheard
        self._program = program
        self._redact = redact
        self._outside: set[int] = set()
        self._tasks: dict[int, Process] = {}  # pid or thread id → process
        self._looking: dict[int, Exec] = {}  # a command that was not found yet, per process number
        self._numbers = 0
        self._translated = False  # whether this trace gives pids as the tracer counts
        self._programs: set[str] = set()
        self.processes: list[Process] = []
        self.execs: list[Exec] = []
        self.started = False
        self.lost: dict[str, int] = {}

    def of(self, call: Call) -> Process | None:
        """The process that made a call, None when it is not the target's. Keeps forks, execs and folders in mind."""
        process = self._tasks.get(call.pid)
        if process is None:
            if not self.started:
                process = self._begin(call)
            elif call.pid not in self._outside or not _tidies(call):
                self._outside.discard(call.pid)
                process = self._appear(call.pid, None)
            if process is None:
                return None
        if call.name in FORKS:
            self._fork(process, call)
        elif call.name in EXECS:
            self._exec(process, call)
        elif call.name in FOLDERS:
            _enter(process, call)
        elif call.arguments.startswith(b"AT_FDCWD<"):
            _stand(process, call)
        return process

    def end(self, ended: Ended) -> None:
        """A process or thread has ended."""
        self._outside.discard(ended.pid)
        process = self._tasks.pop(ended.pid, None)
        if process is None or process.pid != ended.pid:
            return
        process.ended, process.status, process.signal = True, ended.status, ended.signal
        process.moment = ended.moment
        self._give_up(process)

    def finish(self) -> None:
        """The trace is at its end: commands that were still looked for were not found."""
        for process in self.processes:
            self._give_up(process)

    def _begin(self, call: Call) -> Process | None:
        if call.name in EXECS and call.result == 0:
            words = arguments.split(call.arguments)
            program = arguments.string(words[0]) if words else None
            if program is not None and program[0] == self._program:
                self.started = True
                self._outside.discard(call.pid)
                return self._appear(call.pid, None)
        if len(self._outside) < limits.TRACE_RECORDS:
            self._outside.add(call.pid)
        return None

    def _appear(self, pid: int, parent: Process | None) -> Process:
        if len(self.processes) >= limits.TRACE_RECORDS:
            # Beyond the bound a child counts as its parent, so that what it does is still somebody's.
            self._lose("processes")
            process = parent or self.processes[0]
        else:
            self._numbers += 1
            process = Process(number=self._numbers, pid=pid, parent=parent)
            if parent is not None:
                _inherit(process, parent)
            self.processes.append(process)
        self._tasks[pid] = process
        return process

    def _fork(self, process: Process, call: Call) -> None:
        child_pid = call.outer if call.outer is not None else call.result
        if child_pid is None or child_pid <= 0:
            return
        self._translated = self._translated or call.outer is not None
        if self._translated and call.outer is None:
            self._lose("untranslated")  # a number of the inner namespace, which would be somebody else's out here
            return
        child = self._tasks.get(child_pid)
        if b"CLONE_THREAD" in call.arguments:
            if child is not None and child is not process and child.pid == child_pid:
                self._merge(child, process)
            self._tasks[child_pid] = process
            return
        parent = process.parent if _SIBLING.search(call.arguments) and process.parent else process
        if child is None:
            child = self._quick(child_pid)
        if child is None:
            self._appear(child_pid, parent)
        elif child.parent is None and child is not process and child is not self.processes[0]:
            child.parent = parent
            child.program = child.program or parent.program
            if not child.cwd_known:
                child.cwd, child.cwd_known = parent.cwd, False  # it may have gone elsewhere since

    def _quick(self, pid: int) -> Process | None:
        """A child that had already ended when its parent's fork returned."""
        for process in reversed(self.processes[-64:]):
            if process.pid == pid and process.ended and process.parent is None:
                return process
        return None

    def _merge(self, thread: Process, process: Process) -> None:
        """What looked like a process was a thread, seen before its clone returned."""
        thread.number, thread.program, thread.parent = process.number, process.program, process.parent
        self.processes.remove(thread)

    def _exec(self, process: Process, call: Call) -> None:
        words = arguments.split(call.arguments)
        folder = b""
        if call.name == "execveat" and words:
            folder = (arguments.descriptor(words.pop(0)) or (None, None))[1] or b""
        path = arguments.string(words[0]) if words else None
        program = (path[0] if path else b"") or folder  # execveat with an empty path runs the descriptor itself
        argv = arguments.strings(words[1], limits.TRACE_ARGV) if len(words) > 1 else None
        self._words(process, program, argv[0] if argv else [], call.moment)
        found = Exec(
            process=process,
            program=self._redact(paths.as_seen(program)),
            argv=[self._redact(word) for word in argv[0]] if argv else [],
            cut=argv is None or argv[1],
            error=call.error if call.result != 0 else None,
            moment=call.moment,
        )
        if call.result == 0:
            process.program = program
            self._found(found)
        elif call.error == _MISSING:
            self._look(found)
        elif call.result is None:
            found.error = "unfinished"
            self._keep(found)
        else:
            self._keep(found)

    def _look(self, found: Exec) -> None:
        """Not there: kept back, for a search through PATH fails in each folder but the last."""
        known = self._looking.get(found.process.number)
        if known is not None and known.argv == found.argv:
            if len(known.tried) < limits.TRACE_TRIED:
                known.tried.append(found.program)
            return
        self._give_up(found.process)
        found.tried.append(found.program)
        self._looking[found.process.number] = found

    def _found(self, found: Exec) -> None:
        known = self._looking.get(found.process.number)
        if known is not None and known.argv == found.argv:
            del self._looking[found.process.number]
        else:
            self._give_up(found.process)
        self._keep(found)

    def _give_up(self, process: Process) -> None:
        known = self._looking.pop(process.number, None)
        if known is not None:
            self._keep(known)

    def _keep(self, found: Exec) -> None:
        """A flood of one program cannot hide the first start of another."""
        new = found.program not in self._programs
        if len(self.execs) < limits.TRACE_RECORDS or (new and len(self._programs) < limits.TRACE_RECORDS):
            self._programs.add(found.program)
            self.execs.append(found)
        else:
            self._lose("execs")

    def _lose(self, what: str) -> None:
        self.lost[what] = self.lost.get(what, 0) + 1


Words: TypeAlias = Callable[[Process, bytes, list[bytes], float | None], None]  # who, the program, its words, when


def unheard(process: Process, program: bytes, argv: list[bytes], moment: float | None) -> None:
    """Nobody listens to command lines."""
    del process, program, argv, moment


def _tidies(call: Call) -> bool:
    """Whether a call is what is left to do for who built the sandbox: a fork returns, descriptors are closed, a wait.

    A child of such a fork that is not the target's first process is unknown, and so the target's anyway.
    """
    if call.name == "openat":
        return call.arguments.endswith(b"O_DIRECTORY") and b', "self/fd", ' in call.arguments
    return call.name in _WAITS or (call.name == "newfstatat" and call.arguments.endswith(b"AT_EMPTY_PATH"))


def _inherit(child: Process, parent: Process) -> None:
    child.program, child.cwd, child.cwd_known = parent.program, parent.cwd, parent.cwd_known


def _stand(process: Process, call: Call) -> None:
    """Strace names the folder in which the process stands, wherever a call begins with AT_FDCWD."""
    folder = (arguments.descriptor(call.arguments) or (None, None))[1]
    if folder is not None:
        process.cwd, process.cwd_known = folder, True


def _enter(process: Process, call: Call) -> None:
    if call.result != 0:
        return
    if call.name == "fchdir":
        held = arguments.descriptor(call.arguments)
        process.cwd_known = held is not None and held[1] is not None
        process.cwd = (held[1] if held else None) or process.cwd
        return
    words = arguments.split(call.arguments)
    said = arguments.string(words[0]) if words else None
    process.cwd, process.cwd_known = paths.join(process.cwd, said[0] if said else b""), False
