"""The transport over real pipes in this process; what answers is a fake that speaks the channel's own words."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire.descriptors import Wire
from fumehood.wire.inbound import Told
from fumehood.wire.server_stdio import Connection, Ended

Serve = Callable[[Connection], Awaitable[None]]


@dataclass
class Pipes:
    """The wire and its other ends."""

    wire: Wire
    to_server: int
    from_server: int
    open_ends: set[int] = field(default_factory=set)

    def say(self, *messages: object) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            os.write(self.to_server, data)

    def close(self, end: int) -> None:
        self.open_ends.discard(end)
        os.close(end)

    def heard(self) -> list[dict[str, Any]]:
        """Every line until the end; once the server has let go of its end."""
        self.close(self.wire.writing)
        data = b""
        while chunk := os.read(self.from_server, 1 << 16):
            data += chunk
        return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    reading, to_server = os.pipe()
    from_server, writing = os.pipe()
    made = Pipes(Wire(reading=reading, writing=writing), to_server, from_server)
    made.open_ends = {reading, to_server, from_server, writing}
    yield made
    if to_server in made.open_ends:  # lets the reading thread end
        made.close(to_server)
    for end in made.open_ends:
        os.close(end)


def run(pipes: Pipes, serve: Serve, *, calls: int = 8) -> Ended:
    async def main() -> Ended:
        return await asyncio.wait_for(Connection(pipes.wire, calls=calls).run(serve), 60)

    return asyncio.run(main())


async def echo(connection: Connection) -> None:
    """Answers every request with its params, and never a notification."""
    while (message := await connection.receive()) is not None:
        if isinstance(message, tuple):
            number, asked = message
            connection.answer(number, "result", asked.params)


def ask(ident: object, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": ident, "method": "m", "params": params}


def test_requests_are_answered_with_their_own_ids_and_the_end_of_input_ends_it(pipes: Pipes) -> None:
    pipes.say(ask(1, a=1), ask("1", a=2), {"jsonrpc": "2.0", "method": "n"}, ask(-5))
    pipes.close(pipes.to_server)
    assert run(pipes, echo) is Ended.END_OF_INPUT
    assert [(one["id"], one["result"]) for one in pipes.heard()] == [(1, {"a": 1}), ("1", {"a": 2}), (-5, {})]


def test_a_request_in_flight_is_waited_for_at_the_end_of_input(pipes: Pipes) -> None:
    async def slow(connection: Connection) -> None:
        message = await connection.receive()
        assert isinstance(message, tuple)
        await asyncio.sleep(0.2)  # longer than a look at the client
        connection.tell("notifications/progress", {"progress": 1})
        connection.answer(message[0], "error", {"code": 1, "message": "late"})
        await connection.receive()

    pipes.say(ask(1))
    pipes.close(pipes.to_server)
    assert run(pipes, slow) is Ended.END_OF_INPUT
    assert [one.get("method") or one["error"]["message"] for one in pipes.heard()] == ["notifications/progress", "late"]


@pytest.mark.threat("T8")
def test_a_client_that_is_gone_cancels_what_is_in_flight(pipes: Pipes) -> None:
    cancelled = []

    async def slow(connection: Connection) -> None:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            cancelled.append(connection)
            raise

    pipes.say(ask(1))
    pipes.close(pipes.to_server)
    pipes.close(pipes.from_server)
    assert run(pipes, slow) is Ended.GONE
    assert len(cancelled) == 1


def test_a_client_that_closes_only_what_it_reads_is_noticed_at_the_next_answer(pipes: Pipes) -> None:
    pipes.say(ask(1))
    pipes.close(pipes.from_server)
    assert run(pipes, echo) is Ended.GONE


@pytest.mark.threat("T8")
def test_a_client_that_does_not_read_is_given_up(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALLED_SECONDS", 0.2)
    pipes.say(ask(1))

    async def large(connection: Connection) -> None:
        message = await connection.receive()
        assert isinstance(message, tuple)
        connection.answer(message[0], "result", {"text": "x" * limits.MIB})
        await connection.receive()

    assert run(pipes, large) is Ended.STALLED


@pytest.mark.threat("T13")
def test_answers_that_the_wire_takes_in_parts_come_whole_and_in_order(pipes: Pipes) -> None:
    """The first fills the pipe and is finished by the thread; what comes meanwhile waits behind it."""
    heard = bytearray()

    def read() -> None:
        while chunk := os.read(pipes.from_server, 4096):
            heard.extend(chunk)

    async def several(connection: Connection) -> None:
        while (message := await connection.receive()) is not None:
            assert isinstance(message, tuple)
            size = 60_000 if message[1].id in {1, 2} else 10
            connection.answer(message[0], "result", {"text": "x" * size})
            if message[1].id == 8:
                reader.start()

    reader = threading.Thread(target=read)
    pipes.say(*(ask(number) for number in range(1, 9)))
    pipes.close(pipes.to_server)
    assert run(pipes, several) is Ended.END_OF_INPUT
    pipes.close(pipes.wire.writing)
    reader.join(60)
    found = [json.loads(line) for line in bytes(heard).splitlines()]
    assert [one["id"] for one in found] == list(range(1, 9))
    assert [len(one["result"]["text"]) for one in found] == [60_000, 60_000, *[10] * 6]


def test_a_wire_that_takes_nothing_without_waiting_is_written_by_the_thread(pipes: Pipes, tmp_path: Path) -> None:
    """A file refuses RWF_NOWAIT."""
    file = tmp_path / "out"
    writing = os.open(file, os.O_WRONLY | os.O_CREAT)
    pipes.open_ends.add(writing)
    pipes.say(ask(1), ask(2))
    pipes.close(pipes.to_server)
    assert run(Pipes(Wire(reading=pipes.wire.reading, writing=writing), -1, -1), echo) is Ended.END_OF_INPUT
    assert [json.loads(line)["id"] for line in file.read_bytes().splitlines()] == [1, 2]


@pytest.mark.threat("T8")
def test_no_more_is_read_while_too_much_is_unanswered_and_then_it_goes_on(pipes: Pipes) -> None:
    seen: list[int] = []
    most = 2 + limits.CONTROL_IN_FLIGHT

    async def hoard(connection: Connection) -> None:
        while len(seen) < most:
            message = await connection.receive()
            assert isinstance(message, tuple)
            seen.append(message[0])
        with contextlib.suppress(TimeoutError):  # the reading thread stands still, but for what it had handed over
            while message := await asyncio.wait_for(connection.receive(), 0.3):
                assert isinstance(message, tuple)
                seen.append(message[0])
        assert len(seen) <= most + limits.HANDED_OVER + 1
        for number in seen:
            connection.answer(number, "result", {})
        await echo(connection)

    def feed() -> None:
        for number in range(4 * most):
            pipes.say(ask(number))
        pipes.close(pipes.to_server)

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert run(pipes, hoard, calls=2) is Ended.END_OF_INPUT
    feeder.join()
    assert len(pipes.heard()) == 4 * most


@pytest.mark.threat("T8")
def test_an_id_in_flight_is_refused_without_its_id(pipes: Pipes) -> None:
    async def late(connection: Connection) -> None:
        first = await connection.receive()
        second = await connection.receive()  # the mark: whatever stands before it has been judged
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        connection.answer(second[0], "result", {})
        connection.answer(first[0], "result", {})
        connection.answer(first[0], "result", {"twice": True})
        await connection.receive()

    pipes.say(ask(1), ask(1), ask("mark"))
    pipes.close(pipes.to_server)
    run(pipes, late)
    assert [(one["id"], "error" in one) for one in pipes.heard()] == [(None, True), ("mark", False), (1, False)]


def test_a_cancellation_is_passed_on_with_the_number_of_its_request_only(pipes: Pipes) -> None:
    heard: list[Any] = []

    async def listen(connection: Connection) -> None:
        message = await connection.receive()
        assert isinstance(message, tuple)
        heard.append(message[0])
        told = await connection.receive()
        heard.append(told)
        connection.unanswered(message[0])
        await connection.receive()

    pipes.say(ask("a"))
    for wanted in ("b", 1, None, ["a"], "a"):
        pipes.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wanted}})
    pipes.say({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    pipes.close(pipes.to_server)
    assert run(pipes, listen) is Ended.END_OF_INPUT
    assert heard == [heard[0], Told(method="notifications/cancelled", params={"requestId": heard[0]})]
    assert pipes.heard() == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"text": "\ud800"}, "Internal error"),
        ({"number": float("nan")}, "Internal error"),
        ({"text": "x" * limits.ENVELOPE_BYTES}, f"bytes, where {limits.ENVELOPE_BYTES} are sent"),
    ],
)
def test_an_answer_that_is_no_json_or_too_large_is_an_internal_error(
    pipes: Pipes, value: dict[str, Any], words: str
) -> None:
    async def answer(connection: Connection) -> None:
        message = await connection.receive()
        assert isinstance(message, tuple)
        connection.answer(message[0], "result", value)
        await connection.receive()

    pipes.say(ask(1))
    pipes.close(pipes.to_server)
    run(pipes, answer)
    (answered,) = pipes.heard()
    assert (answered["id"], answered["error"]["code"]) == (1, -32603)
    assert answered["error"]["message"].endswith(words)


@pytest.mark.parametrize(("number", "why"), [(signal.SIGTERM, Ended.TERMINATED), (signal.SIGINT, Ended.INTERRUPTED)])
def test_a_signal_ends_it_and_the_handlers_are_put_back(pipes: Pipes, number: signal.Signals, why: Ended) -> None:
    before = signal.getsignal(number)

    async def kill(connection: Connection) -> None:
        os.kill(os.getpid(), number)
        await connection.receive()

    assert run(pipes, kill) is why
    assert signal.getsignal(number) in {before, signal.default_int_handler, signal.SIG_DFL}


def test_an_interrupt_that_the_process_ignores_stays_ignored(pipes: Pipes) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipes.say(ask(1))

        async def kill(connection: Connection) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            pipes.close(pipes.to_server)
            await echo(connection)

        assert run(pipes, kill) is Ended.END_OF_INPUT
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_answers_and_fails_is_not_hidden(pipes: Pipes) -> None:
    async def fail(connection: Connection) -> None:
        await connection.receive()
        raise RuntimeError("broken")

    pipes.say(ask(1))
    with pytest.raises(RuntimeError, match="broken"):
        run(pipes, fail)


def test_a_connection_over_its_bound_ends(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_LINES", 2)
    pipes.say(ask(1), ask(2), ask(3))
    assert run(pipes, echo) is Ended.EXHAUSTED


def test_calls_that_never_end_do_not_hold_up_the_end_of_input_for_ever(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DRAIN_CALLS_SECONDS", 0.15)
    pipes.say(ask(1))
    pipes.close(pipes.to_server)

    async def never(connection: Connection) -> None:
        await connection.receive()
        await asyncio.sleep(300)

    assert run(pipes, never) is Ended.GONE


LINES = st.lists(
    st.one_of(
        st.none(),  # a request
        st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
        st.just(b"x" * (limits.REQUEST_BYTES + 10)),
    ),
    max_size=8,
)


@pytest.mark.threat("T8")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, cut=st.integers(1, 70_000))
def test_every_line_gets_one_answer_however_it_is_cut(lines: list[bytes | None], cut: int) -> None:
    reading, to_server = os.pipe()
    from_server, writing = os.pipe()
    made = Pipes(Wire(reading=reading, writing=writing), to_server, from_server)
    requests = [number for number, line in enumerate(lines) if line is None]
    data = b"".join(
        (json.dumps(ask(number)).encode() if line is None else line) + b"\n" for number, line in enumerate(lines)
    )

    def feed() -> None:
        for start in range(0, len(data), cut):
            os.write(to_server, data[start : start + cut])
        os.close(to_server)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        assert run(made, echo) is Ended.END_OF_INPUT
        heard = made.heard()
    finally:
        feeder.join()
        os.close(reading)
        os.close(from_server)
    assert [one["id"] for one in heard if one["id"] is not None] == requests
    assert len(heard) == len([line for line in lines if line != b""])


@pytest.mark.threat("T13")
@pytest.mark.parametrize("stderr", [True, False])
def test_a_claimed_wire_is_private_and_the_old_descriptors_lead_elsewhere(*, stderr: bool) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from fumehood.wire import descriptors\n"
        "wire = descriptors.claim()\n"
        "print('printed', flush=True)\n"
        "subprocess.run(['/bin/sh', '-c', 'echo child; cat'], check=True)\n"
        "assert wire.reading > 2 < wire.writing\n"
        "assert not os.get_inheritable(wire.reading) and not os.get_inheritable(wire.writing)\n"
        "os.write(wire.writing, os.read(wire.reading, 100))\n"
    )
    command = ["/bin/sh", "-c", 'exec "$@"' + ("" if stderr else " 2>&-"), "sh", sys.executable, "-c", program]
    done = subprocess.run(command, input=b"the wire", capture_output=True, check=True, timeout=60)
    assert done.stdout == b"the wire"
    assert done.stderr == (b"printed\nchild\n" if stderr else b"")
