"""A hostile server behind guard, and a client that leaves: bounded memory, one answer a call, an end for everybody."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.guarded import PYTHON, Guarded, Hall
from fumehood.core import limits
from fumehood.sandbox import lineage
from loopback.speaking import wait_until

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G3")]
MEMORY_KIB = 260 * 1024  # of the guard at its peak; loaded and idle it has 60, and 4 MiB of JSON take ten times that


def peak_kib(pid: int) -> int:
    """The most memory that a process ever had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("ascii"))
    assert found
    return int(found[1])


def opened(hall: Hall, behaviour: str) -> Guarded:
    """A server that misbehaves once it is called."""
    server = hall.guard(words=(behaviour,))
    server.open()
    return server


def say(server: Guarded, words: str = "x") -> Any:
    """Call, and wait for its answer."""
    return server.answer(server.call("attempt", {"what": "say", "argument": words}))


@pytest.mark.parametrize(("behaviour", "said"), [("huge", "a line over its bound"), ("deep", "nested deeper than 64")])
def test_an_answer_over_a_bound_is_an_error_and_costs_no_memory(hall: Hall, behaviour: str, said: str) -> None:
    server = opened(hall, behaviour)
    assert said in say(server)["error"]["message"]
    assert peak_kib(server.process.pid) < MEMORY_KIB
    assert said in say(server)["error"]["message"]  # it goes on
    assert server.finish()[0] == 0


def test_noise_reaches_nobody(hall: Hall) -> None:
    server = opened(hall, "noise")
    assert say(server)["result"]["structuredContent"]["text"] == "x"
    status, messages, said = server.finish()
    assert status == 0
    assert {message["id"] for message in messages} == {1, 2}
    assert said.count("a line that is no message is left out") == 1


def test_answers_that_nobody_waits_for_reach_nobody(hall: Hall) -> None:
    server = opened(hall, "unasked")
    assert say(server)["result"]["structuredContent"]["text"] == "first"
    _, messages, _ = server.finish()
    assert sorted(message["id"] for message in messages) == [1, 2]
    assert "forged" not in json.dumps(messages)


def test_a_flood_waits_for_a_client_that_does_not_read(hall: Hall) -> None:
    server = opened(hall, "flood")
    server.call("attempt", {"what": "say"})
    assert server.process.stdout
    reading = server.process.stdout.fileno()
    wait_until(lambda: select.select([reading], [], [], 0)[0])
    before = peak_kib(server.process.pid)
    time.sleep(0.5)  # nothing is to happen: a flood that was kept would grow by tens of MiB
    assert peak_kib(server.process.pid) - before < 16 * 1024
    server.process.stdout.close()
    assert server.process.wait(timeout=60) == 0


def test_loud_words_are_bounded_and_inert(hall: Hall) -> None:
    server = opened(hall, "loud")
    assert say(server)["result"]["structuredContent"]["text"] == "x"
    _, _, said = server.finish()
    assert len(said) < 2 * limits.GUARD_STDERR_BURST_BYTES
    assert "\x1b" not in said
    assert all(line.startswith(("server| ", "fumehood: ")) for line in said.splitlines())


@pytest.mark.parametrize(("behaviour", "status"), [("exit", 7), ("crash", 128 + signal.SIGSEGV)])
def test_the_status_is_the_servers_own(hall: Hall, behaviour: str, status: int) -> None:
    server = opened(hall, behaviour)
    server.call("attempt", {"what": "say"})
    assert server.process.wait(timeout=60) == status


def test_a_server_without_bounds_ends_at_its_memory(hall: Hall) -> None:
    hall.file("small.toml", "memory_bytes = 134217728\n")
    server = hall.guard("--policy", f"{hall.place}/small.toml", words=("memory",))
    server.open()
    server.call("attempt", {"what": "say"})
    assert server.process.wait(timeout=120) in {1, 4, 128 + signal.SIGKILL}  # python's own MemoryError, or ours


