"""A real server process over standard input and output: lines are counted exactly, in both eras."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from loopback.speaking import ENVELOPE, ERAS, INITIALIZE, SMALL, Speaker, wait_until

Start = Callable[..., Speaker]
Shared = Callable[[str], Speaker]


@pytest.fixture
def start() -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def begin(era: str, *words: str) -> Speaker:
            speaker = stack.enter_context(Speaker([*SMALL, *words], era))
            speaker.open()
            return speaker

        yield begin


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """A server of each era for tests that leave it as they found it."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Speaker] = {}

        def give(era: str) -> Speaker:
            if era not in found:
                found[era] = stack.enter_context(Speaker([*SMALL, "calls_a_minute=100000"], era))
                found[era].open()
            return found[era]

        yield give
        for speaker in found.values():
            assert speaker.finish()[0] == 0


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):  # gone, or going while it is read
        return False


@pytest.mark.threat("T13")
@pytest.mark.parametrize("era", ERAS)
def test_stdout_carries_one_line_an_answer_whatever_libraries_and_children_print(start: Start, era: str) -> None:
    server = start(era)
    wanted = [server.call("noisy") for _ in range(3)]
    status, messages, said = server.finish()
    assert status == 0
    assert len(server.lines) == 1 + len(wanted)  # the opening and each call
    assert sorted(one["id"] for one in messages) == [1, *wanted]
    assert said.count('"method":"forged"') == 9  # three ways a call: all of them reached stderr
    assert said.count("''") == 3  # a child reads an empty stdin, never the wire


