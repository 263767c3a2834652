"""A laboratory: real sandboxes on this host, by every route that it has, running small Python programs."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fumehood.sandbox import runs
from fumehood.sandbox.containment import Containment, WallState
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.proof.weakened import Weakened
from fumehood.sandbox.spec import Bounds, Exit, Identity, PlainFolder, Route, SandboxSpec
from fumehood.sandbox.start import AsItIs, Reshape
from fumehood.sandbox.streams import Capture
from fumehood.sandbox.supervise import Running, Wiring, sandbox

_REAL = os.path.realpath(sys.executable)
PYTHON = _REAL if _REAL.startswith("/usr/") else "/usr/bin/python3"
# Words for the programs that run inside: `call` makes a raw system call and says OK or the error's name.
PRELUDE = """
import ctypes, errno, json, os, signal, socket, sys, time
_libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    words = [ctypes.c_ulong(a % 2**64) if isinstance(a, int) else a for a in arguments]
    words += [ctypes.c_ulong(0)] * (6 - len(words))
    ctypes.set_errno(0)
    if _libc.syscall(ctypes.c_long(number), *words) == -1:
        return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    return 'OK'
def attempt(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return 'OK'
def apart(act):
    'Do it in a child, so that whatever it changes is gone; its answer, or the signal that ended it.'
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, act().encode())
        finally:
            os._exit(0)
    os.close(writing)
    answer = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return answer or f'signal {os.WTERMSIG(status)}'
def say(**what):
    print(json.dumps(what), flush=True)
"""


@dataclass
class Outcome:
    """What one sandbox left."""

    exit: Exit
    stdout: Capture
    stderr: Capture
    containment: Containment
    trace: bytes = b""
    upper: dict[str, bytes] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, Any]:
        """The last line of stdout, as `say` printed it."""
        lines = self.stdout.data.splitlines()
        assert lines, (self.exit, self.stderr.data[-2000:])
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def state(self, wall: str) -> WallState:
        """The state of one wall."""
        return next(w.state for w in self.containment.walls if w.name == wall)


@dataclass
class Lab:
    """Runs programs behind every wall but those that are taken away."""

    host: HostFacts
    route: Route

    def run(
        self,
        program: str,
        *,
        without: tuple[str, ...] = (),
        act: Callable[[Running], Awaitable[None]] | None = None,
        **changes: Any,
    ) -> Outcome:
        """Run a Python program to its end, or `act` on it first. `changes` go to spec, bounds and wiring by name."""
        return asyncio.run(self.experiment(PRELUDE + program, without=without, act=act, **changes))

    async def experiment(
        self,
        program: str,
        *,
        without: tuple[str, ...] = (),
        act: Callable[[Running], Awaitable[None]] | None = None,
        **changes: Any,
    ) -> Outcome:
        """The same, inside a running loop."""
        trace: list[bytes] = []
        reshape: Reshape = Weakened(without=frozenset(without)) if without else AsItIs()
        wiring = Wiring(trace=trace.append, unsafe_reshape=reshape)
        bounds = Bounds(
            wall_seconds=changes.pop("wall_seconds", 60.0),
            **{name: changes.pop(name) for name in tuple(changes) if name in Bounds.__dataclass_fields__},
        )
        with runs.open_run(self.host) as run:
            spec = self.spec(run, program, **changes)
            async with sandbox(spec, self.host, run, bounds, wiring, route=self.route) as running:
                if act is None:
                    running.close_stdin()
                    await running.wait()
                else:
                    await act(running)
                ended = await running.end()
            assert spec.overlay is not None
            upper = {
                str(path.relative_to(spec.overlay.upper)): path.read_bytes()
                for path in spec.overlay.upper.rglob("*")
                if path.is_file() and not path.is_symlink() and path.stat().st_size < 1000
            }
        return Outcome(
            exit=ended,
            stdout=running.stdout,
            stderr=running.stderr,
            containment=running.containment,
            trace=b"".join(trace),
            upper=upper,
        )

    def spec(self, run: runs.Run, program: str, **changes: Any) -> SandboxSpec:
        """An ordinary spec: a home with a workspace in a layer, Python running the program."""
        base, top = run.layer("base"), run.layer("top")
        plain = changes.pop("plain", False)  # a folder in the place of the overlay
        for name in ("home", "home/mira", "home/mira/notes", "tmp"):
            folder = base.upper / name
            folder.mkdir()
            os.chown(folder, run.uid, run.uid)
        values: dict[str, Any] = {
            "argv": (PYTHON, "-I", "-S", "-c", program),
            "environment": (("PATH", "/usr/bin:/bin"), ("HOME", "/home/mira")),
            "workdir": "/home/mira/notes",
            "identity": Identity(uid=run.uid, user="mira", host="birch-7"),
            "overlay": PlainFolder(upper=base.upper) if plain else runs.overlay([base], top),
        }
        return SandboxSpec(**(values | changes))


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostFacts]:
    """What this host can do, with a place for run folders of this session's own."""
    del tmp_path_factory  # its folders are closed to other users; targets have to pass
    place = Path(f"/var/tmp/fumehood-test-{os.getuid()}-{os.getpid()}")
    place.mkdir(mode=0o711)
    place.chmod(0o711)
    facts = probe.probe_host({}, quick=True, run_root=place)
    assert facts.routes, facts.probes
    yield facts
    assert [path.name for path in place.iterdir() if path.name != "slots"] == []
    for path in (*place.glob("slots/*"),):
        path.unlink()
    for path in (*place.glob("slots"), place):
        path.rmdir()


ROUTES = [Route.DROPPED, Route.ROOT] if os.geteuid() == 0 else [Route.USER]


@pytest.fixture(params=ROUTES, ids=[route.value for route in ROUTES], scope="session")
def lab(request: pytest.FixtureRequest, host: HostFacts) -> Lab:
    """A laboratory for each route of this user."""
    assert request.param in host.routes, host.probes
    return Lab(host=host, route=request.param)
