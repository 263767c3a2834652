"""The process that runs the grammars: it reads source bytes, and gives back the definitions in them.

`sandbox.launch` starts it before the server puts up its walls. It loads every grammar, takes all rights from itself
(Landlock without any rule, a list of allowed system calls), says `ready`, and forks a worker for each call. A worker
may compute, and read and write the one socket it was given; a source that makes a grammar crash or hang ends it alone.

A request on CONTROL is one byte with two descriptors: the worker's socket, and the reading end of a pipe; a byte alone
is none. When the pipe's other end is closed the worker is killed; when CONTROL is closed, all are. On its socket a
worker takes `>16sI` (language, length) and the source, and answers `>BI` (`NONE`, `WHOLE`, `PARTLY`; length) and JSON:
a list of [name, kind, first line, last line, container]. It never sees a path.

Threats: source text that exploits a grammar (generated C) or exhausts it. Not promised: that what a worker answers is
true of its source, once that has taken it over.
"""

import array
import contextlib
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import tree_sitter

from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import Profile
from fumehood.serve.symbols.languages import GRAMMARS, KINDS

REQUEST: Final = struct.Struct(">16sI")
ANSWER: Final = struct.Struct(">BI")
NONE, WHOLE, PARTLY = range(3)
NEEDED: Final = (*landlock.FILE_WALLS, "seccomp")
_WORKERS = 2 * limits.CALLS_RUNNING  # at once: one for each call, and those that are about to end
_DESCRIPTORS = 2  # of a request: the socket, the pipe
_OPEN_FILES = 8 + 4 * _WORKERS  # of each worker its pidfd and its pipe, twice over
_CLASSES = frozenset({"class", "type", "interface", "enum", "scope"})  # a function in one of these is a method

Row = tuple[str, str, int, int, str]


class Language:
    """A grammar that was loaded, with its query."""

    def __init__(self, name: str) -> None:
        """Load it. Errors: ImportError, OSError, and ValueError for a grammar that is too new or too old."""
        grammar = GRAMMARS[name]
        module = importlib.import_module(grammar.module)
        language = tree_sitter.Language(getattr(module, grammar.function)())
        self._parser = tree_sitter.Parser(language)
        self._query = tree_sitter.Query(language, grammar.query)

    def definitions(self, source: bytes) -> tuple[int, list[Row]]:
        """What a source defines, in order, and whether its tree has no fault."""
        tree = self._parser.parse(source)
        root = tree.root_node
        best: dict[int, tuple[int, int, _Found]] = {}
        for pattern, captures in tree_sitter.QueryCursor(self._query).matches(root):
            found = _found(captures)
            if found is None:
                continue
            at = found.name.start_byte
            rank = (found.whole.start_byte - found.whole.end_byte, pattern)  # the largest, then the first pattern
            if at not in best or rank < best[at][:2]:
                best[at] = (*rank, found)
            if len(best) > limits.SYMBOLS_IN_SOURCE:
                return NONE, []
        state = NONE if root.type == "ERROR" else PARTLY if root.has_error else WHOLE
        return state, list(_rows([found for _, _, found in best.values()]))


class _Found:
    """A match of a query: the node of a name, that of the whole, its kind, and a container that stands elsewhere."""

    __slots__ = ("container", "kind", "name", "whole")

    def __init__(
        self, name: "tree_sitter.Node", whole: "tree_sitter.Node", kind: str, container: "tree_sitter.Node | None"
    ) -> None:
        self.name = name
        self.whole = whole
        self.kind = kind
        self.container = container


def _found(captures: "dict[str, list[tree_sitter.Node]]") -> _Found | None:
    names = captures.get("name")
    kinds = [kind for kind in captures if kind in KINDS or kind == "scope"]
    if not names or len(kinds) != 1:
        return None
    containers = captures.get("container")
    return _Found(names[0], captures[kinds[0]][0], kinds[0], containers[0] if containers else None)


def _rows(found: list[_Found]) -> Iterator[Row]:
    """The definitions with the one around each, which begins before it and has not ended."""
    around: list[_Found] = []
    for one in sorted(found, key=lambda f: (f.whole.start_byte, -f.whole.end_byte, f.name.start_byte)):
        while around and around[-1].whole.end_byte <= one.name.start_byte:
            around.pop()
        outer = next((o for o in reversed(around) if o.whole.end_byte >= one.whole.end_byte), None)
        if one.kind != "scope":
            kind = "method" if one.kind == "function" and outer and outer.kind in _CLASSES else one.kind
            inside = _text(one.container) if one.container else _text(outer.name) if outer else ""
            yield _text(one.name), kind, one.whole.start_point[0] + 1, one.whole.end_point[0] + 1, inside
        around.append(one)


