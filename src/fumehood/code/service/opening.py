"""Everything that a runner needs from outside before it serves: its sockets, and the file that says who may send.

Invariants: nobody is served without a token, on loopback either, for every process of a machine reaches that; the
addresses are literal when they are judged and bound. A runner speaks no TLS: beyond loopback it says so at its start.
"""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core.errors import RefusedError
from fumehood.core.sections import CodeSettings
from fumehood.wire import sockets
from fumehood.wire.auth import TokenFile
from fumehood.wire.exposure import is_loopback
from fumehood.wire.scopes import is_limited

_REMEDY: Final = "set code.token_file; docs/howto/run-a-runner.md makes a token and its line"
_CLEAR: Final = "beyond loopback programs, answers and the token travel in the clear: only on a network of your own"


class RunnerStartError(RefusedError):
    """A runner may not be started with these settings."""

    code = "runner_start"


class Tokens:
    """Who may send programs: whoever has a token of the file that is not limited to some tools."""

    def __init__(self, path: Path) -> None:
        """Read the file for the first time. Errors: `SettingsError`."""
        self._file = TokenFile(path)

    def known(self, token: str) -> bool:
        """Whether a token lets a program in, found in constant time; the file is read again when it changes."""
        caller = self._file.caller(token)
        return caller is not None and not is_limited(caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A runner's sockets and tokens, before it serves anybody."""

    sockets: tuple[socket.socket, ...]
    tokens: Tokens
    notes: tuple[str, ...]  # for the operator


def open_runner(code: CodeSettings) -> Opened:
    """Read the tokens and bind. Errors: `RunnerStartError`, `SettingsError`, `SocketError`: each stops the start."""
    if code.token_file is None:
        raise RunnerStartError("code.token_file is not set, and nobody sends programs without a token", remedy=_REMEDY)
    tokens = Tokens(Path(code.token_file))
    places = sockets.addresses(code.host, code.port)
    if not places:
        raise RunnerStartError("code.host has no address on this machine", remedy="write 127.0.0.1")
    opened = sockets.bind_tcp(places, setting="code.port")
    beyond = not all(is_loopback(address) for address, _ in places)
    return Opened(sockets=tuple(opened), tokens=tokens, notes=(_CLEAR,) if beyond else ())
