"""What the acts of a proof reach for: planted outside, harmless, and gone afterwards.

Holds: nothing of the host's own is touched. The secret holds random bytes, the folder lies in the run's, the process
waits on a pipe, the services accept nothing, the queue is new and removed.
"""

import contextlib
import ctypes
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fumehood.sandbox.bubblewrap import drop_words
from fumehood.sandbox.launch import PIPE, Streams, spawn
from fumehood.sandbox.proof.proving import Planted
from fumehood.sandbox.runs import Run

OTHERS_FILE: Final = "/opt/other"  # where it is shown inside
_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0  # <sys/ipc.h>


@contextlib.contextmanager
def planted(run: Run, setpriv: Path) -> Iterator[Planted]:
    """Everything that the acts are given, as long as the block lasts."""
    with contextlib.ExitStack() as stack:
        folder = run.folder("outside")
        secret = folder / "secret"
        secret.write_bytes(secrets.token_bytes(16))
        secret.chmod(0o644)
        other = others_file(run)
        other.write_bytes(secrets.token_bytes(16))
        other.chmod(0o600)
        abstract = f"proof-{secrets.token_hex(8)}"
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"\0{abstract}")
        unix.listen()
        tcp = stack.enter_context(socket.socket(socket.AF_INET))
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        yield Planted(
            secret=str(secret),
            open_folder=str(folder),
            process=stack.enter_context(_process(run.uid, setpriv)),
            abstract=abstract,
            port=int(tcp.getsockname()[1]),
            host_name=os.uname().nodename,
            queue=stack.enter_context(_queue()),
            others_file=OTHERS_FILE,
        )


def others_file(run: Run) -> Path:
    """The file that belongs to whoever runs fumehood, and is shown inside."""
    return run.path / "other"


@contextlib.contextmanager
def _process(uid: int, setpriv: Path) -> Iterator[int]:
    """A process of the target's own uid that waits for input which never comes."""
    drop = [*drop_words(str(setpriv), uid), "--"] if os.geteuid() == 0 else []
    process = spawn([*drop, "/usr/bin/cat"], streams=Streams(stdin=PIPE), environment={"PLANTED": secrets.token_hex(8)})
    try:
        yield process.pid
    finally:
        process.close()


@contextlib.contextmanager
def _queue() -> Iterator[int]:
    """The key of a new System V message queue; 0, which nobody can look up, where the kernel has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**31 - 2) + 1
    number = libc.msgget(ctypes.c_int(key), _IPC_CREAT | _IPC_EXCL | 0o666)
    try:
        yield key if number >= 0 else 0
    finally:
        if number >= 0:
            libc.msgctl(number, _IPC_RMID, None)
