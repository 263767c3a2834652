import asyncio
import contextlib
import dataclasses
import datetime as dt
import hashlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import pytest

from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.requests import RequestReader
from fumehood.sandbox.egress import EgressRecord, EgressReport, Inspect, Mode, Policy, Rule
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import World, tcp_connect
from fumehood.sandbox.relay.replies import TLS_ALERT
from fumehood.sandbox.relay.service import Relay

INSPECT = Inspect(question=parse_question, hello=parse_hello, requests=RequestReader)
SINKHOLE = Policy(mode=Mode.SINKHOLE, rules=(Rule(host="127.0.0.1", port=80, operator=True),))
GET = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}"
CLOSING = ANSWER.replace(b"keep-alive", b"close")
QUERY = b"\xab\xcd\1\0\0\1\0\0\0\0\0\0\1a\7example\0\0\1\0\1"


def nobody_resolves(name: str, *, absolute: bool) -> Iterable[str]:
    raise AssertionError(f"{name} was looked up outside ({absolute=})")


async def nobody_dials(address: str, port: int) -> socket.socket:
    raise AssertionError(f"{address}:{port} was dialled")


def nobody_asks(address: str) -> bool:
    raise AssertionError(f"it was asked whether {address} is this host's")


NOWHERE = World(resolver=nobody_resolves, connect=nobody_dials, is_own=nobody_asks)


@dataclass
class Bench:
    """A relay that answers by itself, and whose outer world fails the test."""

    bounds: RelayBounds = field(default_factory=RelayBounds)
    inspect: Inspect = INSPECT
    policy: Policy = SINKHOLE
    kind: int = socket.SOCK_STREAM
    label: str = "catch4"
    world: World = NOWHERE
    port: int = 0
    relay: Relay = field(init=False)

    def run(self, act: "Callable[[Bench], Awaitable[None]]") -> EgressReport:
        """Serve one listener while `act` acts."""

        async def go() -> EgressReport:
            opened = socket.socket(socket.AF_INET, self.kind)
            opened.bind(("127.0.0.1", 0))
            if self.kind == socket.SOCK_STREAM:
                opened.listen(1024)
            self.port = opened.getsockname()[1]
            relay = Relay(self.policy, {self.label: opened}, self.inspect, world=self.world, bounds=self.bounds)
            self.relay = relay
            relay.start()
            try:
                await act(self)
            finally:
                report = await relay.stop()
            return report

        return asyncio.run(asyncio.wait_for(go(), 60))

    async def client(self) -> socket.socket:
        return await tcp_connect("127.0.0.1", self.port)

    async def ask(self, *pieces: bytes, ends: bool = True) -> bytes:
        """Send piece by piece, and read what comes back until the end or a reset."""
        loop, answer = asyncio.get_running_loop(), b""
        with await self.client() as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for piece in pieces:
                await loop.sock_sendall(client, piece)
            if ends:
                client.shutdown(socket.SHUT_WR)
            while piece := await loop.sock_recv(client, 65536):
                answer += piece
        return answer


def asked(*pieces: bytes, ends: bool = True, **bounds: float) -> tuple[bytes, EgressRecord]:
    """What one client is answered, and what is recorded of it."""
    answers = []

    async def act(bench: Bench) -> None:
        answers.append(await bench.ask(*pieces, ends=ends))

    report = Bench(bounds=RelayBounds(**bounds)).run(act)  # type: ignore[arg-type]  # each bound is a number
    (record,) = report.records
    assert record.decision == "answered"
    assert record.peer is None
    return answers[0], record


