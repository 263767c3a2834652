"""The guard as an ASGI application, over applications and connections that are plain objects."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire import presence
from fumehood.wire.asgi import Application, Message, Receive, Scope, Send
from fumehood.wire.auth import match, parse_tokens
from fumehood.wire.httpchecks import PROBES, Policy
from fumehood.wire.httpguard import Guarding, HttpGuard
from fumehood.wire.published import CALLER_KEY, Caller

RIGHT, OTHER, NARROW = "right", "other", "narrow"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HEADERS = {"host": "localhost:1", "content-type": "application/json"}


class Rates:
    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.inside: list[str] = []

    def enter(self, principal: str) -> None:
        if self.inside.count(principal) >= self.most:
            raise BusyError("busy")
        self.inside.append(principal)

    def leave(self, principal: str) -> None:
        self.inside.remove(principal)


class Tokens:
    """Three tokens, and whether they were asked about."""

    challenge = 'resource_metadata="https://r.example/x"'

    def __init__(self) -> None:
        self.asked = 0
        lines = [hashlib.sha256(name.encode()).hexdigest() for name in (RIGHT, OTHER, NARROW)]
        self.lines = parse_tokens("\n".join([*lines[:2], f"{lines[2]} tool:one"]).encode())
        self.usable = True

    def ready(self) -> bool:
        return self.usable

    def caller(self, token: str) -> Caller | None:
        self.asked += 1
        return match(token, self.lines)


@dataclass
class Sent:
    """What came back."""

    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"]) if self.messages else 0

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body it got and who is told to have sent it."""
    message = await receive()
    sender = presence.current.get()
    assert sender
    assert scope[CALLER_KEY] is sender.caller
    body = json.dumps([sender.caller.principal, message["body"].decode()]).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"server", b"x"),
        (b"cache-control", b"public"),
        (b"set-cookie", b"a=b"),
        (b"mcp-session-id", b"kept"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Client:
    """Sends one request through a guard; the connection stays until `leave` is set."""

    app: Application = echo
    tokens: Tokens | None = field(default_factory=Tokens)
    rates: Rates = field(default_factory=Rates)
    more: dict[str, Any] = field(default_factory=dict)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    sink: Callable[[Message], Any] | None = None

    def guard(self) -> HttpGuard:
        policy = Policy(hosts=frozenset({"localhost:1"}), open_paths=frozenset({*PROBES, "/about"}))
        authenticators = [self.tokens] if self.tokens else []
        return HttpGuard(
            self.app,
            Guarding(
                policy=policy,
                rates=self.rates,
                authenticators=authenticators,
                documents={"/about": b'{"about":1}'},
                **self.more,
            ),
        )

    async def send(
        self,
        parts: Sequence[bytes | None] = (PING,),
        *,
        whole: bool = True,
        token: str | None = RIGHT,
        method: str = "POST",
        path: str = "/mcp",
        **headers: str,
    ) -> Sent:
        sent = Sent()
        given = HEADERS | ({"authorization": f"Bearer {token}"} if token is not None else {}) | headers
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "client": ("192.0.2.1", 5),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        }
        left: list[Message] = [
            {"type": "http.disconnect"}
            if part is None
            else {"type": "http.request", "body": part, "more_body": number < len(parts) or not whole}
            for number, part in enumerate(parts, start=1)
        ]

        async def receive() -> Message:
            if left:
                return left.pop(0)
            await self.leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if self.sink:
                await self.sink(message)
            sent.messages.append(message)

        async with asyncio.timeout(20):
            await self.guard()(scope, receive, send)
        return sent


def run(client: Client, *args: Any, **kwargs: Any) -> Sent:
    return asyncio.run(client.send(*args, **kwargs))


def test_a_right_token_reaches_the_application_and_the_answer_comes_back() -> None:
    client = Client()
    sent = run(client, [PING[:5], PING[5:]])
    assert sent.status == 200
    assert json.loads(sent.body)[1] == PING.decode()
    assert client.rates.inside == []


@pytest.mark.threat("T9")
def test_no_answer_may_be_stored_or_read_by_another_origin() -> None:
    headers = run(Client()).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["mcp-session-id"] == "kept"
    assert not {"Access-Control-Allow-Origin", "server", "set-cookie"} & set(headers)
    assert run(Client(), token=None).headers["cache-control"] == "no-store"


