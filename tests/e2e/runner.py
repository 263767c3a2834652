"""A real `fumehood code runner`, and a client that is not ours: the `websockets` library's, with threads.

The self test is not run for each of them: its record is written beforehand, as one that was passed would have.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from e2e.bench import left_below
from fumehood.code import attest, attestation, statefile
from fumehood.code.run import prepare
from fumehood.core.clock import SystemClock
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import runtime
from fumehood.wire.auth import mint
from served.talk import FUMEHOOD

BOUND_SECONDS = 60.0  # for whatever has to happen; on an idle machine it takes milliseconds
Tools = Mapping[str, Callable[[Any], Any]]  # name of a tool → its answer


@dataclass
class Told:
    """What a client heard of one run."""

    result: dict[str, Any]
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def value(self) -> Any:
        """What a program that ended well returned."""
        assert self.result["ok"], self.result
        return self.result["value"]

    @property
    def thrown(self) -> str:
        """The name of what the program threw."""
        assert not self.result["ok"], self.result
        return str(self.result["error"]["name"])


@dataclass(kw_only=True)
class Runner:
    """The process, and how to talk to it."""

    place: Path
    host: HostFacts
    token: str
    process: "subprocess.Popen[bytes]"
    url: str
    before: tuple[list[int], list[str]] = ([], [])  # what was there before the first run

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self.process.pid

    def socket(self, **options: Any) -> ClientConnection:
        """A WebSocket to it."""
        options = {"compression": None, "proxy": None, "max_size": 2**23, **options}
        made: ClientConnection = connect(f"{self.url}/run", **options)
        return made

    def job(self, program: str, **more: Any) -> str:
        """The first message."""
        token = more.pop("token", self.token)
        return json.dumps({"type": "job", "token": token, "job": {"code": program, **more}})

    def run(self, program: str, tools: Tools | None = None, **more: Any) -> Told:
        """One run, its calls answered from `tools`."""
        with self.socket() as socket:
            socket.send(self.job(program, tools=sorted(tools or {}), **more))
            return self.heard(socket, tools or {})

    def heard(self, socket: ClientConnection, tools: Tools) -> Told:
        """Everything until the last word."""
        told = Told(result={})
        while True:
            message = json.loads(socket.recv(timeout=BOUND_SECONDS))
            if message["type"] == "call":
                told.calls.append(message)
                socket.send(json.dumps({"type": "callResult", "id": message["id"], **_answer(message, tools)}))
            elif message["type"] == "result":
                told.result = message["result"]
                return told
            else:
                told.result = message
                return told

    def health(self) -> tuple[int, dict[str, Any]]:
        """Status and document of /healthz."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url.replace('ws', 'http', 1)}/healthz", timeout=BOUND_SECONDS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def log(self) -> str:
        """What stands on its stderr."""
        return (self.place / "err").read_text(encoding="utf-8")

    def is_idle(self) -> bool:
        """Whether nothing of any run is there: no process below it, no folder."""
        return self.around() == self.before

    def around(self) -> tuple[list[int], list[str]]:
        """Its process and those below it, and what lies where runs have their folders."""
        return sorted(lineage.tree(self.pid)), left_below(self.host.run_root)

    def waits(self, until: Callable[[], bool]) -> None:
        """Wait for what has to happen."""
        deadline = time.monotonic() + BOUND_SECONDS
        while not until():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end, and wait for it."""
        self.process.send_signal(number)
        return self.process.wait(BOUND_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Start:
    """How a runner is started where it matters: words before its own, further variables, whether a record is there."""

    before: Sequence[str | Path] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    attested: bool = True


@contextlib.contextmanager
def started(place: Path, host: HostFacts, how: Start = Start(), **settings: object) -> Iterator[Runner]:
    """A runner in a folder of its own, killed at the end unless it ended by itself."""
    token, line = mint()
    (place / "tokens").write_text(f"{line}\n")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "XDG_STATE_HOME": str(place / "state"),
        "FUMEHOOD_LOG__LEVEL": "debug",
        "FUMEHOOD_SANDBOX__RUN_ROOT": str(host.run_root),
        "FUMEHOOD_CODE__TOKEN_FILE": str(place / "tokens"),
        "FUMEHOOD_CODE__WARM": "0",
        **{f"FUMEHOOD_CODE__{name.upper()}": str(value) for name, value in settings.items()},
        **how.environ,
    }
    if how.attested:
        attested(host, environment)
    with (place / "err").open("wb") as err:
        process = subprocess.Popen(
            [*how.before, FUMEHOOD, "code", "runner", "--listen", "127.0.0.1:0"],
            env=environment,
            stderr=err,
            stdin=subprocess.DEVNULL,
        )
    try:
        runner = Runner(place=place, host=host, token=token, process=process, url=_address(process, place / "err"))
        runner.before = runner.around()
        yield runner
    finally:
        process.kill()
        process.wait()


def attested(host: HostFacts, environ: Mapping[str, str]) -> None:
    """Write the record of a self test of this host."""
    found = runtime.find({}).runtime
    file = attest.file(environ)
    assert found
    assert file
    record = attestation.Attestation(
        passed_at=int(SystemClock().now().timestamp()), trials=1, facts=attest.facts(prepare(host, found))
    )
    assert statefile.write(file, attestation.encode(record)) == ""


def holders(secret: bytes, pids: list[int], folders: list[Path]) -> list[str]:
    """Where a secret stands: in command lines, environments and open files of processes, and in files of folders."""
    found = []
    for pid in pids:
        place = Path(f"/proc/{pid}")
        opened = _listed(place / "fd")
        looked = [place / "cmdline", place / "environ", *(one for one in opened if one.is_file())]
        found += [str(path) for path in looked if secret in _content(path)]
    for folder in folders:
        found += [str(path) for path in folder.rglob("*") if path.is_file() and secret in _content(path)]
        found += [str(path) for path in folder.rglob("*") if secret in os.fsencode(path.name)]
    return found


def _listed(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _content(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def _answer(message: dict[str, Any], tools: Tools) -> dict[str, Any]:
    method, args = message["method"], message["args"]
    if method != "run":
        return {"ok": True, "value": [method, *args]}
    return {"ok": True, "value": tools[args[0]](args[1])}


def _address(process: "subprocess.Popen[bytes]", err: Path) -> str:
    deadline = time.monotonic() + BOUND_SECONDS
    while "/run\n" not in (said := err.read_text(encoding="utf-8")):
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    return said.partition("running programs at ")[2].partition("/run\n")[0]
