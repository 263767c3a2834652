import asyncio
import dataclasses
import datetime as dt
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.observe.requests import RequestReader
from fumehood.sandbox.egress import EgressReport, Inspect, Mode, Policy, Rule
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import World, tcp_connect
from fumehood.sandbox.relay.service import Relay

INSPECT = Inspect(question=parse_question, hello=parse_hello, requests=RequestReader)
QUERY = b"\xab\xcd\1\0\0\1\0\0\0\0\0\0\1a\7example\0\0\1\0\1"


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.seconds, dt.UTC)


class Exhausted(socket.socket):
    """A listener whose first accept finds no descriptor left."""

    failures = 1

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


@dataclass
class Bench:
    """A relay whose listeners are on this host's loopback, and whose outer world is one end of a socket pair."""

    policy: Policy = Policy(mode=Mode.OPEN)
    bounds: RelayBounds = field(default_factory=RelayBounds)
    clock: HandClock = field(default_factory=HandClock)
    servers: list[socket.socket] = field(default_factory=list)
    listener: Callable[[int, int], socket.socket] = socket.socket
    port: int = 0

    def resolve(self, name: str, *, absolute: bool) -> Iterable[str]:
        del name, absolute
        return ["93.184.216.34"]

    async def connect(self, address: str, port: int) -> socket.socket:
        del address, port
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        theirs.settimeout(0)
        self.servers.append(theirs)
        return ours

    def run(
        self, label: str, act: "Callable[[Bench, Relay], Awaitable[None]]", kind: int = socket.SOCK_STREAM
    ) -> EgressReport:
        """Serve one listener under `label` while `act` acts."""

        async def go() -> EgressReport:
            opened = self.listener(socket.AF_INET, kind)
            opened.bind(("127.0.0.1", 0))
            if kind == socket.SOCK_STREAM:
                opened.listen()
            self.port = opened.getsockname()[1]
            rule = Rule(host="127.0.0.1", port=self.port, operator=True)
            policy = dataclasses.replace(self.policy, rules=(rule,))
            world = World(resolver=self.resolve, connect=self.connect, is_own=lambda _: False, clock=self.clock)
            relay = Relay(policy, {label: opened}, INSPECT, world=world, bounds=self.bounds)
            relay.start()
            try:
                await act(self, relay)
            finally:
                report = await relay.stop()
                assert await relay.stop() is report
                for server in self.servers:
                    server.close()
            assert opened.fileno() == -1
            return report

        return asyncio.run(asyncio.wait_for(go(), 30))

    async def client(self) -> socket.socket:
        return await tcp_connect("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> bytes:
        """Send to the relay, and read what comes back until the end or a reset."""
        loop, answer = asyncio.get_running_loop(), b""
        try:
            with await self.client() as client:
                await loop.sock_sendall(client, data)
                while piece := await loop.sock_recv(client, 65536):
                    answer += piece
        except ConnectionResetError:
            return answer + b"<reset>"
        return answer


Act: TypeAlias = Callable[[Bench, Relay], Awaitable[None]]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so; the bench's deadline bounds it."""
    while not condition():  # noqa: ASYNC110 - the relay has no event for each of its states
        await asyncio.sleep(0)


def test_bytes_go_both_ways_and_each_end_is_passed_on() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        loop = asyncio.get_running_loop()
        asking = asyncio.create_task(bench.ask(b"\0ping"))
        await until(lambda: bench.servers)
        assert await loop.sock_recv(bench.servers[0], 100) == b"\0ping"
        await loop.sock_sendall(bench.servers[0], b"pong")
        bench.servers[0].shutdown(socket.SHUT_WR)
        assert await asking == b"pong"
        assert await loop.sock_recv(bench.servers[0], 100) == b""

    (record,) = Bench().run("catch4", act).records
    assert (record.decision, record.hello, record.up_bytes, record.down_bytes) == ("relayed", "other", 5, 4)
    assert (record.end, record.first) == ("closed", b"\0ping")


@pytest.mark.parametrize(("seconds", "end"), [(61.0, "idle"), (601.0, "life")])
def test_a_connection_is_cut_when_it_was_idle_or_lived_too_long(seconds: float, end: str) -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        loop = asyncio.get_running_loop()
        asking = asyncio.create_task(bench.ask(b"\0ping"))
        await until(lambda: bench.servers)
        assert await loop.sock_recv(bench.servers[0], 100) == b"\0ping"
        relay.sweep()
        assert not asking.done()
        bench.clock.seconds = seconds
        if end == "life":
            await loop.sock_sendall(bench.servers[0], b"still here")
            await until(lambda: all(c.active == seconds for c in relay._connections.values()))
        relay.sweep()
        assert (await asking).endswith(b"<reset>")

    (record,) = Bench().run("catch4", act).records
    assert (record.end, record.decision) == (end, "relayed")


def test_what_is_under_way_when_it_stops_is_recorded() -> None:
    clients: list[socket.socket] = []

    async def act(bench: Bench, relay: Relay) -> None:
        clients.append(await bench.client())
        await until(lambda: relay._connections)
        relay._loop.remove_reader(relay._sockets["catch4"])
        clients.append(await bench.client())

    report = Bench().run("catch4", act)
    for client in clients:
        client.close()
    assert {(record.end, record.why) for record in report.records} == {("stopped", None), (None, "stopped")}


@pytest.mark.threat("R3")
def test_when_descriptors_run_out_the_listener_rests_and_serves_again() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        asking = asyncio.create_task(bench.ask(b"\0ping"))
        await until(lambda: bench.servers)
        bench.servers[0].close()
        await asking
        await until(lambda: not relay._connections)

    report = Bench(listener=Exhausted, bounds=RelayBounds(pause_seconds=0.01)).run("catch4", act)
    assert report.lost == {"tcp not_accepted": 1}
    assert len(report.records) == 1


def test_a_listener_that_rests_when_it_stops_does_not_wake() -> None:
    class Empty(Exhausted):
        failures = 1000

    clients: list[socket.socket] = []

    async def act(bench: Bench, relay: Relay) -> None:
        clients.append(await bench.client())
        await until(lambda: relay._engine.records.lost)

    report = Bench(listener=Empty, bounds=RelayBounds(pause_seconds=0)).run("catch4", act)
    clients[0].close()
    assert report.records == ()


def test_dns_over_tcp_answers_questions_in_a_row_and_says_what_it_cannot_read() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        query = len(QUERY).to_bytes(2, "big") + QUERY
        malformed = b"\0\x0c" + b"\xab\xcd" + bytes(10)
        answer = await bench.ask(query + query + malformed + b"\0\1x")
        size = int.from_bytes(answer[:2], "big")
        assert answer[: 2 + size] == answer[2 + size : 4 + 2 * size]
        assert answer[4 + 2 * size :] == b"\0\x0c\xab\xcd\x80\x81" + bytes(8) + b"<reset>"

    report = Bench().run("dns4", act)
    assert [record.decision for record in report.records] == ["answered", "answered", "malformed", "malformed"]


@pytest.mark.threat("R3")
def test_dns_connections_are_few_and_short() -> None:
    async def few(bench: Bench, relay: Relay) -> None:
        del relay
        assert await bench.ask(b"") == b"<reset>"

    assert Bench(bounds=RelayBounds(dns_connections=0)).run("dns4", few).lost == {"dns over_limit": 1}
    assert Bench(bounds=RelayBounds(dns_seconds=0.01)).run("dns4", few).lost == {}


@pytest.mark.threat("R3")
def test_questions_that_nobody_can_answer_any_more_are_counted_or_recorded() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        opened = relay._sockets["udp4"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            if bench.bounds.questions:
                relay._loop.remove_reader(opened)
                client.sendto(b"noise", ("127.0.0.1", bench.port))
            client.sendto(QUERY, ("127.0.0.1", bench.port))
            if not bench.bounds.questions:
                await until(lambda: relay._engine.records.lost)

    late = Bench().run("udp4", act, socket.SOCK_DGRAM)
    assert [(r.name, r.why, r.response_code) for r in late.records] == [("a.example", "stopped", 2)]
    flooded = Bench(bounds=RelayBounds(questions=0)).run("udp4", act, socket.SOCK_DGRAM)
    assert flooded.lost == {"dns over_limit": 1}


def test_a_client_that_resets_is_recorded_with_what_the_kernel_said() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        client = await bench.client()
        await until(lambda: bench.servers)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await until(lambda: not relay._connections)

    (record,) = Bench().run("catch4", act).records
    assert (record.decision, record.hello, record.end) == ("relayed", "none", "Connection reset by peer")


def test_a_refused_client_that_says_nothing_is_cut_in_time() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        assert await bench.ask(b"") == b"<reset>"

    bench = Bench(policy=Policy(mode=Mode.NONE), bounds=RelayBounds(refused_seconds=0.01))
    (record,) = bench.run("catch4", act).records
    assert (record.decision, record.why, record.hello, record.end) == ("refused", "network_none", "none", "silent")


POST = b"POST /up HTTP/1.1\r\nHost: a.example\r\nContent-Length: 300000\r\n\r\n"


@pytest.mark.threat("R20")
def test_requests_that_are_relayed_are_read_besides_and_not_changed() -> None:
    sent = POST + b"x" * 300_000 + b"GET /next HTTP/1.1\r\nHost: a.example\r\n\r\n"

    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        loop, got = asyncio.get_running_loop(), b""
        asking = asyncio.create_task(bench.ask(sent))
        await until(lambda: bench.servers)
        while len(got) < len(sent):
            got += await loop.sock_recv(bench.servers[0], 65536)
        assert got == sent
        bench.servers[0].close()
        await asking

    (record,) = Bench().run("catch4", act).records
    upload, following = record.requests
    assert (record.decision, record.up_bytes) == ("relayed", len(sent))
    assert (upload.target, upload.body, upload.body_bytes) == ("/up", b"x" * 65536, 300_000)
    assert (following.target, following.complete) == ("/next", True)


@pytest.mark.threat("R20")
def test_an_upload_that_is_cut_leaves_what_it_has_sent() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        loop = asyncio.get_running_loop()
        asking = asyncio.create_task(bench.ask(POST + b"secret"))
        await until(lambda: bench.servers)
        assert await loop.sock_recv(bench.servers[0], 1000) == POST + b"secret"
        bench.servers[0].close()
        await asking

    (record,) = Bench().run("catch4", act).records
    (request,) = record.requests
    assert (request.body, request.body_bytes, request.complete, request.note) == (b"secret", 6, False, "ended")


def test_of_a_refused_request_as_much_is_read_as_its_first_bytes_hold() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        assert await bench.ask(POST + b"secret") == b"<reset>"

    (record,) = Bench(policy=Policy(mode=Mode.NONE)).run("catch4", act).records
    (request,) = record.requests
    assert (record.decision, request.target, request.complete) == ("refused", "/up", False)


def test_what_is_relayed_and_is_no_http_is_not_read() -> None:
    async def act(bench: Bench, relay: Relay) -> None:
        del relay
        asking = asyncio.create_task(bench.ask(b"\0ping"))
        await until(lambda: bench.servers)
        bench.servers[0].close()
        await asking

    (record,) = Bench().run("catch4", act).records
    assert record.requests == ()
