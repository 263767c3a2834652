"""code.service.server over real sockets: who may come, what it costs, and that a run ends with its socket."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode

from faketools import FakeTools, gated
from fumehood.code.backend import ToolBackend
from fumehood.code.dialing import Runner, run_remote
from fumehood.code.job import Job, JobResult, ProgramError, State
from fumehood.code.service import server
from fumehood.code.service.door import Lane, Link
from fumehood.code.service.server import RunJob, Service
from fumehood.code.service.standing import Standing
from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.wire.sockets import bind_tcp

pytestmark = pytest.mark.threat("C5")
TOKEN = "right" * 8
SECONDS = 20.0  # for whatever has to happen
HANDSHAKE = (
    b"GET /run HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
)


def ok(value: Any) -> JobResult:
    return JobResult(state=State.OK, ok=True, value=value)


def cancelled() -> JobResult:
    return JobResult(state=State.CANCELLED, ok=False, error=ProgramError(name="Cancelled", message="x"))


async def echo(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
    del backend, cancel
    return ok(job.input)


async def calling(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
    """Call every tool at once, then one that is not answered any more."""
    del cancel
    told: list[Any] = [await backend.search("words", 3), await backend.describe(["a.b"])]
    for name in job.tools:
        try:
            told.append(await backend.run(name, {"n": 1}))
        except FumehoodError as error:
            told.append([error.code, str(error)])
    return ok(told)


async def patient(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
    """Run until it is cancelled."""
    del job, backend
    assert cancel
    await cancel.wait()
    return cancelled()


async def ending(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
    """End in the state that the input names."""
    del backend, cancel
    state = State(job.input)
    if state is State.OK:
        return ok("whole")
    return JobResult(state=state, ok=False, error=ProgramError(name="E", message="why", line=2, column=3, stack="at f"))


async def broken(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
    del job, backend, cancel
    raise RuntimeError("a mistake of ours")


class Up:
    """A runner that is up."""

    def __init__(self, run: RunJob, runs: int) -> None:
        self.standing = Standing(lambda token: token == TOKEN, runs=runs)
        self.runner = server._Runner(Service(run=run, standing=self.standing, announce=self._heard))
        self.announced: list[str] = []
        self.there = asyncio.Event()

    def _heard(self, line: str) -> None:
        self.announced.append(line)
        self.there.set()

    @property
    def url(self) -> str:
        return self.announced[0].removeprefix("running programs at ")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def socket(self, **options: Any) -> connect:
        return connect(self.url, **{"compression": None, "proxy": None, **options})

    async def raw(self, words: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(words)
        return reader, writer

    async def http(self, words: bytes) -> bytes:
        reader, writer = await self.raw(words)
        answer = await reader.read()
        writer.close()
        return answer

    async def until(self, held: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                if held():
                    return
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def up(run: RunJob = echo, *, runs: int = 2, on: Sequence[socket.socket] | None = None) -> AsyncIterator[Up]:
    made = Up(run, runs)
    serving = asyncio.ensure_future(made.runner.serve(on or bind_tcp((("127.0.0.1", 0),))))
    await made.there.wait()
    try:
        yield made
        await made.until(lambda: made.standing.running == 0)
    finally:
        made.runner._tell(signal.SIGTERM)
        made.runner._tell(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            assert await serving == signal.SIGTERM


def held(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * SECONDS):
            await test()

    asyncio.run(bounded())


def job(token: str = TOKEN, **more: Any) -> str:
    return json.dumps({"type": "job", "token": token, "job": {"code": "return 1", **more}})


async def said(connection: ClientConnection) -> Any:
    async with asyncio.timeout(SECONDS):
        return json.loads(await connection.recv())


async def closed(connection: ClientConnection) -> int | None:
    """The code with which the other side ends a connection."""
    async with asyncio.timeout(SECONDS):
        await connection.wait_closed()
    return connection.close_code


def test_a_job_has_its_result_and_the_socket_ends() -> None:
    async def test() -> None:
        async with up() as runner, runner.socket() as connection:
            await connection.send(job(input=[1, "é"]))
            assert (await said(connection))["result"]["value"] == [1, "é"]
            assert await closed(connection) == 1000

    held(test)


def test_each_state_arrives_at_our_own_backend_as_it_was() -> None:
    async def test() -> None:
        tools = gated(FakeTools())[0]
        async with up(ending) as runner:
            away = Runner(url=runner.url.removesuffix("/run"), token=TOKEN, jitter=lambda: 0.0)
            for state in State:
                result = await run_remote(Job(code="return 1", input=state.value), tools, away)
                assert (result.state, result.ok, result.value) == (
                    state,
                    state is State.OK,
                    "whole" if state is State.OK else None,
                )
                assert result.ok or (result.error and (result.error.line, result.error.stack) == (2, "at f"))

    held(test)


def test_calls_go_to_the_backend_and_their_answers_come_back() -> None:
    async def test() -> None:
        async with up(calling) as runner, runner.socket() as connection:
            await connection.send(job(tools=["a.b", "a.c"]))
            for number, method, args, answer in (
                (1, "search", ["words", {"limit": 3}], {"ok": True, "value": "found"}),
                (2, "describe", [["a.b"]], {"ok": True, "value": "declared"}),
                (3, "run", ["a.b", {"n": 1}], {"ok": True, "value": {"text": "x"}}),
                (4, "run", ["a.c", {"n": 1}], {"ok": False, "error": {"code": "read_only", "message": "no"}}),
            ):
                assert await said(connection) == {"type": "call", "id": number, "method": method, "args": args}
                await connection.send(json.dumps({"type": "callResult", "id": number, **answer}))
            assert (await said(connection))["result"]["value"] == [
                "found",
                "declared",
                {"text": "x"},
                ["read_only", "no"],
            ]

    held(test)


def test_answers_after_the_result_take_no_last_words_with_them() -> None:
    """A socket that is closed with something unread resets, and what was sent last is lost."""

    async def quick(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
        del job, cancel
        asking = [asyncio.ensure_future(backend.run("a.b", {})) for _ in range(16)]
        await asyncio.sleep(0.05)
        for one in asking:
            one.cancel()
        return ok("x" * 100_000)

    async def test() -> None:
        async with up(quick) as runner, runner.socket() as connection:
            await connection.send(job(tools=["a.b"]))
            for number in range(1, 17):
                await said(connection)
                answer = {"type": "callResult", "id": number, "ok": True, "value": "y" * 50_000}
                await connection.send(json.dumps(answer))
            assert len((await said(connection))["result"]["value"]) == 100_000
            assert await closed(connection) == 1000

    held(test)


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (job("wrong" * 8), "bad_token"),
        (job(code=""), "bad_job"),
        ("{", "bad_message"),
        (b"{}", "bad_message"),
        ('{"type":"cancel"}', "bad_message"),
    ],
)
def test_who_may_not_run_is_told_so_once(first: str | bytes, code: str) -> None:
    async def test() -> None:
        async with up() as runner, runner.socket() as connection:
            await connection.send(first)
            told = await said(connection)
            assert (told["type"], told["code"]) == ("refused", code)
            assert await closed(connection) == 1000
            assert runner.standing.health().status == 200

    held(test)


def test_beyond_its_runs_a_runner_is_busy() -> None:
    async def test() -> None:
        async with up(patient, runs=1) as runner, runner.socket() as one, runner.socket() as two:
            await one.send(job())
            await runner.until(lambda: runner.standing.running == 1)
            await two.send(job())
            assert (await said(two))["type"] == "busy"
            await one.send('{"type":"cancel"}')
            assert (await said(one))["result"]["state"] == "cancelled"

    held(test)


@pytest.mark.parametrize("words", ["{", job(), b"{}", '{"type":"callResult","id":1,"ok":true,"value":1}'])
def test_what_is_not_the_protocol_ends_the_run_and_the_socket(words: str | bytes) -> None:
    async def test() -> None:
        async with up(patient) as runner, runner.socket() as connection:
            await connection.send(job())
            await runner.until(lambda: runner.standing.running == 1)
            await connection.send(words)
            assert await closed(connection) == 1008
            await runner.until(lambda: runner.standing.running == 0)

    held(test)


@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_run_is_cancelled_when_its_socket_goes(how: str) -> None:
    async def test() -> None:
        async with up(patient) as runner:
            async with runner.socket() as connection:
                await connection.send(job())
                await runner.until(lambda: runner.standing.running == 1)
                if how == "abort":
                    connection.transport.abort()
            await runner.until(lambda: runner.standing.running == 0)

    held(test)


def test_a_run_is_cancelled_when_nobody_answers_a_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_PING_SECONDS", 0.05)
    monkeypatch.setattr(limits, "CODE_LINK_PONG_SECONDS", 0.05)

    async def test() -> None:
        async with up(patient) as runner:
            frozen = await runner.raw(HANDSHAKE + b"\r\n" + frame(job().encode()))
            await runner.until(lambda: runner.standing.running == 1)
            await runner.until(lambda: runner.standing.running == 0)
            frozen[1].close()

    held(test)


def test_a_mistake_of_ours_ends_its_run_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with up(broken) as runner:
            async with runner.socket() as connection:
                await connection.send(job())
                assert await closed(connection) == 1011
            assert runner.standing.running == 0
            async with runner.socket() as connection:
                await connection.send("{")
                assert (await said(connection))["code"] == "bad_message"

    held(test)
    assert "a run failed in a way that it does not name" in caplog.text


# --- strangers


def frame(data: bytes, *, opcode: Opcode = Opcode.TEXT, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def compressed(frame: bytes) -> bytes:
    """With the bit that permessage-deflate would set."""
    return bytes([frame[0] | 0x40]) + frame[1:]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"200 OK"),
        (b"POST /healthz HTTP/1.1\r\nHost: x\r\n", b"405 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"404 "),
        (b"GET /run HTTP/1.1\r\nHost: x\r\n", b"426 "),
        (HANDSHAKE.replace(b"/run", b"/run?token=x"), b"404 "),
        (HANDSHAKE.replace(b"/run", b"/runs"), b"404 "),
        (HANDSHAKE + b"Origin: http://127.0.0.1\r\n", b"403 "),
        (HANDSHAKE + b"origin: null\r\n", b"403 "),
        (b"GET /run HTTP/1.1\r\n" + b"X: y\r\n" * 200, b"431 "),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n", b"414 "),
    ],
)
def test_what_is_no_handshake_of_ours_has_an_answer_of_http(request_: bytes, status: bytes) -> None:
    async def test() -> None:
        async with up() as runner:
            answer = await runner.http(request_ + b"\r\n")
            assert answer.startswith(b"HTTP/1.1 " + status), answer
            assert b"Server:" not in answer
            assert b"python" not in answer.lower()

    held(test)


def test_what_is_no_http_has_no_answer() -> None:
    async def test() -> None:
        async with up() as runner:
            assert await runner.http(b"nonsense\r\n\r\n") == b""

    held(test)


def test_health_is_json_that_nobody_keeps() -> None:
    async def test() -> None:
        async with up() as runner:
            head, _, body = (await runner.http(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
            assert json.loads(body) == {"status": "ok", "running": 0, "warm": 0, "runs": 2}
            assert b"Content-Type: application/json\r\n" in head + b"\r\n"
            assert b"Cache-Control: no-store" in head

    held(test)


@pytest.mark.parametrize(
    "words",
    [b"", b"GET /run HT", HANDSHAKE, HANDSHAKE + b"\r\n", HANDSHAKE + b"\r\n" + frame(b'{"type":"job"', fin=False)],
    ids=["nothing", "half a line", "half a head", "no job", "half a job"],
)
def test_whoever_is_slow_is_given_up(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_OPEN_SECONDS", 0.1)
    monkeypatch.setattr(limits, "CODE_LINK_FIRST_SECONDS", 0.1)
    monkeypatch.setattr(limits, "CODE_LINK_CLOSE_SECONDS", 0.1)

    async def test() -> None:
        async with up() as runner:
            reader, writer = await runner.raw(words)
            async with asyncio.timeout(SECONDS):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
            writer.close()

    held(test)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (b"\x81\xff" + (limits.CODE_LINK_JOB_BYTES + 1).to_bytes(8, "big"), 1009),
        (
            frame(b"x" * 2**20, fin=False)
            + frame(b"x" * 2**20, opcode=Opcode.CONT, fin=False) * 2
            + frame(b"x", opcode=Opcode.CONT),
            1009,
        ),
        (frame(b"", fin=False) + frame(b"", opcode=Opcode.CONT, fin=False) * 5000, 1009),
        (compressed(frame(b"x")), 1002),
        (frame(b"\xff"), 1007),
        (frame(b"x", opcode=Opcode.CONT), 1002),
        (b"\x81\x01x", 1002),
    ],
    ids=["announced", "in fragments", "fragments without end", "compressed", "no text", "no beginning", "unmasked"],
)
def test_frames_that_are_too_large_or_wrong_end_the_socket(words: bytes, code: int) -> None:
    async def test() -> None:
        async with up() as runner:
            reader, writer = await runner.raw(HANDSHAKE + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(words)
            async with asyncio.timeout(SECONDS):
                answer = await reader.readexactly(4)
            assert (answer[0], int.from_bytes(answer[2:4], "big")) == (0x88, code)
            writer.close()

    held(test)


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no deadline do what another bound is to do."""
    for name in ("CODE_LINK_OPEN_SECONDS", "CODE_LINK_FIRST_SECONDS", "CODE_LINK_PING_SECONDS"):
        monkeypatch.setattr(limits, name, 10 * SECONDS)


