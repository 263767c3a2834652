"""Where connections lead: names, addresses, TLS, and nothing of the environment."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.address import UnreachableError, Way
from fumehood.gateway.upstreams.remote.place import read_place
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import World
from loopback.remotes import Asked, Reached, hostile, modern

pytestmark = pytest.mark.threat("G9")

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PUBLIC = "93.184.216.34"


class Outer:
    """An outer network in which nothing is dialled: names with answers, and what was tried."""

    def __init__(self, *answers: Iterable[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, bool]] = []
        self.dialled: list[tuple[str, int]] = []
        self.own: set[str] = set()
        self.seconds = 0.0
        self.world = World(resolver=self.resolve, connect=self.connect, is_own=self.own.__contains__, clock=self)

    def resolve(self, name: str, *, absolute: bool) -> Iterable[str]:
        self.asked.append((name, absolute))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        ours, theirs = socket.socketpair()
        theirs.close()
        ours.settimeout(0)
        return ours

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)


def way(outer: Outer, url: str = "https://mcp.example/x", *, private: bool = False) -> Way:
    return Way(read_place(url, allow_private=private), outer.world)


def refused(run: Run, outer: Outer, **more: Any) -> str:
    with pytest.raises(UnreachableError) as told:
        run(way(outer, **more).connect())
    assert outer.dialled == []
    return str(told.value)


def test_the_address_that_was_judged_is_dialled(run: Run) -> None:
    outer = Outer([PUBLIC])
    run(way(outer).connect()).close()
    assert outer.asked == [("mcp.example", True)]
    assert outer.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize("bad", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"])
def test_one_private_address_among_public_ones_refuses_the_name(bad: str, run: Run) -> None:
    assert "not dialled" in refused(run, Outer([PUBLIC, bad]))


def test_a_name_that_resolves_otherwise_after_the_check_gains_nothing(run: Run) -> None:
    outer = Outer([PUBLIC], ["127.0.0.1"])
    way_there = way(outer)

    async def test() -> None:
        (await way_there.connect()).close()
        outer.seconds += limits.REMOTE_ADDRESSES_SECONDS
        await way_there.connect()

    with pytest.raises(UnreachableError, match="not dialled"):
        run(test())
    assert outer.dialled == [(PUBLIC, 443)]
    assert len(outer.asked) == 2


def test_a_burst_of_connections_is_one_lookup(run: Run) -> None:
    outer = Outer([PUBLIC])
    way_there = way(outer)

    async def test() -> None:
        for opened in await asyncio.gather(*(way_there.connect() for _ in range(8))):
            opened.close()

    run(test())
    assert len(outer.asked) == 1
    assert len(outer.dialled) == 8


def test_an_address_of_this_host_is_dialled_where_it_is_allowed_only(run: Run) -> None:
    outer = Outer([PUBLIC])
    outer.own.add(PUBLIC)
    assert "one of this host" in refused(run, outer)
    run(way(outer, private=True).connect()).close()
    assert outer.dialled == [(PUBLIC, 443)]


def test_a_private_server_is_dialled_where_it_is_allowed_and_metadata_never(run: Run) -> None:
    outer = Outer(["10.0.0.1"])
    run(way(outer, private=True).connect()).close()
    assert outer.asked == [("mcp.example", False)]
    assert outer.dialled == [("10.0.0.1", 443)]
    assert "not dialled" in refused(run, Outer(["10.0.0.1", "169.254.169.254"]), private=True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), "does not exist"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "could not be resolved"),
        ([], "has no address"),
        (["words of a resolver"], "an address that is none"),
    ],
)
def test_a_name_without_an_answer_says_why(answer: Any, words: str, run: Run) -> None:
    assert words in refused(run, Outer(answer))


def test_a_lookup_that_hangs_is_given_up_and_shared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    started: list[str] = []

    def hangs(name: str, *, absolute: bool) -> list[str]:  # noqa: ARG001 - a resolver
        started.append(name)
        release.wait(60)
        return [PUBLIC]

    short = RelayBounds(resolve_seconds=0.05)
    monkeypatch.setattr("fumehood.gateway.upstreams.remote.address.RelayBounds", lambda: short)
    outer = Outer([PUBLIC])
    way_there = Way(read_place("https://mcp.example/"), replace(outer.world, resolver=hangs))

    async def test() -> None:
        for _ in range(3):
            with pytest.raises(UnreachableError, match="in time"):
                await way_there.connect()

    try:
        run(test())
    finally:
        release.set()
    assert started == ["mcp.example"]


def test_who_refuses_a_connection_was_not_reached(reach: Callable[[], Reached], run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def test() -> None:
        async with reach()(port):
            pass

    with pytest.raises(UnreachableError, match="not reached"):
        run(test())


async def fine(asked: Asked) -> None:
    if not await modern(asked):
        await asked.result({"fine": True})


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_no_proxy_of_the_environment_is_asked(
    name: str, reach: Callable[[], Reached], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> int:
        async with hostile(fine) as proxy, hostile(fine) as served:
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            async with reach()(served.port) as connection:
                assert await connection.ask("x", {}, seconds=30) == {"fine": True}
            return proxy.connections

    assert run(test()) == 0


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a server")])
    now = dt.datetime.now(dt.UTC)
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    built = built.not_valid_before(now).not_valid_after(now + dt.timedelta(days=1)).add_extension(own, critical=False)
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[0].write_bytes(built.sign(key, hashes.SHA256()).public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    return files


def over_tls(pair: tuple[Path, Path], reached: Reached, host: str = "127.0.0.1") -> tuple[Any, list[Asked]]:
    async def test() -> tuple[Any, list[Asked]]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        async with hostile(fine, context) as served:
            try:
                async with asyncio.timeout(30), reached(served.port, scheme="https", host=host) as connection:
                    return await connection.ask("x", {}, seconds=30), served.asked
            except UpstreamError as error:
                return str(error), served.asked

    return asyncio.run(test())


def test_a_certificate_of_the_operators_file_is_taken(pair: tuple[Path, Path], reach: Callable[[], Reached]) -> None:
    reached = reach()
    reached.ca_file = pair[0]
    result, asked = over_tls(pair, reached)
    assert result == {"fine": True}
    assert len(asked) == 2


def test_a_certificate_that_nobody_trusts_is_refused_before_anything_is_sent(
    pair: tuple[Path, Path], reach: Callable[[], Reached]
) -> None:
    words, asked = over_tls(pair, reach())
    assert "not trusted" in words
    assert asked == []


def test_a_certificate_for_another_name_is_refused(pair: tuple[Path, Path], reach: Callable[[], Reached]) -> None:
    reached = reach()
    reached.ca_file = pair[0]
    reached.world = World(resolver=lambda name, *, absolute: ["127.0.0.1"])  # noqa: ARG005 - a resolver
    words, asked = over_tls(pair, reached, host="localhost")
    assert "not trusted" in words
    assert asked == []


def test_a_server_that_speaks_no_tls_is_not_spoken_to_in_plain(
    reach: Callable[[], Reached], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fumehood.core.limits.REMOTE_CONNECT_SECONDS", 0.2)

    async def test() -> int:
        async with hostile(fine) as served:
            with pytest.raises(UnreachableError, match="TLS"):
                async with reach()(served.port, scheme="https"):
                    pass
            return len(served.asked)

    assert run(test()) == 0


def test_a_file_without_certificates_is_refused_at_the_start(tmp_path: Path, reach: Callable[[], Reached]) -> None:
    reached = reach()
    reached.ca_file = tmp_path / "not there"
    with pytest.raises(RefusedError, match="certificates"):
        reached(1)


def test_keys_of_connections_are_written_nowhere(
    pair: tuple[Path, Path], reach: Callable[[], Reached], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    reached = reach()
    reached.ca_file = pair[0]
    assert over_tls(pair, reached)[0] == {"fine": True}
    assert not (tmp_path / "keys").exists()
