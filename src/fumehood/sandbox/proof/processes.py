"""Prove the walls that a process puts up around itself: each wall's acts with it, and with exactly it taken away.

As in `proving`, only the difference is a proof. The acts are those of `programs/walled.py`; each runs in a process of
its own that takes a ruleset and a seccomp program as the real one does. Holds: everything planted is gone afterwards.
"""

import contextlib
import json
import os
import platform
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fumehood.core.errors import FumehoodError
from fumehood.core.limits import PROBE_SECONDS
from fumehood.sandbox import confine, landlock, launch, seccomp
from fumehood.sandbox.proof.proving import NOT_PROVEN, Acts, Outcome, Proven, Trial, judge, read_outcomes
from fumehood.sandbox.spec import Profile

_HARMLESS: Final = "/usr/bin/true"
UNPROVABLE: Final = {
    "no_new_privileges": "without it none of the other walls could be taken",
    "core_dumps": "a limit of the kernel; nothing here crashes on purpose",
    "open_files": "a limit of the kernel",
    "memory": "a limit of the kernel",
    "cpu_time": "a limit of the kernel",
    "file_size": "a limit of the kernel",
    "parent_death": "a signal of the kernel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Confined:
    """The walls of one kind of process."""

    name: str
    ruleset: landlock.Ruleset | None  # None: taken away
    profile: Profile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What was planted for the acts."""

    root: Path  # the workspace, with a file `inside`
    outside: Path  # a file beside it
    port: int
    abstract: str
    pid: int


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """Plant a workspace, a file outside of it, a service on loopback and an abstract socket."""
    name = f"fumehood-proof-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="fumehood-proof-"))).resolve()
        root = folder / "workspace"
        root.mkdir()
        for path in (root / "inside", folder / "outside"):
            path.write_bytes(b"planted\n")
        service = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = held.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield Ground(
            root=root, outside=folder / "outside", port=service.getsockname()[1], abstract=name, pid=os.getpid()
        )


def acts(planted: Ground) -> dict[str, Acts]:
    """The acts that each wall should stop. Pure."""
    inside = str(planted.root / "inside")
    return {
        "outside_reading": {"read_outside": str(planted.outside)},
        "writing": {"write_inside": inside},
        "executing": {"execute": _HARMLESS},
        "truncating": {"empty_inside": inside},
        "tcp_connect": {"connect_tcp": planted.port},
        "tcp_bind": {"bind_tcp": 0},
        "device_control": {"control_device": "/dev/null"},
        "abstract_sockets": {"connect_abstract": planted.abstract},
        "signals": {"send_signal": planted.pid},
        "seccomp": {"change_mode": inside, "make_socket": 0, "be_traced": 0},
    }


def prove(confined: Confined, planted: Ground) -> list[Proven]:
    """Try every wall of a process, in the order of `landlock.WALLS`, the seccomp program last."""
    found = []
    for wall, wanted in acts(planted).items():
        # Landlock's walls are tried without the program of the process, which would refuse some of the acts itself.
        beside = confined if wall == "seccomp" else replace(confined, profile=None)
        inside = attempt(beside, wanted)
        outside = attempt(without(beside, wall), wanted)
        found.append(judge(Trial(wall=wall, acts=wanted), inside, outside))
    return found


def unproven(walls: Mapping[str, str]) -> list[Proven]:
    """Walls that no act shows, each with its reason."""
    return [Proven(wall=wall, result=NOT_PROVEN, why=why, with_wall={}, without_wall={}) for wall, why in walls.items()]


def without(confined: Confined, wall: str) -> Confined:
    """The same with exactly one wall taken away; all of Landlock where its interface grants no such right. Pure."""
    if wall == "seccomp":
        return replace(confined, profile=None)
    if confined.ruleset is None:
        return confined
    whole = confined.ruleset
    open_: dict[str, landlock.Ruleset] = {
        "outside_reading": replace(whole, readable=(*whole.readable, "/")),
        "writing": replace(whole, devices=(*whole.devices, "/")),
        "executing": replace(whole, executable=(*whole.executable, "/")),
        "tcp_connect": replace(whole, tcp_connect=True),
        "tcp_bind": replace(whole, tcp_bind=True),
        "abstract_sockets": replace(whole, scoped=False),
        "signals": replace(whole, scoped=False),
    }
    return replace(confined, ruleset=open_.get(wall))


def attempt(confined: Confined, wanted: Acts) -> Outcome:
    """Try acts behind these walls, and say what came of each."""
    abi = confine.landlock_abi()
    with contextlib.ExitStack() as held:
        try:
            rules = code = -1
            if confined.ruleset is not None and abi:
                rules = confine.ruleset_descriptor(confined.ruleset, abi)
                held.enter_context(launch.closing(rules))
            if confined.profile is not None:
                code = os.memfd_create("filter")
                held.enter_context(launch.closing(code))
                os.pwrite(code, seccomp.program(confined.profile, platform.machine()), 0)
            program = str(launch.PROGRAMS / "walled.py")
            done = launch.run_tool(
                [sys.executable, "-I", "-S", program, str(rules), str(code), json.dumps(wanted)],
                timeout_seconds=PROBE_SECONDS,
                pass_fds=[one for one in (rules, code) if one >= 0],
            )
        except FumehoodError as error:
            return Outcome(acts={}, problem=error.message)
    return Outcome(acts=read_outcomes(done.stdout), problem=done.stderr.decode("utf-8", "replace").strip()[-500:])