def test_compression_is_never_agreed_on() -> None:
    async def test() -> None:
        async with up() as runner, runner.socket(extensions=[ClientPerMessageDeflateFactory()]) as connection:
            assert connection.response is not None
            assert "Sec-WebSocket-Extensions" not in connection.response.headers
            await connection.send(job(input=1))
            assert (await said(connection))["result"]["value"] == 1

    held(test)


def test_the_oldest_without_a_run_gives_way_and_a_run_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_WAITING", 3)
    unhurried(monkeypatch)

    async def test() -> None:
        async with up(patient) as runner, runner.socket() as running:
            await running.send(job())
            await runner.until(lambda: runner.standing.running == 1)
            idle = [await runner.raw(b"") for _ in range(5)]
            for reader, _ in idle[:2]:
                async with asyncio.timeout(SECONDS):
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
            async with runner.socket() as fourth:
                await fourth.send(job("wrong" * 8))
                assert (await said(fourth))["code"] == "bad_token"
            assert len(runner.runner._room) <= 3
            await running.send('{"type":"cancel"}')
            assert (await said(running))["result"]["state"] == "cancelled"
            for _, writer in idle:
                writer.close()

    held(test)


async def often(loop: asyncio.AbstractEventLoop, flood: socket.socket, words: bytes) -> None:
    for _ in range(200):  # 26 MiB, more than the kernel holds for either side
        await loop.sock_sendall(flood, words)