@pytest.mark.threat("T9")
@pytest.mark.parametrize("token", [None, "wrong", RIGHT])
@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        (421, {"host": "evil.example"}),
        (403, {"origin": "https://evil.example"}),
        (415, {"content_type": "text/plain"}),
        (413, {"content_length": str(limits.REQUEST_BYTES + 1)}),
    ],
)
def test_host_and_origin_answer_the_same_whatever_the_token(
    token: str | None, expected: int, wrong: dict[str, str]
) -> None:
    client = Client()
    sent = run(client, token=token, **wrong)
    assert sent.status == expected
    assert client.tokens
    assert client.tokens.asked == 0
    assert sent.messages == run(Client(), token=None, **wrong).messages


@pytest.mark.threat("T9")
@pytest.mark.parametrize("token", [None, "wrong", "Right", "righ", "right=", ""])
def test_without_a_right_token_nothing_is_read_or_run(token: str | None) -> None:
    async def never(*_: object) -> None:
        raise AssertionError

    sent = run(Client(app=never), [None], token=token)
    assert sent.status == 401
    challenge = sent.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="fumehood", resource_metadata="https://r.example/x"')
    assert ("invalid_token" in challenge) == (token is not None)
    assert sent.headers["connection"] == "close"


@pytest.mark.threat("T9")
def test_a_tool_outside_the_scopes_is_forbidden_with_the_scope_named() -> None:
    body = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"two"}}'
    sent = run(Client(), [body], token=NARROW)
    assert sent.status == 403
    assert 'error="insufficient_scope", scope="tool:two"' in sent.headers["www-authenticate"]
    assert json.loads(sent.body)["id"] == 5
    assert run(Client(), [body.replace(b"two", b"one")], token=NARROW).status == 200
    assert run(Client(), [body], token=RIGHT).status == 200


def test_without_authenticators_everybody_is_a_local_caller() -> None:
    assert json.loads(run(Client(tokens=None), token=None).body)[0] == "local 192.0.2.1"


def test_probes_and_documents_answer_without_a_token_and_say_nothing_of_a_client() -> None:
    client = Client()
    assert client.tokens
    for path, body in (("/healthz", b'{"status":"ok"}'), ("/readyz", b'{"status":"ok"}'), ("/about", b'{"about":1}')):
        for token in (None, "wrong", RIGHT):
            sent = run(client, [], method="GET", path=path, token=token)
            assert (sent.status, sent.body) == (200, body)
    assert client.tokens.asked == 0


@pytest.mark.threat("T9")
def test_a_probe_is_refused_under_a_foreign_name_too() -> None:
    assert run(Client(), [], method="GET", path="/healthz", token=None, host="evil.example").status == 421


def test_readiness_ends_when_nobody_could_be_let_in_and_health_does_not() -> None:
    client = Client()
    assert client.tokens
    client.tokens.usable = False
    assert run(client, [], method="GET", path="/readyz").status == 503
    assert run(client, [], method="GET", path="/healthz").status == 200
    client = Client(more={"ready": lambda: False})
    assert run(client, [], method="GET", path="/readyz").status == 503


@pytest.mark.threat("T8")
def test_a_body_that_grows_beyond_its_bound_is_refused_before_it_is_whole() -> None:
    part = b" " * (limits.REQUEST_BYTES // 2 + 1)
    assert run(Client(), [part, part, part]).status == 413


@pytest.mark.threat("T8")
def test_a_body_that_does_not_come_is_given_up() -> None:
    assert run(Client(more={"body_seconds": 0.01}), [b"{"], whole=False).status == 408


def test_a_client_that_leaves_within_its_body_gets_nothing() -> None:
    client = Client()
    assert run(client, [b"{", None]).messages == []
    assert client.rates.inside == []


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"[]", -32600), (PING.replace(b"ping", b"tools/call"), -32020)]
)
def test_a_body_is_judged_before_the_application_sees_it(body: bytes, code: int) -> None:
    sent = run(Client(), [body], mcp_method="ping")
    assert sent.status == 400
    assert json.loads(sent.body)["error"]["code"] == code


@pytest.mark.threat("T8")
def test_who_asks_too_often_is_told_to_wait_and_others_are_not() -> None:
    rates = Rates(most=1)
    first = json.loads(run(Client(rates=rates)).body)[0]
    rates.inside.append(first)
    sent = run(Client(rates=rates))
    assert (sent.status, sent.headers["retry-after"]) == (429, "1")
    assert run(Client(rates=rates), token=OTHER).status == 200


