"""Hostile servers beside a good one, through the command: each failure is told, and the good one answers."""

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO, Any

import pytest

from e2e.gated import SECONDS, Gated, names, run, text
from e2e.guarded import PYTHON, Hall
from fumehood.core import limits
from loopback.speaking import wait_until

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G8")]
PROGRAM = Path(__file__).parents[1] / "fixtures" / "gateway" / "hostile.py"
CALLS = [
    ("huge", "bad: the server sent a line over its bound"),
    ("deep", "bad: the server sent nested deeper than 64"),
    ("large", f"where {limits.GATE_ANSWER_BYTES} are passed on: ask for less"),
    ("pieces", "more than 1000 pieces in one result"),
    ("shape", "bad: the server's result is no object"),
    ("exit", "bad: the server ended with 3"),
    ("flood", "bad: the server says more than it is asked for"),
    ("memory", "bad: the server "),
]
MISSING = [
    ("at-once", "is down: the server ended with 9"),
    ("first", "is down: the server says more than it is asked for"),
    ("many", "its tools are withheld"),
    ("changing", "its tools are withheld"),
]


@pytest.fixture
def place(hall: Hall) -> Hall:
    """The hall, with the hostile program in it."""
    Path(shutil.copy(PROGRAM, hall.place / "hostile.py")).chmod(0o644)
    return hall


def gated(hall: Hall, behaviour: str) -> Gated:
    """A gateway of two servers: `good`, and one that behaves so."""
    program = str(hall.place / "hostile.py")
    made = Gated(hall=hall, config=hall.place / "gateway.toml")
    entries = [
        f"[servers.{name}]\ncommand = {json.dumps([PYTHON, program, word])}\nreads = ['*']\n"
        f"policy = {{ allow_read = [{json.dumps(program)}] }}\n"
        for name, word in (("good", "plain"), ("bad", behaviour))
    ]
    made.write("".join(entries))
    return made


@pytest.mark.parametrize(("behaviour", "said"), CALLS, ids=[one for one, _ in CALLS])
def test_a_hostile_answer_is_an_error_and_the_good_server_answers(place: Hall, behaviour: str, said: str) -> None:
    made = gated(place, behaviour)

    async def work() -> None:
        async with made.over_stdio("legacy") as client:
            assert {"good__act", "bad__act"} <= set(await names(client))
            result = await client.call_tool("bad__act", {})
            assert result.is_error
            assert said in text(result)
            assert "acted" in text(await client.call_tool("good__act", {}))

    run(work)
    assert "Traceback" not in made.said


@pytest.mark.parametrize(("behaviour", "said"), MISSING, ids=[one for one, _ in MISSING])
def test_a_server_that_cannot_be_listed_is_left_out_and_named(place: Hall, behaviour: str, said: str) -> None:
    made = gated(place, behaviour)

    async def work() -> None:
        async with made.over_stdio("legacy") as client:
            assert "acted" in text(await client.call_tool("good__act", {}))
            while said not in made.config.with_name("gateway.stderr").read_text(encoding="utf-8"):
                assert "acted" in text(await client.call_tool("good__act", {}))
            assert not [name for name in await names(client) if name.startswith("bad__")]

    run(work)
    assert "Traceback" not in made.said


def test_a_server_that_never_introduces_itself_holds_up_no_call_of_another(place: Hall) -> None:
    made = gated(place, "mute")

    async def work() -> None:
        async with made.over_stdio("legacy") as client:
            await names(client)  # which waits for it
            for _ in range(3):
                assert "acted" in text(await client.call_tool("good__act", {}))

    run(work)
    assert "bad: is down" not in made.said  # it was still being waited for


class Bare:
    """The command with nothing between it and the test."""

    def __init__(self, made: Gated) -> None:
        argv = [*made.argv, "--config", str(made.config)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, env=made.environment, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/")

    def passes_over(self, number: int) -> bool:
        """Whether it ignores this signal now."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        ignored = next((line.split()[1] for line in lines if line.startswith("SigIgn:")), "0")
        return bool(int(ignored, 16) >> (number - 1) & 1)

    def say(self, **message: Any) -> None:
        stdin: IO[bytes] = self.process.stdin  # type: ignore[assignment]  # it is a pipe
        stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        stdin.flush()

    def hear(self, ident: int) -> Any:
        """The answer of a request."""
        stdout: IO[bytes] = self.process.stdout  # type: ignore[assignment]  # it is a pipe
        for line in stdout:
            if (found := json.loads(line)).get("id") == ident:
                return found
        raise EOFError


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_second_signal_does_not_disturb_the_cleaning_up(place: Hall, number: signal.Signals, status: int) -> None:
    made = gated(place, "hang")
    bare = Bare(made)
    info = {"name": "bare", "version": "1"}
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    bare.say(id=1, method="initialize", params=opening)
    bare.hear(1)
    bare.say(method="notifications/initialized")
    bare.say(id=2, method="tools/list")
    bare.hear(2)
    bare.say(id=3, method="tools/call", params={"name": "bad__act", "arguments": {}})
    bare.process.send_signal(number)
    wait_until(lambda: bare.process.poll() is not None or bare.passes_over(number))
    bare.process.send_signal(number)  # the first was heeded: all is being taken away
    _, said = bare.process.communicate(timeout=SECONDS)
    assert b"Traceback" not in said
    assert bare.process.returncode == status
