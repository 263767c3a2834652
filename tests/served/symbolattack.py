"""A child whose one "grammar" does what its source says, as an exploited one would; run in place of the real child.

The source is `ACT ARGUMENT`. The answer is one definition, whose name is what came of it. With `bare` the walls of the
worker and of the child are left out: the same acts, as the negative control.
"""

import errno
import os
import signal
import socket
from collections.abc import Callable

from fumehood.sandbox import confine
from fumehood.serve.symbols import child


class Attack:
    """Stands where a grammar would."""

    def definitions(self, source: bytes) -> tuple[int, list[tuple[str, str, int, int, str]]]:
        act, _, argument = source.decode().partition(" ")
        try:
            done = ACTS[act](argument)
        except OSError as error:
            done = errno.errorcode.get(error.errno or 0, "?")
        return child.WHOLE, [(str(done), "function", 1, 1, "")]


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - what an attack would do
        return file.read(20)


def _write(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return "written"


def _run(path: str) -> str:
    os.execv(path, [path])


def _fork(_: str) -> str:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "forked"


def _connect(port: str) -> str:
    with socket.socket(socket.AF_INET) as ours:
        ours.connect(("127.0.0.1", int(port)))
    return "connected"


def _kill(pid: str) -> str:
    os.kill(int(pid), 0)
    return "signalled"


def _hang(_: str) -> str:
    while True:
        signal.getsignal(signal.SIGTERM)


def _crash(_: str) -> str:
    os.abort()


def _eat(megabytes: str) -> str:
    try:
        return str(len(bytearray(int(megabytes) << 20)))
    except MemoryError:
        return "MemoryError"


def _many(_: str) -> str:
    raise SystemExit  # as a worker that ends without an answer


ACTS: dict[str, Callable[[str], str]] = {
    "read": _read,
    "list": lambda path: str(len(os.listdir(path))),  # noqa: PTH208 - what an attack would do
    "write": _write,
    "run": _run,
    "fork": _fork,
    "connect": _connect,
    "kill": _kill,
    "hang": _hang,
    "crash": _crash,
    "eat": _eat,
    "end": _many,
    "say": lambda text: text,
}


def main(descriptor: int, word: str) -> None:
    """As the real child, with this grammar for Python."""
    child.load = lambda: {"python": Attack()}  # type: ignore[dict-item]  # what stands for a language
    if word == "bare":  # the negative control
        confine.confine = lambda wanted: ()  # noqa: ARG005 - nothing is put up
        confine.filter_calls = lambda profile: None  # type: ignore[assignment,return-value]  # noqa: ARG005 - likewise
        confine.limit = lambda pairs: None  # noqa: ARG005 - likewise
    child.main(descriptor, unsafe_without_walls=word == "bare")