def test_whoever_asks_and_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_UNREAD_BYTES", 64 * 1024)
    for other in ("CODE_LINK_CONTROLS", "CODE_LINK_STRANGER_BYTES"):  # which would end it as well
        monkeypatch.setattr(limits, other, 10**9)
    unhurried(monkeypatch)
    pings = frame(b"x" * 125, opcode=Opcode.PING) * 1000

    async def test() -> None:
        async with up() as runner:
            loop = asyncio.get_running_loop()
            with socket.socket() as flood:
                flood.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                flood.settimeout(0)
                await loop.sock_connect(flood, ("127.0.0.1", runner.port))
                await loop.sock_sendall(flood, HANDSHAKE + b"\r\n")
                with pytest.raises(OSError, match=r"reset|[Bb]roken"):
                    await often(loop, flood, pings)

    held(test)


def test_a_result_that_nobody_reads_holds_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_SEND_SECONDS", 0.2)

    async def large(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
        del job, backend, cancel
        return ok("x" * 4_000_000)

    async def test() -> None:
        async with up(large) as runner:
            loop = asyncio.get_running_loop()
            with socket.socket() as still:
                still.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                still.settimeout(0)
                await loop.sock_connect(still, ("127.0.0.1", runner.port))
                await loop.sock_sendall(still, HANDSHAKE + b"\r\n" + frame(job().encode()))
                await runner.until(lambda: len(runner.runner._ending) == 1)
                await runner.until(lambda: not len(runner.runner._ending))

    held(test)


def test_strangers_push_out_no_result_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_WAITING", 3)
    unhurried(monkeypatch)

    async def large(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
        del job, backend, cancel
        return ok("x" * 3_000_000)

    async def test() -> None:
        async with up(large) as runner:
            loop = asyncio.get_running_loop()
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.settimeout(0)
                await loop.sock_connect(slow, ("127.0.0.1", runner.port))
                await loop.sock_sendall(slow, HANDSHAKE + b"\r\n" + frame(job().encode()))
                await runner.until(lambda: len(runner.runner._ending) == 1)
                strangers = [await runner.raw(b"") for _ in range(9)]
                await runner.until(lambda: len(runner.runner._room) == 3)
                heard = b""
                while not heard.endswith(b'"'):  # of the value, which is nearly all of it
                    heard = await loop.sock_recv(slow, 1 << 16) or b"lost"
                    assert heard != b"lost"
                    if b'"' in heard[-400:]:
                        break
                for _, writer in strangers:
                    writer.close()

    held(test)


PONGS = 3 * limits.CODE_LINK_CONTROLS


def test_a_flood_of_what_is_no_message_ends_a_connection_without_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)

    async def test() -> None:
        async with up() as runner:
            reader, writer = await runner.raw(HANDSHAKE + b"\r\n" + frame(b"", opcode=Opcode.PONG) * PONGS)
            async with asyncio.timeout(SECONDS):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
            writer.close()

    held(test)


def test_a_flood_of_what_is_no_message_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)

    async def test() -> None:
        async with up(patient) as runner:
            _, writer = await runner.raw(HANDSHAKE + b"\r\n" + frame(job().encode()))
            await runner.until(lambda: runner.standing.running == 1)
            writer.write(frame(b"", opcode=Opcode.PONG) * PONGS)
            await runner.until(lambda: runner.standing.running == 0)
            writer.close()

    held(test)


