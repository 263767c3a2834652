"""code.dialing: a program is run elsewhere or not at all, and a runner is believed nothing."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from faketools import ECHO, FakeTools, gated
from fumehood.code.backend import ToolBackend
from fumehood.code.dialing import ELSEWHERE, Runner, run_remote
from fumehood.code.gate import AuditRecord, Gate
from fumehood.code.gated import Gated
from fumehood.code.job import Job, JobLimits, JobResult, State
from fumehood.code.service import link
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import HarnessError

pytestmark = pytest.mark.threat("C5")
TOKEN = "right" * 8
SECONDS = 20.0
OK = link.write(link.ResultMessage(result=JobResult(state=State.OK, ok=True, value=7))).decode()
BUSY = link.write(link.BusyMessage(retry_after_seconds=0)).decode()
JOB = Job(code="return 1", tools=("fake.echo", "fake.missing", "fake.never"))
Script = Callable[[ServerConnection], Awaitable[None]]


def call(number: int = 1, name: str = "fake.echo", arguments: Any = None) -> str:
    args = [name, {"words": "hello"} if arguments is None else arguments]
    return link.write(link.CallMessage(id=number, method="run", args=args)).decode()


@contextlib.asynccontextmanager
async def runner_that(does: Script, **options: Any) -> AsyncIterator[Runner]:
    """A runner that does whatever a test wants, behind a right handshake."""

    async def hold(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await does(connection)

    async with serve(hold, "127.0.0.1", 0, **options) as server:
        port = server.sockets[0].getsockname()[1]
        yield Runner(url=f"ws://127.0.0.1:{port}", token=TOKEN, jitter=lambda: 0.0)


def result_of(
    does: Script,
    *,
    job: Job = JOB,
    backend: ToolBackend | None = None,
    cancel: Callable[[], asyncio.Event] | None = None,
) -> JobResult:
    async def test() -> JobResult:
        async with asyncio.timeout(SECONDS), runner_that(does) as runner:
            tools: ToolBackend = gated(FakeTools())[0] if backend is None else backend
            return await run_remote(job, tools, runner, cancel() if cancel else None)

    return asyncio.run(test())


def unavailable(result: JobResult) -> str:
    assert (result.state, result.ok, result.value) == (State.RUNNER_UNAVAILABLE, False, None)
    assert result.error
    assert result.error.name == "RunnerUnavailable"
    assert TOKEN not in str(result)
    assert "(" in result.error.message  # a next step
    return result.error.message


def saying(*words: str | bytes) -> Script:
    """Hear the job, say this, and wait for the other side to go."""

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        for one in words:
            await connection.send(one)
        await connection.wait_closed()

    return does


def test_a_job_goes_out_with_its_token_and_its_result_comes_back() -> None:
    heard: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        assert connection.request is not None
        heard.extend([connection.request.path, dict(connection.request.headers), json.loads(await connection.recv())])
        await connection.send(OK)

    result = result_of(does)
    assert (result.state, result.value, result.limitations) == (State.OK, 7, (ELSEWHERE,))
    path, headers, message = heard
    assert (path, message["token"], message["job"]["code"]) == ("/run", TOKEN, "return 1")
    assert TOKEN not in str(headers)
    assert not {"Origin", "Authorization", "User-Agent", "Sec-WebSocket-Extensions"} & set(headers)


def test_calls_are_answered_through_the_gate() -> None:
    answers: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        for words in (
            call(1),
            call(2, "fake.missing", {}),
            call(3, "fake.erase", {}),
            call(4, "fake.echo", {"wrods": 1}),
            '{"type":"call","id":5,"method":"search","args":["give words"]}',
            '{"type":"call","id":6,"method":"describe","args":["fake.echo"]}',
        ):
            await connection.send(words)
            answers.append(json.loads(await connection.recv()))
        await connection.send(OK)

    backend, records = gated(FakeTools())
    assert result_of(does, backend=backend).value == 7
    echoed, missing, erase, misfit, found, declared = answers
    assert echoed["value"] == {"text": "hello", "structured": {"length": 5}}
    assert (missing["error"]["code"], missing["error"]["outcome"]) == ("not_found", "refused")
    assert erase["error"]["code"] == "unknown_tool"
    assert "it takes words" in misfit["error"]["message"]
    assert found["value"][0]["name"] == ECHO.name
    assert "declare const tools" in declared["value"]
    assert [(record.tool, record.outcome) for record in records] == [
        ("fake.echo", "ok"),
        ("fake.missing", "refused"),
        ("fake.erase", "refused"),
        ("fake.echo", "refused"),
    ]


def test_a_runner_that_pings_without_end_is_given_up() -> None:
    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        while True:
            connection.transport.write(b"\x89\x00" * 1000)
            await asyncio.sleep(0)
            if connection.transport.is_closing():
                return

    assert "the connection was lost" in unavailable(result_of(does))


def test_a_runner_that_pings_and_reads_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_CONTROLS", 10**9)
    monkeypatch.setattr(limits, "CODE_LINK_UNREAD_BYTES", 64 * 1024)

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.pause_reading()
        ping = b"\x89\x7d" + b"x" * 125
        for _ in range(200):  # 26 MiB, more than the kernel holds for either side
            connection.transport.write(ping * 1000)
            while connection.transport.get_write_buffer_size():
                await asyncio.sleep(0)
                if connection.transport.is_closing():
                    return

    assert "the connection was lost" in unavailable(result_of(does))


@pytest.mark.threat("G1")
def test_a_refusal_stands_also_where_no_record_of_it_can_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(call(1, "fake.erase", {}))
        answers.append(json.loads(await connection.recv()))
        await connection.send(OK)

    async def full(record: AuditRecord) -> None:
        raise HarnessError(f"no room for {record.tool}")

    source = FakeTools()
    gate = Gate(source.tools, allowed=JOB.tools)
    assert result_of(does, backend=Gated(source, gate, clock=SystemClock(), audit=full)).value == 7
    assert answers[0]["error"]["code"] == "unknown_tool"
    assert "a refusal has no record" in caplog.text


def test_a_tool_that_fails_without_a_name_ends_its_call_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def search(query: str, limit: int) -> Any:
        raise RuntimeError(f"a planted word {query} {limit}")

    backend = gated(FakeTools())[0]
    monkeypatch.setattr(backend, "search", search)
    answers: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send('{"type":"call","id":1,"method":"search","args":["x"]}')
        answers.append(json.loads(await connection.recv()))
        await connection.send(OK)

    assert result_of(does, backend=backend).ok
    assert answers[0]["error"] == {"code": "harness", "message": "the tool failed", "outcome": "failed"}
    assert "in a way that it does not name" in caplog.text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["{"], "not JSON"),
        ([b"{}"], "binary"),
        ([OK.encode()], "binary"),
        ([call(1), call(1)], "not new"),
        ([call(1), BUSY], "after the run began"),
        (["x" * (limits.CODE_LINK_RESULT_BYTES + 1)], "connection was lost"),
        (['{"type":"result","result":{"state":"ok","ok":false}}'], "do not fit"),
    ],
)
def test_whatever_else_a_runner_says_is_no_result(words: list[str | bytes], reason: str) -> None:
    message = unavailable(result_of(saying(*words)))
    assert reason in message
    assert "the program may have run" in message


def test_a_run_that_broke_says_which_calls_had_come() -> None:
    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(call(1))
        await connection.recv()
        await connection.send(call(2, "fake.never", {}))
        await asyncio.sleep(0.05)
        connection.transport.abort()

    result = result_of(does)
    assert "the connection was lost; the program may have run, and 2 calls had reached its tools" in unavailable(result)
    assert [(one.name, one.outcome) for one in result.calls] == [("fake.echo", "ok"), ("fake.never", "cancelled")]


def test_tools_under_way_are_cancelled_when_the_run_is_over() -> None:
    backend, records = gated(FakeTools())
    assert result_of(saying(call(1, "fake.never", {}), OK), backend=backend).ok
    assert [record.outcome for record in records] in ([], ["cancelled"])  # none where it had not even begun


@pytest.mark.parametrize(
    ("code", "remedy"),
    [("bad_token", "code.runner_token_file"), ("draining", "code.runner_url"), ("odd", "log"), ("bad_job", "version")],
)
def test_a_refusal_says_what_to_do(code: str, remedy: str) -> None:
    words = link.write(link.RefusedMessage(code=code, message="no \x1b[2J")).decode()
    message = unavailable(result_of(saying(words)))
    assert remedy in message
    assert message.isprintable()


def test_a_busy_runner_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_BUSY_SECONDS", 0.01)
    asked: list[int] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        asked.append(1)
        await connection.send(OK if len(asked) == 3 else BUSY)

    assert result_of(does).value == 7
    assert len(asked) == 3


def test_a_runner_that_stays_busy_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_BUSY_SECONDS", 0.001)
    asked: list[int] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        asked.append(1)
        await connection.send(BUSY)

    assert "code.runs" in unavailable(result_of(does))
    assert len(asked) == limits.CODE_BUSY_TRIES


def test_whoever_waits_for_a_busy_runner_may_be_cancelled() -> None:
    async def test() -> JobResult:
        cancel = asyncio.Event()

        async def does(connection: ServerConnection) -> None:
            await connection.recv()
            await connection.send(link.write(link.BusyMessage(retry_after_seconds=3600)).decode())
            cancel.set()

        async with asyncio.timeout(SECONDS), runner_that(does) as runner:
            return await run_remote(JOB, gated(FakeTools())[0], runner, cancel)

    assert asyncio.run(test()).state is State.CANCELLED


def test_a_cancelled_run_is_told_and_its_result_is_waited_for() -> None:
    cancel = asyncio.Event()
    told: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        await connection.recv()
        cancel.set()
        told.append(json.loads(await connection.recv()))
        await connection.send(OK)

    assert result_of(does, cancel=lambda: cancel).ok
    assert told == [{"type": "cancel"}]


def test_a_runner_that_does_not_heed_a_cancel_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_STOP_SECONDS", 0.05)
    cancel = asyncio.Event()
    cancel.set()
    assert "did not end when it was cancelled" in unavailable(result_of(saying(), cancel=lambda: cancel))


def test_a_runner_that_says_nothing_is_left_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CODE_LINK_SLACK_SECONDS", 0.05)
    job = Job(code="return 1", limits=JobLimits(wall_seconds=0.05))
    assert "no result within 0.1 s" in unavailable(result_of(saying(), job=job))


def test_a_job_that_no_link_carries_is_not_sent() -> None:
    job = Job(code="return 1", input="x" * limits.CODE_LINK_JOB_BYTES)
    assert "a smaller input" in unavailable(result_of(saying(OK), job=job))
    job = Job(code="return 1", input=float("nan"))
    assert "no JSON" in unavailable(result_of(saying(OK), job=job))


def dialled(url: str) -> JobResult:
    async def test() -> JobResult:
        async with asyncio.timeout(SECONDS):
            return await run_remote(JOB, gated(FakeTools())[0], Runner(url=url, token=TOKEN))

    return asyncio.run(test())


async def answering(words: bytes, url: str = "ws://127.0.0.1:{port}") -> tuple[JobResult, list[bytes]]:
    """What comes of a server that answers every request so, and what it was asked."""
    asked: list[bytes] = []
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(words)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    async with asyncio.timeout(SECONDS), await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        result = await run_remote(JOB, gated(FakeTools())[0], Runner(url=url.format(port=port), token=TOKEN))
        await over.wait()
        return result, asked


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ws://127.0.0.1:1", "not reached"),
        ("ws://nowhere.invalid:8777", "not reached"),
        ("ws://127.0.0.1:99999", "not reached"),
        ("ws://[::", "code.runner_url is no address"),
    ],
)
def test_a_runner_that_is_not_there_is_named_by_its_setting(url: str, reason: str) -> None:
    message = unavailable(dialled(url))
    assert reason in message
    assert "code.runner_url" in message
    assert "may have run" not in message


@pytest.mark.parametrize("status", [b"200 OK", b"403 Forbidden", b"503 Service Unavailable"])
def test_what_is_no_runner_is_told_by_its_status(status: bytes) -> None:
    result, _ = asyncio.run(answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"))
    assert f"it answers HTTP {status[:3].decode()}" in unavailable(result)


def test_nobody_is_followed_elsewhere() -> None:
    async def test() -> tuple[JobResult, list[Any]]:
        heard: list[Any] = []

        async def other(connection: ServerConnection) -> None:
            heard.append(await connection.recv())
            await connection.send(OK)

        async with runner_that(other) as elsewhere:
            words = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.url}/run\r\nContent-Length: 0\r\n\r\n"
            result, _ = await answering(words.encode())
            return result, heard

    result, heard = asyncio.run(test())
    assert "it answers HTTP 302" in unavailable(result)
    assert heard == []


def test_what_speaks_no_http_is_no_runner() -> None:
    result, _ = asyncio.run(answering(b"SSH-2.0-x\r\n"))
    assert "not reached" in unavailable(result)


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "all_proxy", "socks_proxy", "HTTPS_PROXY"])
def test_no_proxy_of_the_environment_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> list[bytes]:
        asked: list[bytes] = []

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.read(100))
            writer.close()

        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
            async with asyncio.timeout(SECONDS), runner_that(saying(OK)) as runner:
                assert (await run_remote(JOB, gated(FakeTools())[0], runner)).ok
        return asked

    assert asyncio.run(test()) == []


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a runner")])
    now = dt.datetime.now(dt.UTC)
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    built = built.not_valid_before(now).not_valid_after(now + dt.timedelta(days=1)).add_extension(own, critical=False)
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[0].write_bytes(built.sign(key, hashes.SHA256()).public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    return files


def over_tls(pair: tuple[Path, Path], host: str = "127.0.0.1") -> tuple[JobResult, list[Any]]:
    heard: list[Any] = []

    async def does(connection: ServerConnection) -> None:
        heard.append(await connection.recv())
        await connection.send(OK)

    async def test() -> JobResult:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        async with asyncio.timeout(SECONDS), runner_that(does, ssl=context) as runner:
            url = runner.url.replace("ws://127.0.0.1", f"wss://{host}")
            return await run_remote(JOB, gated(FakeTools())[0], Runner(url=url, token=TOKEN))

    return asyncio.run(test()), heard


def test_a_certificate_that_this_machine_trusts_is_taken(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    result, heard = over_tls(pair)
    assert (result.value, len(heard)) == (7, 1)


def test_a_certificate_that_nobody_trusts_is_refused_before_the_token_is_sent(pair: tuple[Path, Path]) -> None:
    result, heard = over_tls(pair)
    assert "TLS failed" in unavailable(result)
    assert heard == []


def test_a_certificate_for_another_name_is_refused(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    result, heard = over_tls(pair, host="localhost")
    assert "TLS failed" in unavailable(result)
    assert heard == []


def test_a_token_is_in_no_log_and_in_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert result_of(saying(OK)).ok
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("fumehood")]
    assert TOKEN not in "\n".join(ours)
    assert TOKEN not in repr(Runner(url="ws://x:1", token=TOKEN))
