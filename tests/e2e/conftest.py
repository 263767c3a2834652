"""Benches for whole reviews. A fixture server is reviewed once in a session, whatever looks at its result."""

import contextlib
import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import grounded as grounds
from e2e import guarded
from e2e.bench import Bench, Command, Reviewed, left_below
from e2e.grounded import Grounded
from e2e.guarded import Hall
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.station import open_station
from loopback.speaking import wait_until

# What a fixture server needs beyond an ordinary request.
WISHES: dict[str, dict[str, object]] = {
    "answers-twice": {"linger_seconds": 1},
    "asking": {"linger_seconds": 1},
    "build-required": {"entrypoint": "dist/index.js", "prepare_profile": "npm_build"},
    "forking": {"argv": ["0.5"], "linger_seconds": 3},
    "slow": {"argv": ["0.5"]},
}
_SET_CHILD_SUBREAPER = 36  # prctl(2)
NEVER_ANSWER = ("other-id", "silent")  # the operator's limit makes them quick


@pytest.fixture(scope="session")
def review_host() -> Iterator[HostFacts]:
    """What this host can do, with a place for run folders of this session's own, through which targets can pass."""
    place = Path(f"/var/tmp/fumehood-e2e-{os.getuid()}-{os.getpid()}")
    place.mkdir(mode=0o711)
    place.chmod(0o711)
    facts = probe.probe_host({}, quick=True, run_root=place)
    assert facts.routes, facts.probes
    yield facts
    assert left_below(place) == []
    shutil.rmtree(place)


@pytest.fixture
def bench(review_host: HostFacts, tmp_path: Path) -> Bench:
    """A bench of the test's own: no registry, no forge, nobody outside, until the test says otherwise."""
    return Bench(host=review_host, out=tmp_path)


@pytest.fixture(scope="session")
def reviewed(
    review_host: HostFacts, server_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Reviewed]:
    """The review of a fixture server under NONE."""
    kept: dict[str, Reviewed] = {}

    def find(name: str) -> Reviewed:
        if name not in kept:
            bench = Bench(host=review_host, out=tmp_path_factory.mktemp(name))
            if name in NEVER_ANSWER:
                bench.set("review", exercise_seconds=1.0)
            kept[name] = bench.folder(server_folder(name), **WISHES.get(name, {}))
        return kept[name]

    return find


@pytest.fixture
def command(review_host: HostFacts, tmp_path: Path) -> Iterator[Command]:
    """The command itself, with run folders of the session's own."""
    yield Command(place=tmp_path, run_root=review_host.run_root)
    assert left_below(review_host.run_root) == []


@pytest.fixture
def safe(server_folder: Callable[[str], Path]) -> str:
    """The program of the bundled server."""
    return (server_folder("safe") / "server.js").read_text(encoding="utf-8")


@pytest.fixture
def target(safe: str, tmp_path: Path) -> Callable[..., Path]:
    """Make a folder that is the bundled server with other files, and with `hook.js` as its postinstall hook."""

    def make(files: dict[str, str], name: str = "target", **manifest: object) -> Path:
        place = tmp_path / name
        place.mkdir()
        scripts = {"scripts": {"postinstall": "node hook.js"}} if "hook.js" in files else {}
        package = {"name": "unit-target", "version": "1.0.0", **scripts, **manifest}
        hooks = {"hasInstallScript": True} if scripts else {}
        lock = {"lockfileVersion": 3, "requires": True, "packages": {"": {**package, **hooks}}}
        everything = {
            "server.js": safe,
            "package.json": json.dumps(package),
            "package-lock.json": json.dumps({"name": "unit-target", "version": "1.0.0", **lock}),
            **files,
        }
        for path, text in everything.items():
            (place / path).write_text(text, encoding="utf-8")
        return place

    return make


@pytest.fixture
def hall(command: Command) -> Iterator[Hall]:
    """A place for guarded servers; what was started there ends with the test."""
    place = Path(guarded.name())
    guarded.prepare(place)
    try:
        with contextlib.ExitStack() as stack:
            yield Hall(place=place, command=command, held=stack.enter_context)
        wait_until(lambda: left_below(command.run_root) == [])  # a guard that was killed leaves it to its janitor
    finally:
        shutil.rmtree(place)


@pytest.fixture
def grounded(hall: Hall, review_host: HostFacts) -> Iterator[Grounded]:
    """A ground for servers behind the gateway, with seats for four; nothing of them is left."""
    said: list[str] = []
    given = {"GIVEN_NAME": "a canary", "OWN_TOKEN": "a canary", "FUMEHOOD_SECRET": "a canary", "KEPT_NAME": "a canary"}
    with open_station(review_host, 4) as station:
        made = Grounded(hall=hall, ground=grounds.ground(hall, review_host, station, said, given), said=said)
        yield made
        assert made.pids() == []
        assert station.free == 4


@pytest.fixture
def adopted() -> Iterator[None]:
    """Processes whose parents are killed become ours (and not init's), so that none can hide; as init we reap them."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0
    for pid in lineage.children(os.getpid()):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