def test_what_is_said_without_a_run_is_bounded_and_within_one_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_STRANGER_BYTES", 2000)
    unhurried(monkeypatch)

    async def test() -> None:
        async with up(calling) as runner:
            reader, writer = await runner.raw(HANDSHAKE + b"\r\n" + frame(b"x" * 125, opcode=Opcode.PONG) * 20)
            async with asyncio.timeout(SECONDS):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
            writer.close()
            async with runner.socket() as connection:
                await connection.send(job())
                for number in (1, 2):
                    await said(connection)
                    answer = {"type": "callResult", "id": number, "ok": True, "value": "x" * 2000}
                    await connection.send(json.dumps(answer))
                assert len((await said(connection))["result"]["value"]) == 2

    held(test)


def test_a_connection_is_read_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody has the loop for as long as it takes to read 256 KiB of frames of nothing."""
    pieces: list[int] = []
    read = Link.data_received

    def data_received(link: Link, data: bytes) -> None:
        pieces.append(len(data))
        read(link, data)

    monkeypatch.setattr(Link, "data_received", data_received)

    async def test() -> None:
        async with up() as runner, runner.socket() as connection:
            await connection.send(job(input="x" * 500_000))
            assert len((await said(connection))["result"]["value"]) == 500_000

    held(test)
    assert max(pieces) == limits.CODE_LINK_CHUNK_BYTES


class _Full(socket.socket):
    """A listening socket of a process that has no descriptor left, the first three times that it is asked."""

    tries = 0
    in_one_turn = 0

    def accept(self) -> Any:
        if not self.tries:
            asyncio.get_running_loop().call_soon(self._look)
        self.tries += 1
        if self.tries <= 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()

    def _look(self) -> None:
        self.in_one_turn = self.tries


def test_a_runner_without_descriptors_tries_once_in_a_while_and_serves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.01)
    listening = _Full()
    listening.bind(("127.0.0.1", 0))
    listening.listen(5)
    told: list[Any] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with up(on=[listening]) as runner, runner.socket() as connection:
            await connection.send(job(input=1))
            assert (await said(connection))["result"]["value"] == 1

    held(test)
    assert (len(told), listening.in_one_turn) == (3, 1)


def test_large_messages_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_PAUSES", 0)

    async def test() -> None:
        lane, order, may_go = Lane(), [], asyncio.Event()

        async def turn(name: str, size: int) -> None:
            async with lane.turn(size):
                order.append(name)
                if name == "first":
                    await may_go.wait()

        large = limits.CODE_LINK_LARGE_BYTES
        first, second = (asyncio.ensure_future(turn(name, large)) for name in ("first", "second"))
        await asyncio.sleep(0)
        await turn("small", large - 1)
        assert order == ["first", "small"]
        may_go.set()
        await asyncio.gather(first, second)
        assert order == ["first", "small", "second"]

    held(test)


def test_the_next_large_message_comes_when_others_had_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_PAUSES", 1_000_000)  # so that the pause is longer than any test

    async def test() -> None:
        lane = Lane()
        async with lane.turn(limits.CODE_LINK_LARGE_BYTES):
            await asyncio.sleep(0.001)
        following = asyncio.ensure_future(lane.turn(limits.CODE_LINK_LARGE_BYTES).__aenter__())
        await asyncio.wait([following], timeout=0.01)
        assert not following.done()
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following

    held(test)


def test_who_says_nothing_does_not_keep_a_runner_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
    monkeypatch.setattr(limits, "CODE_STOP_SECONDS", 3600.0)

    async def test() -> None:
        async with up() as runner:
            silent = [await runner.raw(b""), await runner.raw(b"GET /run HTTP/1.1\r\n")]
            await runner.until(lambda: len(runner.runner._room) == 2)
        for _, writer in silent:  # it has ended: `up` waits for that a bounded time
            writer.close()

    held(test)


def test_no_log_has_a_token_or_a_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with up() as runner, runner.socket() as connection:
            await connection.send(job(input="a-rare-word"))
            assert (await said(connection))["result"]["value"] == "a-rare-word"

    held(test)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("fumehood")]
    assert "a run began" in ours  # the control: the log is looked at
    assert not any(word in "\n".join(ours) for word in (TOKEN, "a-rare-word", "return 1"))


# --- the end


def test_a_run_may_finish_while_the_runner_drains_and_nobody_begins() -> None:
    async def test() -> None:
        async with up(calling) as runner, runner.socket() as running, runner.socket() as late:
            await running.send(job())
            assert (await said(running))["method"] == "search"
            runner.runner._tell(signal.SIGTERM)
            await runner.until(lambda: runner.standing.health().status == 503)
            await late.send(job())
            assert (await said(late))["code"] == "draining"
            for number in (1, 2):
                await running.send(json.dumps({"type": "callResult", "id": number, "ok": True, "value": number}))
                told = await said(running)
            assert told["result"]["value"] == [1, 2]

    held(test)


def test_a_run_that_does_not_finish_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_DRAIN_SECONDS", 0.1)

    async def test() -> None:
        async with up(patient) as runner, runner.socket() as connection:
            await connection.send(job())
            await runner.until(lambda: runner.standing.running == 1)
            runner.runner._tell(signal.SIGTERM)
            assert (await said(connection))["result"]["state"] == "cancelled"

    held(test)


def test_a_signal_ends_it() -> None:
    async def test() -> None:
        announced = asyncio.Event()
        service = Service(run=echo, standing=Standing(lambda _: True, runs=1), announce=lambda _: announced.set())
        serving = asyncio.ensure_future(server.serve_on(bind_tcp((("127.0.0.1", 0),)), service))
        await announced.wait()
        os.kill(os.getpid(), signal.SIGINT)
        assert await serving == signal.SIGINT

    held(test)