def test_calls_that_waited_for_the_list_stop_nobody(hall: Hall) -> None:
    server = hall.guard()
    words = "x" * 300_000  # more than a pipe takes, so that each side waits for its reader

    def asks() -> None:  # before the server has begun, and while its answers are read
        server.ask("initialize", {"protocolVersion": "2025-06-18"}, ident=1)
        for ident in range(2, 8):
            server.call("attempt", {"what": "say", "argument": words}, ident=ident)

    writing = threading.Thread(target=asks, daemon=True)
    writing.start()
    for ident in range(2, 8):
        assert server.answer(ident)["result"]["structuredContent"]["text"] == words
    writing.join(60)
    assert server.finish()[0] == 0


def test_a_silent_server_ends_with_its_client(hall: Hall) -> None:
    server = opened(hall, "silent")
    server.call("attempt", {"what": "say"})
    server.process.stdout.close()  # type: ignore[union-attr]  # it was asked for
    assert server.process.wait(timeout=60) == 0


def test_a_server_that_stays_after_the_end_of_input_is_ended(hall: Hall) -> None:
    server = opened(hall, "stubborn")
    assert server.finish()[0] == 0


@pytest.mark.parametrize(("behaviour", "status"), [("polite", 3), ("plain", 128 + signal.SIGTERM)])
def test_a_signal_is_passed_on(hall: Hall, behaviour: str, status: int) -> None:
    server = opened(hall, behaviour)
    say(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == status


def test_a_second_signal_ends_who_ignores_the_first(hall: Hall) -> None:
    server = opened(hall, "stubborn")
    say(server)
    server.process.send_signal(signal.SIGINT)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) in {128 + signal.SIGINT, 128 + signal.SIGTERM}


def test_half_a_line_at_the_end_is_no_message(hall: Hall) -> None:
    server = opened(hall, "plain")
    server.raw(b'{"jsonrpc":"2.0","id":9,"method":"tools/list"')
    status, messages, _ = server.finish()
    assert (status, [message["id"] for message in messages]) == (0, [1])


def test_lines_of_a_client_that_are_no_messages_are_answered(hall: Hall) -> None:
    server = opened(hall, "plain")
    server.raw(b"{}\nwords\n" + b"[" * 100 + b"\n" + b" " * (limits.FRAME_BYTES + 1) + b"\n")
    assert say(server)["result"]["structuredContent"]["text"] == "x"
    _, messages, _ = server.finish()
    assert [message["error"]["code"] for message in messages if message["id"] is None] == [-32600] + [-32700] * 3


def left(pids: list[int]) -> list[int]:
    """Those that still run."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] not in {"Z", "X"}:
                found.append(pid)
    return found


@pytest.mark.parametrize("turn", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 30))])
def test_a_killed_guard_leaves_nothing(hall: Hall, turn: int) -> None:
    server = hall.guard(words=("children",))
    moment = turn * 0.06  # from before the sandbox to the midst of a call
    if turn % 3:
        server.open()
        server.call("attempt", {"what": "say"})
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(moment)
    below = [pid for pid in lineage.tree(server.process.pid) if pid != server.process.pid]
    server.process.kill()
    server.process.wait(60)
    wait_until(lambda: not left(below))
    wait_until(lambda: [one for one in os.listdir(hall.command.run_root) if one != "slots"] == [])  # noqa: PTH208 - names are wanted


def test_a_server_of_any_kind_of_input_is_served(hall: Hall, tmp_path: Path) -> None:
    asked = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"id": 2, "method": "tools/call", "params": {"name": "attempt", "arguments": {"what": "say", "argument": "x"}}},
    ]
    file, out = tmp_path / "in", tmp_path / "out"
    file.write_text("".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked), encoding="utf-8")
    argv = hall.argv("--allow-read", hall.server, "--", PYTHON, hall.server)
    with file.open() as given, out.open("w") as taken:
        done = subprocess.run(argv, stdin=given, stdout=taken, env=hall.environment, cwd="/", check=False, timeout=60)
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()] == [1, 2]
