"""Turn what strace writes into events, piece by piece. Pure: bytes in, values out.

Reads `strace -f -ttt -y --decode-pids=pidns -o FILE` of the versions 5 and 6, also without `-ttt`. A call that another
process interrupted in the file (`<unfinished ...>`, `<... name resumed>`) is put together again by its pid, and has the
moment of its first half; one that never came back (its process was killed) is given at the end, without a result.

Invariants: no input raises; a line that is not understood is counted, and so is one over its limit; what waits for its
second half is bounded by number and size. A target chooses the names of its files and the words of its arguments, and
strace escapes quotes, control characters, and inside `<path>` also `<` and `>`: so the result is looked for from the
right end of the line, and no name can pretend to be one (`tests/unit/observe/test_strace.py` tries).
"""

import re
from typing import NamedTuple, TypeAlias

from fumehood.core import limits

_UNFINISHED = b" <unfinished ...>"
_CHANGED = re.compile(rb" <pid changed to (\d{1,10}) \.\.\.>$")
_SUPERSEDED = re.compile(
    rb"(?:(.*?)\d{1,10} {1,9}(?:\d{1,12}\.\d{6} )?)?\+\+\+ superseded by execve in pid (\d{1,10}) \+\+\+", re.DOTALL
)
_RESUMED = re.compile(rb"<\.\.\. ([a-z0-9_]+) resumed> ?")
_NAME = re.compile(rb"[a-z_][a-z0-9_]*\(")
# What stands behind "= ": a number, an address or nothing known; the path of a new descriptor; the error; remarks. One
# is <unavailable>: the process was killed in the call.
_RESULT = re.compile(
    rb"(-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?: <unavailable>)?(?:<([^<>]*)>(?:\(deleted\))?)?"
    rb"(?: (E[A-Z0-9]+))?(?: \([^<>()]*\)){0,3}"
    rb"(?: /\* (\d{1,10}) in strace's PID NS \*/)?"
)
_TRIES = 8  # "= " inside a remark is rare; inside a path it is passed over at once
_EXITED = re.compile(rb"\+\+\+ exited with (\d{1,10}) \+\+\+")
_KILLED = re.compile(rb"\+\+\+ killed by (SIG[A-Z0-9_]+)(?: \(core dumped\))? \+\+\+")
_SIGNAL = re.compile(rb"--- (SIG[A-Z0-9_]+) (\{.*\}) ---")
_PENDING = 4096  # calls under way at one moment; PROCESSES is 512, and threads count as such
_PREFIX = 24  # a pid and spaces
_MOMENT = re.compile(rb"(\d{1,12}\.\d{6}) ")  # seconds of the wall clock; no name of a call begins with a digit


class Call(NamedTuple):
    """One system call, as strace printed it."""

    pid: int  # as the tracer counts
    name: str
    arguments: bytes  # escaped as printed, without the parentheses
    result: int | None  # None: it did not return
    error: str | None  # "EPERM"
    path: bytes | None  # of the descriptor that it returned, as the kernel resolved it, escaped as printed
    outer: int | None  # the pid that it returned, as the tracer counts
    moment: float | None = None  # when it was made, in seconds of the wall clock


class Ended(NamedTuple):
    """A process or thread that ended."""

    pid: int
    status: int | None
    signal: str | None
    moment: float | None = None


class Signalled(NamedTuple):
    """A signal that reached a process, with its siginfo as printed."""

    pid: int
    name: str
    detail: bytes
    moment: float | None = None


Event: TypeAlias = Call | Ended | Signalled
_Begun: TypeAlias = tuple[bytes, float | None]  # the first half of a call, and when it was made


