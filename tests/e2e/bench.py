"""A bench on which tests run whole reviews: everything is real but the outer world, which is a table of names.

Nothing here can dial outside: names come from the table, and every address leads to loopback.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import fumehood
from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.review import request, result
from fumehood.review.folder import EVENTS, RESULT, OutputFolder
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.review.run import Job, review
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World, tcp_connect
from fumehood.wire import schema

NOWHERE = "http://127.0.0.1:9/"  # the discard port: a review that asks it for anything fails
_SOURCE = Path(fumehood.__file__ or "").parents[1]
_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))
QUICK = 0  # seconds of linger where a test is not about it


def request_for(target: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A request of version 2 with no network and no linger; `changes` replace fields, None takes one away."""
    fields = {
        "schema_version": 2,
        "target": dict(target),
        "adapter": "python_stdio" if target["kind"] == "pypi" else "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": "what does it do on start?",
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": 60,
        "linger_seconds": QUICK,
        **({} if target["kind"] in {"npm", "pypi"} else {"entrypoint": "server.js"}),
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


@dataclass
class Outer:
    """The outer world: names have the addresses given here, and every address is one loopback server."""

    names: dict[str, list[str]] = field(default_factory=dict)
    port: int = 9
    dialled: list[tuple[str, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def resolve(self, name: str, *, absolute: bool) -> Iterable[str]:
        """Answer from the table."""
        del absolute
        self.asked.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self.names[name]

    async def connect(self, address: str, port: int) -> socket.socket:
        """Loopback as asked for, which only an operator's rule gets to; any other address is the loopback server."""
        self.dialled.append((address, port))
        return await tcp_connect("127.0.0.1", port if address == "127.0.0.1" else self.port)

    @property
    def world(self) -> World:
        """As a review takes it."""
        return World(resolver=self.resolve, connect=self.connect, is_own=_is_own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """One review that has ended: its two files, read back."""

    raw: bytes
    events: bytes
    progress: tuple[str, ...]

    @property
    def result(self) -> dict[str, Any]:
        """`result.json`."""
        value: dict[str, Any] = json.loads(self.raw)
        return value

    @property
    def ended(self) -> tuple[str, str]:
        """The state, and the code of what ended it; no code when nothing did."""
        errors = self.result["errors"]
        return self.result["execution"]["status"], errors[0]["code"] if errors else ""

    @property
    def message(self) -> str:
        """What the first error says."""
        return str(self.result["errors"][0]["message"])

    @property
    def steps(self) -> list[str]:
        """The names of the steps that ran."""
        return [step["name"] for step in self.result["execution"]["steps"]]

    @property
    def home(self) -> str:
        """The home that the target saw."""
        return f"/home/{self.result['environment']['target_user']}"

    @property
    def workspace(self) -> str:
        """The workspace as the target saw it, by the name that results use."""
        return str(self.result["environment"]["workspace"]).replace("/var/home/", "/home/")

    def rows(self, kind: str, phase: str | None = None, collector: str | None = None) -> list[dict[str, Any]]:
        """The rows of one type, of one phase and collector where they are named."""
        return [
            row
            for row in self.result["observations"]["items"]
            if row["type"] == kind and phase in {None, row["phase"]} and collector in {None, row["collector"]}
        ]

    def details(self, kind: str, phase: str | None = None, collector: str | None = None) -> list[dict[str, Any]]:
        """What those rows say."""
        return [row["detail"] for row in self.rows(kind, phase, collector)]

    def changes(self, phase: str) -> dict[str, str]:
        """Path → created, changed or deleted, as the layer of a phase shows."""
        return {
            row["detail"]["path"]: kind
            for kind in ("created", "changed", "deleted")
            for row in self.rows(f"filesystem.{kind}", phase, "layer")
        }

    def collector(self, name: str, phase: str) -> dict[str, Any]:
        """What one sensor says of itself in one phase."""
        found: dict[str, Any] = next(c for c in self.result["collectors"] if (c["name"], c["phase"]) == (name, phase))
        return found

    def output(self, stream: str, phase: str) -> str:
        """The captured text of one stream in one phase."""
        texts = [d["text"] for d in self.details("output.text", phase) if d["stream"] == stream]
        return "".join(texts)


@dataclass
class Bench:
    """Runs reviews on this host, each in a folder of its own."""

    host: HostFacts
    out: Path
    outer: Outer = field(default_factory=Outer)
    settings: Settings = Settings()
    registry: str = NOWHERE
    forge: str = NOWHERE
    index: str = NOWHERE
    count: int = 0

    def set(self, section: str, **values: Any) -> None:
        """Settings of this bench from now on."""
        changed = msgspec.structs.replace(getattr(self.settings, section), **values)
        self.settings = msgspec.structs.replace(self.settings, **{section: changed})

    def folder(self, place: Path, **changes: Any) -> Reviewed:
        """Review a folder as a `dir` target."""
        return self.run(request_for({"kind": "dir", "path": place.name}, **changes), beside=place.parent)

    def npm(self, name: str, version: str = "1.0.0", **changes: Any) -> Reviewed:
        """Review a package of the registry."""
        return self.run(request_for({"kind": "npm", "name": name, "version": version}, **changes))

    def pypi(self, name: str, version: str = "1.0", *, as_of: str | None = None, **changes: Any) -> Reviewed:
        """Review a package of the index."""
        dated = {"as_of": as_of} if as_of else {}
        return self.run(request_for({"kind": "pypi", "name": name, "version": version, **dated}, **changes))

    def git(self, repository: str, commit: str, **changes: Any) -> Reviewed:
        """Review a commit of the forge."""
        return self.run(request_for({"kind": "git", "repository": repository, "ref": commit}, **changes))

    def run(self, fields: dict[str, Any], beside: Path = Path("/nonexistent")) -> Reviewed:
        """Run one review; its result has to fit the published schema, and nothing of it may be left."""
        self.count += 1
        out = self.out / f"result-{self.count}"
        progress: list[str] = []
        job = Job(
            request=request.convert(fields),
            beside=beside,
            host=self.host,
            settings=self.settings,
            sources=Sources(
                registry=Remote.parse(self.registry),
                forge=Remote.parse(self.forge),
                ca_file=None,
                index=Remote.parse(self.index),
            ),
            clock=SystemClock(),
            chance=random.Random(self.count),
            progress=progress.append,
            world=self.outer.world,
        )
        before = set(descendants())
        with OutputFolder(out) as folder:
            folder.finish(result.encode(asyncio.run(review(job, folder))))
        assert set(descendants()) <= before
        assert left_below(self.host.run_root) == []
        reviewed = Reviewed(
            raw=(out / RESULT).read_bytes(), events=(out / EVENTS).read_bytes(), progress=tuple(progress)
        )
        assert sorted(path.name for path in out.iterdir()) == sorted([EVENTS, RESULT])
        check(reviewed.raw)
        return reviewed


def _is_own(address: str) -> bool:
    """Nothing of the table is this host's own."""
    del address
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of the command."""

    status: int
    stdout: str
    stderr: str
    out: Path

    @property
    def result(self) -> dict[str, Any]:
        """`result.json`, which fits the published schema."""
        raw = (self.out / RESULT).read_bytes()
        check(raw)
        value: dict[str, Any] = json.loads(raw)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Runs `fumehood review run` with an environment and run folders of the test's own."""

    place: Path
    run_root: Path
    registry: str = NOWHERE
    uid: int | None = None  # as this ordinary user, from a process without root's rights
    before: tuple[str, ...] = ()  # words that start the command

    @property
    def out(self) -> Path:
        """Where the result comes."""
        return self.place / "out"

    def argv(self, *words: str, program: tuple[str, ...] = ("-m", "fumehood")) -> list[str]:
        """The command line, behind a shell when it is another user's: setpriv's own first exec has root's rights."""
        argv = [*self.before, os.path.realpath(sys.executable) if self.uid else sys.executable, *program, *words]
        if self.uid is None:
            return argv
        drop = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--inh-caps=-all", "--"]
        return [*drop, "/bin/sh", "-c", '"$@"', "sh", *argv]

    def environment(self, **more: str) -> dict[str, str]:
        """What the command is given, and nothing of this process."""
        return {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.place),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(_SOURCE), _PACKAGES]),
            "FUMEHOOD_SANDBOX__RUN_ROOT": str(self.run_root),
            "FUMEHOOD_REVIEW__NPM_REGISTRY": self.registry,
            **more,
        }

    def request(self, fields: Mapping[str, Any]) -> str:
        """Write a request beside what it names; its path."""
        path = self.place / "request.json"
        path.write_text(json.dumps(fields), encoding="utf-8")
        return str(path)

    def run(
        self, *words: str, program: tuple[str, ...] = ("-m", "fumehood"), environment: Mapping[str, str] | None = None
    ) -> Ran:
        """`review run WORDS --out …` to its end."""
        argv = self.argv("review", "run", *words, "--out", str(self.out), program=program)
        done = subprocess.run(
            argv, env=self.environment(**(environment or {})), cwd="/", capture_output=True, timeout=300, check=False
        )
        return Ran(
            status=done.returncode,
            stdout=done.stdout.decode("utf-8", "surrogateescape"),
            stderr=done.stderr.decode("utf-8", "surrogateescape"),
            out=self.out,
        )


def check(raw: bytes) -> None:
    """A result fits the published schema and itself, is ASCII, and holds no control character but line ends."""
    value = json.loads(raw)
    steps = {step["name"] for step in value["execution"]["steps"]}
    sensors = {(sensor["name"], sensor["phase"]) for sensor in value["collectors"]}
    rows = value["observations"]["items"]
    assert {row["step"].partition("/")[0] for row in rows} <= steps
    assert {(row["collector"], row["phase"]) for row in rows} <= sensors
    assert {one["step"] for one in value["containment"]} >= steps
    assert [row["sequence"] for row in rows] == sorted({row["sequence"] for row in rows})
    assert len(rows) + sum(lost["count"] for lost in value["observations"]["lost"]) == value["observations"]["total"]
    assert [str(problem) for problem in schema.problems(result.schema(), value)] == []
    assert all(byte == 0x0A or 0x20 <= byte < 0x7F for byte in raw)


def descendants() -> Iterator[int]:
    """The processes below this one that still run."""
    with contextlib.suppress(OSError):
        for pid in lineage.tree(os.getpid()):
            if pid != os.getpid() and not _zombie(pid):
                yield pid


def _zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def left_below(run_root: Path) -> list[str]:
    """What lies below a root of run folders, the slots of uids apart."""
    return sorted(path.name for path in run_root.iterdir() if path.name != "slots")