def client_hello(name: str) -> bytes:
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.threat("R20")
def test_a_request_is_answered_here_and_recorded_with_its_body() -> None:
    post = b"POST /up HTTP/1.1\r\nHost: b.example\r\nContent-Length: 6\r\n\r\nsecret"
    answer, record = asked(GET, post)
    assert answer == ANSWER * 2
    first, second = record.requests
    assert (first.method, first.target, first.host, first.complete) == ("GET", "/a", "a.example", True)
    assert (second.body, second.body_bytes, second.host) == (b"secret", 6, "b.example")
    assert second.body_sha256 == hashlib.sha256(b"secret").hexdigest()
    assert (record.hello, record.server_name, record.end, record.first) == ("http", "a.example", "closed", b"")
    assert (record.up_bytes, record.down_bytes) == (len(GET + post), 2 * len(ANSWER))
    assert 0 <= first.at_seconds <= second.at_seconds


@pytest.mark.threat("R20")
def test_tls_is_ended_with_an_alert_once_the_server_it_wants_is_known() -> None:
    hello = client_hello("mail.example")
    answer, record = asked(hello, ends=False)
    assert answer == TLS_ALERT
    assert (record.hello, record.server_name, record.end) == ("tls", "mail.example", "alert")
    assert record.first == hello


def test_an_ordinary_tls_client_hears_that_the_fault_is_the_servers() -> None:
    async def act(bench: Bench) -> None:
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLError, match=r"(?i)internal.error"):
            await asyncio.open_connection("127.0.0.1", bench.port, ssl=context, server_hostname="a.example")

    (record,) = Bench().run(act).records
    assert record.server_name == "a.example"


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", ANSWER[:-2]),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET, CLOSING),
        (b"GET / HTTP/1.0\r\n\r\n", CLOSING),
        (b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", ANSWER),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", ANSWER),
    ],
    ids=["head", "close", "http/1.0", "upgrade", "two_hosts"],
)
def test_each_request_gets_the_answer_that_lets_its_client_go_on(request_: bytes, answer: bytes) -> None:
    assert asked(request_)[0] == answer


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    head = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    told: list[bytes] = []

    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        with await bench.client() as client:
            await loop.sock_sendall(client, head)
            told.append(await loop.sock_recv(client, 1000))
            await loop.sock_sendall(client, b"body")
            told.append(await loop.sock_recv(client, 1000))

    (record,) = Bench().run(act).records
    assert told == [b"HTTP/1.1 100 Continue\r\n\r\n", ANSWER]
    assert record.requests[0].body == b"body"