@pytest.mark.parametrize("era", ERAS)
def test_an_opened_server_says_who_it_is_and_which_walls_stand(era: str) -> None:
    with Speaker(SMALL, era) as server:
        result = server.open()
        assert result["instructions"] == "Nothing of use."
        assert result["_meta"]["fumehood/walls"] == {"landlock": "not requested"}
        info = result["serverInfo"] if era == "legacy" else result["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert info == {"name": "small", "title": "Small", "version": "1.0"}


def test_the_first_request_decides_the_era(start: Start) -> None:
    modern = start("modern")
    modern.era = "legacy"
    refused = modern.answer(modern.ask("initialize", INITIALIZE))["error"]
    assert refused["code"] == -32022
    assert refused["data"]["supported"] == ["2026-07-28"]
    assert modern.answer(modern.ask("tools/list"))["error"]["code"] == -32602  # without an envelope
    legacy = start("legacy")
    legacy.era = "modern"
    assert legacy.answer(legacy.ask("tools/list"))["error"]["code"] == -32600


@pytest.mark.parametrize("era", ERAS)
def test_lists_are_the_same_bytes_each_time(shared: Shared, era: str) -> None:
    server = shared(era)
    first, second = (server.result("tools/list") for _ in range(2))
    assert first == second
    assert [tool["name"] for tool in first["tools"]][:2] == ["echo", "wait"]
    assert (first.get("ttlMs"), first.get("cacheScope")) == ((300_000, "public") if era == "modern" else (None, None))
    assert server.answer(server.ask("tools/list", {"cursor": "x"}))["error"]["code"] == -32602


@pytest.mark.threat("T10")
@pytest.mark.parametrize("era", ERAS)
def test_failures_say_nothing_of_what_failed(start: Start, era: str) -> None:
    server = start(era)
    failed = server.answer(server.call("fail"))["error"]
    assert failed == {"code": -32603, "message": "Internal error"}
    assert server.answer(server.call("wrong"))["error"] == failed  # a result that does not fit its own schema
    assert server.answer(server.call("nothing"))["error"] == {"code": -32602, "message": "Unknown tool"}
    assert server.answer(server.ask("no/such"))["error"]["code"] == -32601
    assert "a secret detail" in server.finish()[2]  # the log has it


@pytest.mark.parametrize("era", ERAS)
def test_arguments_that_do_not_fit_are_refused_as_a_result(shared: Shared, era: str) -> None:
    server = shared(era)
    result = server.answer(server.call("echo", {"text": 7, "more": True}))["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["error"] == "invalid_arguments"
    assert server.answer(server.call("echo", {"text": "é"}))["result"]["structuredContent"] == {"text": "é"}


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_line_without_end_costs_no_memory_and_the_stream_goes_on(start: Start, era: str) -> None:
    server = start(era)
    before = peak(server)
    for _ in range(100):
        server.raw(b"x" * limits.MIB)
    server.raw(b"\n")
    ident = server.call("echo", {"text": "still here"})
    assert server.answer(None)["error"] == {"code": -32700, "message": "Parse error: a line of more than 1048576 bytes"}
    assert server.answer(ident)["result"]["structuredContent"] == {"text": "still here"}
    assert peak(server) - before < 16 * limits.MIB
    assert len(server.finish()[1]) == 3


def peak(server: Speaker) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_every_line_that_is_no_message_is_answered(start: Start, era: str) -> None:
    server = start(era)
    bad = [
        (b"nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":1,"a":2}}\n', -32700),
        (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}\n", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600),
        (b"17\n", -32600),
        (b'{"jsonrpc":"1.0","method":"ping"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', -32600),
    ]
    for data, _ in bad:
        server.raw(data)
    server.raw(b'\n  \r\n{"jsonrpc":"2.0","id":77,"result":{}}\n')  # blank, blank JSON, an answer to nothing
    ident = server.call("echo", {"text": "still here"})
    status, messages, _ = server.finish()
    assert status == 0
    codes = [one["error"]["code"] for one in messages if one["id"] is None]
    assert codes == [*[code for _, code in bad], -32700]
    assert [one["id"] for one in messages if one["id"] is not None] == [1, ident]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("whole", [True, False])
def test_half_a_line_at_the_end_of_input_is_read_or_refused(start: Start, era: str, *, whole: bool) -> None:
    server = start(era)
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/nothing"}).encode()
    server.raw(line if whole else line[:-5])
    _, messages, _ = server.finish()
    assert [one["error"]["code"] for one in messages[1:]] == ([] if whole else [-32700])


@pytest.mark.parametrize("era", ERAS)
def test_what_is_in_flight_is_finished_at_the_end_of_input(start: Start, era: str) -> None:
    server = start(era)
    wanted = [server.call("wait", {"seconds": 0.3}) for _ in range(12)]  # some of them wait for a thread
    status, messages, said = server.finish()
    assert status == 0
    assert sorted(one["id"] for one in messages if "result" in one) == [1, *wanted]
    assert "ended: end of input" in said


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_beyond_eight_and_thirty_two_calls_are_told_busy_and_control_messages_are_still_read(
    start: Start, era: str
) -> None:
    server = start(era)
    wanted = [server.call("wait", {"seconds": 300}) for _ in range(limits.CALLS_RUNNING + limits.CALLS_QUEUED)]
    refused = server.answer(server.call("echo", {"text": "x"}))["result"]
    assert refused["isError"] is True
    assert refused["structuredContent"]["error"] == "busy"
    assert server.result("tools/list" if era == "modern" else "ping") is not None
    for ident in wanted:
        server.tell("notifications/cancelled", {"requestId": ident})
    echoed = None
    while echoed is None or echoed.get("isError"):  # the threads notice a cancellation within milliseconds
        echoed = server.answer(server.call("echo", {"text": "again"}))["result"]
    assert echoed["structuredContent"] == {"text": "again"}
    _, messages, _ = server.finish()
    assert not {one["id"] for one in messages} & set(wanted)  # a cancelled request is never answered


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_who_calls_too_often_is_told_busy(start: Start, era: str) -> None:
    server = start(era, "calls_a_minute=3")
    results = [server.answer(server.call("echo", {"text": "x"}))["result"] for _ in range(4)]
    assert [one.get("isError", False) for one in results] == [False, False, False, True]
    assert results[-1]["structuredContent"]["error"] == "busy"


@pytest.mark.parametrize("era", ERAS)
def test_an_id_in_flight_is_refused_a_second_time_and_exactly(shared: Shared, era: str) -> None:
    server = shared(era)
    server.answers.clear()
    server.call("wait", {"seconds": 300}, ident=7)
    server.call("echo", {"text": "another"}, ident="7")  # a string is another id
    assert server.answer("7")["result"]["structuredContent"] == {"text": "another"}
    server.call("echo", {"text": "the same"}, ident=7)
    assert server.answer(None)["error"]["code"] == -32600
    server.tell("notifications/cancelled", {"requestId": "7"})  # the string is over: 7 goes on
    server.tell("notifications/cancelled", {"requestId": 7})
    for turn in itertools.count():  # until the cancellation is through
        server.call("echo", {"text": "free"}, ident=7)
        server.answer(server.ask("tools/list", ident=f"mark {turn}"))
        if (int, 7) in server.answers:
            break
    assert server.answer(7)["result"]["structuredContent"] == {"text": "free"}


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_flood_is_answered_line_by_line(start: Start, era: str) -> None:
    server = start(era, "calls_a_minute=100000")  # its own: a late answer to an earlier test would be counted
    before = len(server.lines)
    for _ in range(40):
        wanted = [server.call("echo", {"text": "x"}) for _ in range(50)]
        assert all("result" in server.answer(ident) for ident in wanted)
    server.result("tools/list")
    assert len(server.lines) - before == 40 * 50 + 1


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_does_not_read_is_not_read_either(start: Start, era: str) -> None:
    server = start(era, "calls_a_minute=1000000")
    before = peak(server)
    assert server.process.stdin
    pipe = server.process.stdin.fileno()
    os.set_blocking(pipe, False)
    params = {"name": "echo", "arguments": {"text": "x" * 90_000}, "_meta": ENVELOPE if era == "modern" else {}}
    rest = b""
    sent = idle = 0
    while idle < 20:  # a second of a full pipe: nobody reads any more
        if not rest:
            rest = json.dumps({"jsonrpc": "2.0", "id": sent, "method": "tools/call", "params": params}).encode() + b"\n"
        try:
            written = os.write(pipe, rest)
            rest, sent, idle = rest[written:], sent + written, 0
        except BlockingIOError:
            idle += 1
            signal.sigtimedwait([], 0.05)
        assert sent < 64 * limits.MIB
    assert peak(server) - before < 64 * limits.MIB
    server.process.terminate()
    assert server.process.wait(timeout=60) == 0


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["cancelled", "gone", "terminated"])
def test_the_children_of_a_call_that_nobody_wants_are_dead(start: Start, era: str, how: str) -> None:
    server = start(era)
    ident = server.call("child")
    child = int(server.stderr_line().split()[1])
    assert alive(child)
    if how == "cancelled":
        server.tell("notifications/cancelled", {"requestId": ident})
    elif how == "terminated":
        server.process.terminate()
    else:
        server.process.stdout.close()  # type: ignore[union-attr]  # Popen was given a pipe
        server.process.stdin.close()  # type: ignore[union-attr]  # the same
    wait_until(lambda: not alive(child))
    if how != "cancelled":
        assert server.process.wait(timeout=60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly(start: Start, number: signal.Signals) -> None:
    server = start("legacy")
    server.process.send_signal(number)
    status, messages, said = server.finish()
    assert status == 0
    assert len(messages) == 1
    assert said == f"ended: {'terminated' if number is signal.SIGTERM else 'interrupted'}\n"


def test_a_call_that_does_not_end_does_not_keep_the_process(start: Start) -> None:
    server = start("legacy")
    server.call("stubborn")
    server.result("ping")
    server.process.terminate()
    assert server.process.wait(timeout=60) == 5


def test_the_wire_may_be_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(SMALL, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
        theirs.close()
        ours.settimeout(60)
        ours.sendall(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"
        )
        answer = b""
        while not answer.endswith(b"\n"):
            answer += ours.recv(1 << 16)
        ours.close()
        assert json.loads(answer)["id"] == 1
        assert process.wait(timeout=60) == 0


def test_a_server_without_stderr_serves() -> None:
    lines = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *SMALL], input=lines, capture_output=True, timeout=60, check=False
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in answers] == [1]