class TraceParser:
    """One trace. `feed` it what arrives, in any pieces; `finish` at its end."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self._rest = b""
        self._skipping = False  # inside a line that was over the limit
        self._pending: dict[int, _Begun] = {}
        self._names: dict[bytes, str] = {}
        self.lines = 0
        self.lost: dict[str, int] = {}  # "malformed", "overlong", "pending", "resumed" → how many lines

    def feed(self, data: bytes) -> list[Event]:
        """Every event that `data` completes, in the order of the trace."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if self._skipping and lines:
            lines = lines[1:]
            self._skipping = False
        if len(self._rest) > limits.TRACE_LINE_BYTES or self._skipping:
            if not self._skipping:
                self._lose("overlong")
            self._skipping = True
            self._rest = b""
        events: list[Event] = []
        for line in lines:
            event = self._line(line)
            if event is not None:
                events.append(event)
        return events

    def finish(self) -> list[Event]:
        """What was still under way when the trace ended: a cut last line, then calls that never returned."""
        events = self.feed(b"\n") if self._rest else []
        waiting, self._pending = self._pending, {}
        for pid, begun in waiting.items():
            event = self._unreturned(pid, begun)
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: bytes) -> Event | None:
        self.lines += 1
        if len(line) > limits.TRACE_LINE_BYTES:
            self._lose("overlong")
            return None
        number, _, text = line[:_PREFIX].partition(b" ")
        text = (text + line[_PREFIX:]).lstrip(b" ")
        if not number.isdigit() or not text:
            self._lose("malformed")
            return None
        pid = int(number)
        stamped = _MOMENT.match(text)
        moment = float(stamped[1]) if stamped else None
        if stamped:
            text = text[stamped.end() :]
        match text[:1]:
            case b"<":
                return self._resumed(pid, text)
            case b"+":
                return self._ended(pid, text, moment)
            case b"-":
                return self._signalled(pid, text, moment)
            case _:
                return self._started(pid, text, moment)

    def _started(self, pid: int, text: bytes, moment: float | None) -> Event | None:
        if text.endswith(_UNFINISHED):
            self._wait(pid, (text[: -len(_UNFINISHED)], moment))
            return None
        if text.endswith(b" ...>") and (changed := _CHANGED.search(text)):
            # A thread other than the first called execve: the call comes back under the number of the first.
            self._pending[int(changed[1])] = text[: changed.start()], moment
            return None
        if text.endswith(b" +++"):
            self._superseded(pid, text, moment)
            return None
        return self._call(pid, text, moment)

    def _superseded(self, pid: int, text: bytes, moment: float | None) -> None:
        """The first thread has become what another executed: the call of that thread goes on as its own.

        With -q, strace 6.1 prints the call once more, without an end, and this remark on the same line.
        """
        found = _SUPERSEDED.fullmatch(text)
        if found is None:
            self._lose("malformed")
            return
        begun = self._pending.pop(int(found[2]), None) or (found[1], moment)
        if begun[0]:
            self._pending[pid] = begun

    def _wait(self, pid: int, begun: _Begun) -> None:
        if pid in self._pending or len(self._pending) >= _PENDING:
            self._lose("pending")
        if pid in self._pending or len(self._pending) < _PENDING:
            self._pending[pid] = begun

    def _resumed(self, pid: int, text: bytes) -> Event | None:
        resumed = _RESUMED.match(text)
        if resumed is None:
            self._lose("malformed")
            return None
        begun, moment = self._pending.pop(pid, (None, None))
        if begun is None or not begun.startswith(resumed[1] + b"("):
            # The first half is not there: what came back still says that the call was made, and how it ended.
            self._lose("resumed")
            begun, moment = resumed[1] + b"(", None
        again = text.endswith(_UNFINISHED)
        rest = text[resumed.end() : -len(_UNFINISHED) if again else None]
        if len(begun) + len(rest) > 2 * limits.TRACE_LINE_BYTES:
            self._lose("overlong")
            return None
        if again:
            self._wait(pid, (begun + rest, moment))
            return None
        return self._call(pid, begun + rest, moment)

    def _call(self, pid: int, text: bytes, moment: float | None) -> Call | None:
        named = _NAME.match(text)
        if named is None:
            self._lose("malformed")
            return None
        found = _result(text, named.end())
        if found is None:
            self._lose("malformed")
            return None
        end, result = found
        value, path, error, outer = result.groups()
        return Call(
            pid,
            self._name(named[0][:-1]),
            text[named.end() : end],
            None if value == b"?" else int(value, 16 if value.startswith(b"0x") else 10),
            error.decode() if error else None,
            path,
            int(outer) if outer else None,
            moment,
        )

    def _unreturned(self, pid: int, begun: _Begun) -> Call | None:
        text, moment = begun
        named = _NAME.match(text)
        if named is None:
            self._lose("malformed")
            return None
        return Call(pid, self._name(named[0][:-1]), text[named.end() :], None, None, None, None, moment)

    def _name(self, name: bytes) -> str:
        known = self._names.get(name)
        if known is None:
            known = name.decode("ascii")
            if len(self._names) < _PENDING:
                self._names[name] = known
        return known

    def _ended(self, pid: int, text: bytes, moment: float | None) -> Ended | None:
        if exited := _EXITED.fullmatch(text):
            return Ended(pid, int(exited[1]), None, moment)
        if killed := _KILLED.fullmatch(text):
            return Ended(pid, None, killed[1].decode(), moment)
        self._superseded(pid, text, moment)
        return None

    def _signalled(self, pid: int, text: bytes, moment: float | None) -> Signalled | None:
        if signal := _SIGNAL.fullmatch(text):
            return Signalled(pid, signal[1].decode(), signal[2], moment)
        if text.startswith(b"--- stopped by "):
            return None
        self._lose("malformed")
        return None

    def _lose(self, why: str) -> None:
        self.lost[why] = self.lost.get(why, 0) + 1


def _result(text: bytes, begin: int) -> tuple[int, re.Match[bytes]] | None:
    """Where the arguments end, and the result behind them; None when the line has none."""
    # A path at the very end hides nothing: `<` inside it is escaped, so the last one opens it.
    limit = text.rfind(b"<") if text.endswith((b">", b">(deleted)")) else len(text)
    for _ in range(_TRIES):
        at = text.rfind(b"= ", begin, limit)
        if at < 0:
            return None
        before = text[begin:at].rstrip(b" ") if text[at - 1 : at] == b" " else b""
        if before.endswith(b")"):
            result = _RESULT.fullmatch(text, at + 2)
            if result is not None:
                return begin + len(before) - 1, result
        limit = at
    return None
