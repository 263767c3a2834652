"""Answers over HTTP that may become streams, and those that become one only for want of time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.wire import answers
from fumehood.wire.exchange import Exchange
from fumehood.wire.patience import Patient
from fumehood.wire.published import LOCAL
from loopback.hosting import until

SCOPE: dict[str, Any] = {"type": "http", "headers": [(b"accept", b"application/json, text/event-stream")]}


class Client:
    """What one client gets."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    async def send(self, message: Any) -> None:
        self.parts.append(message)

    @property
    def kind(self) -> bytes:
        return bytes(dict(self.parts[0]["headers"])[b"content-type"])

    @property
    def body(self) -> bytes:
        return b"".join(part.get("body", b"") for part in self.parts[1:])


def run(work: Callable[[Client], Awaitable[None]]) -> Client:
    client = Client()
    asyncio.run(asyncio.wait_for(work(client), 30))
    return client


def test_an_answer_alone_is_one_document() -> None:
    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=True)
        exchange.finish(b'{"a":1}\n')
        exchange.finish(b"another\n")
        assert not exchange.push(b"too late\n")
        await exchange.send(client.send, ((b"x", b"y"),))

    client = run(work)
    assert client.kind == b"application/json"
    assert client.body == b'{"a":1}\n'
    assert (b"x", b"y") in client.parts[0]["headers"]


def test_what_comes_before_the_answer_makes_a_stream() -> None:
    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=True)
        sending = asyncio.create_task(exchange.send(client.send))
        for word in (b"one\n", b"two\n"):
            assert exchange.push(word)
            await asyncio.sleep(0)
        exchange.finish(b"last\n")
        await sending

    client = run(work)
    assert client.kind == b"text/event-stream"
    assert client.body == b"".join(b"event: message\ndata: %s\n\n" % word for word in (b"one", b"two", b"last"))
    assert not client.parts[-1]["more_body"]


@pytest.mark.threat("G15")
def test_what_nobody_reads_is_dropped_but_the_answer_is_not() -> None:
    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=True)
        pushed = [exchange.push(b"x" * 1024) for _ in range(1000)]
        assert sum(pushed) == limits.HTTP_UNREAD_BYTES // 1024
        assert not Exchange(LOCAL, streams=False).push(b"x")
        exchange.finish(b"last\n")
        await exchange.send(client.send)

    assert run(work).body.endswith(b"data: last\n\n")


def test_a_long_silence_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_PING_SECONDS", 0.01)

    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=True)
        sending = asyncio.create_task(exchange.send(client.send))
        await until(lambda: len(client.parts) >= 3)
        exchange.finish(b"last\n")
        await sending

    assert run(work).body.startswith(b": ping\n\n")


def test_who_takes_no_stream_sees_no_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_PING_SECONDS", 0.01)

    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=False)
        sending = asyncio.create_task(exchange.send(client.send))
        await asyncio.sleep(0.05)
        exchange.finish(b"last\n")
        await sending

    assert run(work).body == b"last\n"


def test_a_standing_stream_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_PING_SECONDS", 0.01)
    monkeypatch.setattr(limits, "HTTP_STREAM_SECONDS", 0.1)

    async def work(client: Client) -> None:
        exchange = Exchange(LOCAL, streams=True)
        exchange.push(b"one\n")
        await exchange.stand(client.send)

    client = run(work)
    assert client.body.startswith(b"event: message\ndata: one\n\n: ping")
    assert not client.parts[-1]["more_body"]


def patient(client: Client, *, seconds: float, scope: dict[str, Any] | None = None) -> Awaitable[None]:
    async def app(_: Any, __: Any, send: Any) -> None:
        await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"a":1}'})

    async def receive() -> Any:
        raise AssertionError

    return Patient(app)(scope or SCOPE, receive, client.send)


def test_an_answer_in_time_goes_out_as_it_is() -> None:
    client = run(lambda client: patient(client, seconds=0))
    assert client.parts[0]["status"] == 404
    assert client.body == b'{"a":1}'


def test_an_answer_that_takes_long_becomes_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_PING_SECONDS", 0.02)
    client = run(lambda client: patient(client, seconds=0.3))
    assert client.kind == b"text/event-stream"
    assert client.body.startswith(b": ping\n\n")
    assert client.body.endswith(b'event: message\ndata: {"a":1}\n\n')
    plain: dict[str, Any] = {**SCOPE, "headers": [(b"accept", b"application/json")]}
    client = run(lambda client: patient(client, seconds=0.1, scope=plain))
    assert client.body == b'{"a":1}'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": float("nan")}, "Internal error"),
        ({"a": "x" * limits.ENVELOPE_BYTES}, "the answer has 2097197 bytes, where 2097152 are sent"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_says_why(
    value: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = json.loads(answers.line("i", "result", value))
    assert found == {"jsonrpc": "2.0", "id": "i", "error": {"code": -32603, "message": words}}
    assert "over its bound" in caplog.text
    assert json.loads(answers.line(1, "result", {"a": 1})) == {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}
