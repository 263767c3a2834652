"""The listeners inside a confined child's network namespace: started early, opened once the child is known.

The helper program enters the namespace, opens sockets there and hands them out; nothing of ours stays inside. The
sockets keep the namespace alive, so whoever takes an `Inside` closes it.
"""

import asyncio
import contextlib
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox import launch
from fumehood.sandbox.egress import Policy
from fumehood.sandbox.ruleset import build_ruleset, catches, plain_ports

MESSAGE_BYTES = 128 * 1024
SOCKETS = 250  # SCM_MAX_FD is 253; 8 and two for each plain port


class ListenersError(HarnessError):
    """The listeners could not be opened inside the child's network namespace."""

    code = "listeners_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What was opened inside, and what could not be, with the reason."""

    sockets: dict[
        str, socket.socket
    ]  # "udp4", "dns4", "catch4", the same with 6, "packet:tcp", "packet:other", "plain4:443" …
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        """Close every socket; the namespace goes with the last of its processes."""
        for opened in self.sockets.values():
            opened.close()


class ListenerHelper:
    """The program that opens listeners. Its owner closes it, whether `open` was reached or not."""

    def __init__(self, process: launch.Process, channel: socket.socket) -> None:
        """Take over a started program; use `start`."""
        self._process = process
        self._channel = channel

    @classmethod
    def ready(cls) -> Self:
        """Start the program. It waits to be told a policy, then a pid; it ends with us."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            ours.settimeout(0)
            theirs.settimeout(None)  # whatever this process has as its default: the program waits for each message
            streams = launch.Streams(stderr=launch.DEVNULL)
            process = launch.start_program(
                "listeners", str(theirs.fileno()), streams=streams, pass_fds=[theirs.fileno()]
            )
            undo.pop_all()
        return cls(process, ours)

    @classmethod
    def start(cls, policy: Policy, nft: Path | None) -> Self:
        """Start the program and tell it the policy. It waits for the child's pid."""
        helper = cls.ready()
        helper.tell(policy, nft)
        return helper

    def tell(self, policy: Policy, nft: Path | None) -> None:
        """Tell it the policy. That it is gone is told by `open`."""
        setup = {
            "ruleset": build_ruleset(policy),
            "nft": None if nft is None else str(nft),
            "catch": catches(policy),
            "plain_ports": plain_ports(policy),
        }
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.send(json.dumps(setup).encode())

    async def open(self, pid: int) -> Inside:
        """Open the listeners in the namespace of `pid`; once only.

        Raises `ListenersError`, also when it takes longer than `limits.LISTENERS_SECONDS`.
        """
        try:
            self._channel.send(json.dumps({"pid": pid}).encode())
            async with asyncio.timeout(limits.LISTENERS_SECONDS):
                await launch.readable(self._channel.fileno())
            return _receive(self._channel)
        except TimeoutError as error:
            raise ListenersError(f"no answer within {limits.LISTENERS_SECONDS:g} s") from error
        except OSError as error:
            raise ListenersError(f"the listener program is gone: {error.strerror}") from error

    def close(self) -> None:
        """End and reap the program. May be called twice."""
        self._channel.close()
        self._process.close()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()


def _receive(channel: socket.socket) -> Inside:
    message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, SOCKETS, socket.MSG_CMSG_CLOEXEC)
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    answer: dict[str, Any] = json.loads(message) if message else {"error": "it ended without an answer"}
    if "error" in answer or len(answer["labels"]) != len(sockets):
        for opened in sockets:
            opened.close()
        raise ListenersError(f"no listeners inside: {answer.get('error', 'descriptors were lost')}")
    return Inside(
        sockets=dict(zip(answer["labels"], sockets, strict=True)),
        notes=tuple(answer["notes"]),
    )