def test_a_failed_application_is_told_of_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(*_: object) -> None:
        raise ValueError("/etc/secret")

    client = Client(app=fails)
    sent = run(client)
    assert sent.status == 500
    assert b"secret" not in sent.body
    assert json.loads(sent.body)["error"]["code"] == -32603
    assert "application of a listener failed" in caplog.text
    assert client.rates.inside == []


def test_an_application_that_says_nothing_is_a_failure() -> None:
    async def silent(*_: object) -> None:
        return

    assert run(Client(app=silent)).status == 500


@pytest.mark.threat("T8")
def test_a_client_that_leaves_cancels_its_call_and_nobody_elses() -> None:
    cancelled: list[str] = []

    async def both() -> None:
        inside = asyncio.Event()
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            sender = presence.current.get()
            assert sender
            sender.follow(lambda: cancelled.append(sender.caller.principal))
            if sender.caller == leaver:
                inside.set()
                await asyncio.Event().wait()
            await go_on.wait()
            await echo(scope, receive, send)

        tokens = Tokens()
        found = tokens.caller(RIGHT)
        assert found
        leaver = found
        leaving, staying = Client(app=slow, tokens=tokens), Client(app=slow, tokens=tokens)
        first = asyncio.create_task(leaving.send())
        second = asyncio.create_task(staying.send(token=OTHER))
        await inside.wait()
        leaving.leave.set()
        assert (await first).messages == []
        assert cancelled == [leaver.principal]
        go_on.set()
        assert (await second).status == 200

    asyncio.run(both())
    assert len(cancelled) == 2  # what is over is over: a call that ended hears of it too, and does nothing


@pytest.mark.threat("T8")
def test_a_request_that_takes_too_long_is_ended() -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    sent = run(Client(app=hangs, more={"request_seconds": 0.01}))
    assert (sent.status, sent.headers["retry-after"]) == (503, "1")


@pytest.mark.threat("T8")
def test_a_client_that_does_not_take_its_answer_is_given_up() -> None:
    async def stuck(_: Message) -> None:
        await asyncio.Event().wait()

    client = Client(sink=stuck, more={"send_seconds": 0.01})
    assert run(client).messages == []
    assert client.rates.inside == []


def test_what_follows_an_answer_may_end_by_itself() -> None:
    ended: list[str] = []

    async def lingers(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        assert (await receive())["type"] == "http.disconnect"
        ended.append("by itself")

    async def once() -> Sent:
        client = Client(app=lingers)

        async def last(message: Message) -> None:
            if message["type"] == "http.response.body":
                client.leave.set()  # as a server does: after an answer there is nobody to receive from

        client.sink = last
        return await client.send()

    assert asyncio.run(once()).status == 200
    assert ended == ["by itself"]


@pytest.mark.threat("T9")
def test_many_clients_at_once_get_their_own_answers() -> None:
    async def shuffled(_: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        for _turn in range(message["body"].count(b"x") % 7):
            await asyncio.sleep(0)
        sender = presence.current.get()
        assert sender
        body = json.dumps([sender.caller.principal, message["body"].decode()]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": body})

    async def everybody() -> list[tuple[str, bytes, Sent]]:
        tokens = Tokens()
        client = Client(app=shuffled, tokens=tokens)
        asked = [
            (token, json.dumps({"id": f"{token}{'x' * n}"}).encode()) for n in range(50) for token in (RIGHT, OTHER)
        ]
        answers = await asyncio.gather(*(client.send([body], token=token) for token, body in asked))
        return [(token, body, sent) for (token, body), sent in zip(asked, answers, strict=True)]

    holders = {token: match(token, Tokens().lines) for token in (RIGHT, OTHER)}
    for token, body, sent in asyncio.run(everybody()):
        holder = holders[token]
        assert holder
        assert json.loads(sent.body) == [holder.principal, body.decode()]


def test_lifespan_goes_through_and_websockets_do_not() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        seen.append(scope["type"])

    async def nothing() -> Message:
        raise AssertionError

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Client(app=app).guard()
    asyncio.run(guard({"type": "lifespan"}, nothing, send))
    asyncio.run(guard({"type": "websocket"}, nothing, send))
    assert seen == ["lifespan"]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_whoever_follows_after_the_end_is_told_at_once() -> None:
    told: list[int] = []
    sender = presence.Presence(caller=Caller())
    sender.follow(lambda: told.append(1))
    sender.leave()
    sender.leave()
    sender.follow(lambda: told.append(2))
    assert told == [1, 2]
    assert sender.left