@pytest.mark.threat("R20")
def test_an_ambiguous_request_is_answered_with_400_and_what_follows_is_kept_as_bytes() -> None:
    smuggled = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET
    answer, record = asked(smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    (request,) = record.requests
    assert (request.complete, request.note) == (False, "length_and_chunked")
    assert (record.end, record.first) == ("malformed", smuggled)


def test_what_follows_connect_is_heard_as_outside_of_it() -> None:
    connect = b"CONNECT hidden.example:443 HTTP/1.1\r\nHost: hidden.example:443\r\n\r\n"
    hello = client_hello("hidden.example")
    told: list[bytes] = []

    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        for rest in (hello, b"EHLO a\r\n", b""):
            with await bench.client() as client:
                await loop.sock_sendall(client, connect)
                told.append(await loop.sock_recv(client, 1000))
                await loop.sock_sendall(client, rest)
                client.shutdown(socket.SHUT_WR)
                told.append(await loop.sock_recv(client, 1000))

    records = Bench().run(act).records
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert told == [established, TLS_ALERT, established, b"", established, b""]
    assert [record.end for record in records] == ["alert", "closed", "closed"]
    assert [record.first for record in records] == [connect + hello, connect + b"EHLO a\r\n", connect]
    assert {record.requests[0].target for record in records} == {"hidden.example:443"}


def test_what_is_neither_is_listened_to_and_its_first_bytes_are_kept() -> None:
    data = b"\0\1binary" * 10_000
    answer, record = asked(data, raw_bytes=100)
    assert answer == b""
    assert (record.hello, record.first, record.up_bytes, record.end) == ("other", data[:100], len(data), "closed")


def test_a_client_that_waits_for_its_server_to_speak_is_let_go_and_recorded_as_silent() -> None:
    answer, record = asked(ends=False, silent_seconds=0.05)
    assert (answer, record.hello, record.end, record.first) == (b"", "none", "silent", b"")


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n", b"GET /slow", GET, b"\x16\3\1\2\0"])
def test_a_client_that_says_no_more_is_let_go(data: bytes) -> None:
    answer, record = asked(data, ends=False, silent_seconds=0.05, answered_seconds=0.05)
    assert record.end == "idle"
    assert answer == (ANSWER if data == GET else b"")
    assert record.first == (b"" if data == GET else data)


@pytest.mark.threat("R20")
def test_a_head_sent_byte_by_byte_is_read_all_the_same() -> None:
    answer, record = asked(*(bytes([byte]) for byte in GET), first_reads=2)
    assert answer == ANSWER
    assert [request.target for request in record.requests] == ["/a"]


@pytest.mark.threat("R20")
def test_of_an_endless_body_a_bounded_beginning_is_kept_and_the_connection_is_cut() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 99999999\r\n\r\n"
    answer, record = asked(head, b"x" * 300_000, up_bytes=200_000, body_bytes=1000)
    assert answer == b""
    (request,) = record.requests
    assert (request.body, request.complete, record.end) == (b"x" * 1000, False, "up_limit")
    assert request.body_bytes > 150_000


@pytest.mark.threat("R20")
def test_an_endless_head_is_cut() -> None:
    answer, record = asked(b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 200_000, answered_seconds=1, farewell_seconds=0.05)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert record.requests[0].note == "oversized"


@pytest.mark.threat("R20")
def test_a_pipelined_flood_is_bounded_and_counted() -> None:
    async def act(bench: Bench) -> None:
        assert (await bench.ask(GET * 500, ends=False)).count(b"HTTP/1.1 200") >= 50

    report = Bench(bounds=RelayBounds(requests=50, requests_kept=10, answered_bytes=2000)).run(act)
    (record,) = report.records
    assert (len(record.requests), record.end) == (10, "request_limit")
    assert report.lost["http request"] >= 40


@pytest.mark.threat("R20")
def test_a_client_that_reads_no_answer_is_cut() -> None:
    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.settimeout(0)
        with client, contextlib.suppress(OSError):
            await loop.sock_connect(client, ("127.0.0.1", bench.port))
            await loop.sock_sendall(client, GET * 1_000_000)

    bounds = RelayBounds(requests=10**9, answered_seconds=0.2, farewell_seconds=0.05, answered_bytes=1_000_000)
    (record,) = Bench(bounds=bounds).run(act).records
    assert record.end == "unread"


@pytest.mark.threat("R20")
def test_silent_connections_keep_nobody_out_who_has_something_to_say() -> None:
    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as held:
            first = held.enter_context(await bench.client())
            await loop.sock_sendall(first, b"\0first")
            for _ in range(30):
                held.enter_context(await bench.client())
            assert await bench.ask(GET) == ANSWER

    report = Bench(bounds=RelayBounds(connections=8)).run(act)
    ends = [record.end for record in report.records]
    assert ends.count("crowded") == 24
    assert [record.first for record in report.records if record.hello == "other"] == [b"\0first"]
    assert [record.requests[0].target for record in report.records if record.requests] == ["/a"]


@pytest.mark.threat("R20")
def test_a_flood_of_bodies_hides_no_later_small_upload() -> None:
    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"

    async def act(bench: Bench) -> None:
        for _ in range(5):
            await bench.ask(post % 5000 + b"x" * 5000)
        await bench.ask(post % 9 + b"exfil-me!")

    bounds = RelayBounds(evidence_bytes=8000, evidence_floor_bytes=100, requests_total=3, requests_kept=3)
    records = Bench(bounds=bounds).run(act).records
    assert [len(record.requests[0].body) for record in records] == [5000, 3000, 100, 100, 100, 9]
    assert records[-1].requests[0].body == b"exfil-me!"


def test_a_connection_that_is_under_way_at_the_end_leaves_what_it_has_said() -> None:
    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        client = await bench.client()
        await loop.sock_sendall(client, GET)
        assert await loop.sock_recv(client, 1000) == ANSWER
        client.send(b"POST /last HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        client.close()
        other = await bench.client()
        await asyncio.sleep(0)
        other.send(b"\0beacon")
        other.close()

    records = Bench().run(act).records
    assert {request.target: request.body for r in records for request in r.requests} == {"/a": b"", "/last": b"half"}
    assert [r.first for r in records if r.hello == "other"] == [b"\0beacon"]


def test_without_a_reader_of_requests_a_request_is_listened_to_only() -> None:
    async def act(bench: Bench) -> None:
        assert await bench.ask(GET) == b""

    (record,) = Bench(inspect=Inspect(question=parse_question, hello=parse_hello)).run(act).records
    assert (record.requests, record.request_line) == ((), "GET /a HTTP/1.1")


@pytest.mark.threat("R20")
def test_names_that_have_no_address_left_share_one_and_are_still_answered() -> None:
    answers: list[bytes] = []

    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(0)
            client.connect(("127.0.0.1", bench.port))
            for letter in b"abc":
                client.send(QUERY.replace(b"\1a", b"\1" + bytes([letter])))
                answers.append((await loop.sock_recv(client, 512))[-4:])

    report = Bench(bounds=RelayBounds(names=2), kind=socket.SOCK_DGRAM, label="udp4").run(act)
    assert answers == [bytes([198, 18, 1, 0]), bytes([198, 18, 1, 1]), bytes([198, 18, 0, 1])]
    assert [record.why for record in report.records] == [None, None, "too_many_names"]


@pytest.mark.threat("R20")
def test_another_protocol_on_the_port_of_dns_is_recorded_with_its_first_bytes() -> None:
    async def act(bench: Bench) -> None:
        await bench.ask(b"POST /x HTTP/1.1\r\n\r\nsecret")

    (record,) = Bench(label="dns4").run(act).records
    assert (record.kind, record.decision, record.protocol) == ("dns", "malformed", "tcp")
    assert record.first == b"POST /x HTTP/1.1\r\n\r\nsecret"


def test_the_report_says_when_its_clock_began() -> None:
    async def act(bench: Bench) -> None:
        await bench.ask(GET)

    report = Bench().run(act)
    assert report.started_at is not None
    assert report.started_at > 1_700_000_000


@pytest.mark.threat("R20")
def test_once_too_much_was_sent_a_later_request_is_still_read_before_it_is_cut() -> None:
    async def act(bench: Bench) -> None:
        await bench.ask(b"\0" * 200_000)
        assert await bench.ask(b"POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nexfil") == b""

    flood, late = Bench(bounds=RelayBounds(up_bytes=100_000)).run(act).records
    assert (flood.end, late.end) == ("up_limit", "up_limit")
    assert [(request.target, request.body) for request in late.requests] == [("/late", b"exfil")]


@pytest.mark.threat("R20")
def test_a_client_that_sends_a_byte_now_and_then_is_cut_at_the_end_of_its_life() -> None:
    class Hand:
        seconds = 0.0

        def monotonic(self) -> float:
            return self.seconds

        def now(self) -> dt.datetime:
            return dt.datetime.fromtimestamp(0, dt.UTC)

    clock = Hand()

    async def act(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        with await bench.client() as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for byte in GET[:20]:
                await loop.sock_sendall(client, bytes([byte]))
                await asyncio.sleep(0)
                clock.seconds += 50.0
                bench.relay.sweep()
            assert await loop.sock_recv(client, 100) == b""

    bench = Bench(world=dataclasses.replace(NOWHERE, clock=clock), bounds=RelayBounds(idle_seconds=10**6))
    (record,) = bench.run(act).records
    assert record.end == "life"


@pytest.mark.threat("R20")
def test_a_thousand_tiny_chunks_are_one_body() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer, record = asked(head + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n")
    assert answer == CLOSING
    assert (record.requests[0].body, record.requests[0].complete) == (b"x" * 1000, True)