def _text(node: "tree_sitter.Node") -> str:
    text = (node.text or b"")[: limits.SYMBOL_CHARACTERS].decode("utf-8", "replace")
    return " ".join(text.split()).lstrip("*&(").rstrip(")")


def main(descriptor: int, *, unsafe_without_walls: bool = False) -> None:
    """Load, put up the walls, say so, and serve until the server is gone."""
    control = socket.socket(fileno=descriptor)  # which asks the kernel what it is: later that is refused
    languages = load()
    try:
        walls = confine.confine(
            confine.Walls(
                ruleset=landlock.NOTHING,
                profile=Profile.ZYGOTE,
                limits=((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, _OPEN_FILES)),
            )
        )
    except FumehoodError as error:
        _say(control, {"refused": error.message})
        return
    missing = [wall for wall in walls if wall.name in NEEDED and wall.state is not WallState.ENFORCED]
    if missing and not unsafe_without_walls:
        _say(control, {"refused": f"{missing[0].name}: {missing[0].why}"})
        return
    if _say(control, {"languages": sorted(languages)}):
        Zygote(control, languages).run()


def load() -> dict[str, Language]:
    """Every grammar that is installed, and warm: nothing can be loaded later."""
    languages: dict[str, Language] = {}
    for name in GRAMMARS:
        with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
            languages[name] = Language(name)
            languages[name].definitions(b"x")
    json.dumps(["x"])
    return languages


def _say(control: socket.socket, what: dict[str, object]) -> bool:
    """Whether there is still a server to hear it: one call from a shell may be over before the grammars are loaded."""
    try:
        control.send(json.dumps(what).encode())
    except OSError:
        return False
    return True


class Zygote:
    """The workers that run, each with the pipe that holds it."""

    def __init__(self, control: socket.socket, languages: dict[str, Language]) -> None:
        """Nothing runs yet."""
        self._control = control
        self._languages = languages
        self._pids: dict[int, int] = {}  # pidfd → pid
        self._holds: dict[int, int] = {}  # reading end of a pipe → pidfd
        self._own = os.getpid()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Serve until CONTROL is closed, then end every worker."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    if not self._receive():
                        return  # the kernel kills every worker when this process has ended
                elif descriptor in self._pids:
                    self._reap(descriptor)
                elif descriptor in self._holds:
                    self._let_go(descriptor)

    def _receive(self) -> bool:
        size = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
        try:
            message, ancillary, _, _ = self._control.recvmsg(1, size, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # the server ended without having read what was said to it
            return False
        got = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                got.frombytes(data[: len(data) - len(data) % got.itemsize])
        if message and len(got) == _DESCRIPTORS and len(self._pids) < _WORKERS:
            self._fork(got[0], got[1])
        else:
            _close(got)
        return bool(message)

    def _fork(self, channel: int, hold: int) -> None:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = self._work(channel)
            finally:
                os._exit(status)
        os.close(channel)
        pidfd = os.pidfd_open(pid)
        self._pids[pidfd] = pid
        self._holds[hold] = pidfd
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(hold, select.POLLIN)

    def _work(self, channel: int) -> int:
        """In the worker: give up what is not needed, then answer until the socket ends."""
        confine.die_with_parent(self._own)
        _close([self._control.fileno(), *self._pids, *self._holds])
        confine.limit(
            [
                (resource.RLIMIT_CPU, limits.SYMBOLS_CPU_SECONDS),
                (resource.RLIMIT_DATA, limits.SYMBOLS_MEMORY_BYTES),
            ]
        )
        confine.filter_calls(Profile.WORKER)
        answer(channel, self._languages)
        return 0

    def _let_go(self, hold: int) -> None:
        """The call has ended: its worker goes."""
        self._poll.unregister(hold)
        pidfd = self._holds.pop(hold)
        os.close(hold)
        if pidfd in self._pids:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        os.waitpid(self._pids.pop(pidfd), 0)
        for hold in [hold for hold, held in self._holds.items() if held == pidfd]:
            self._holds[hold] = -1  # the number will be another worker's
        os.close(pidfd)


def answer(channel: int, languages: dict[str, Language]) -> None:
    """Answer the requests on a socket until its end."""
    while len(head := _read(channel, REQUEST.size)) == REQUEST.size:
        name, size = REQUEST.unpack(head)
        if size > limits.SEARCHED_FILE_BYTES:
            return
        source = _read(channel, size)
        language = languages.get(name.rstrip(b"\0").decode("ascii", "replace"))
        if len(source) < size or language is None:
            return
        state, rows = language.definitions(source)
        payload = json.dumps(rows, separators=(",", ":")).encode()
        _write(channel, ANSWER.pack(state, len(payload)) + payload)


def _read(descriptor: int, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (block := os.read(descriptor, size - len(got))):
        got += block
    return bytes(got)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
