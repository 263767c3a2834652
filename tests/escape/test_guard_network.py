"""A guarded server reaches the hosts that its policy names and no other; every address of a name is judged."""

import asyncio
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Outer, left_below
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.gateway.audit.calls import Caller
from fumehood.gateway.guard import policy, run
from fumehood.gateway.guard.clientend import ClientEnd
from fumehood.gateway.guard.listing import accept_all
from fumehood.gateway.guard.record import Calls
from fumehood.gateway.guard.traffic import Traffic
from fumehood.gateway.guard.walls import Ready
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.runs import open_run
from fumehood.sandbox.spec import Bind
from fumehood.wire.descriptors import Wire

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G2")]
SERVER = Path(__file__).parents[1] / "fixtures" / "guarded" / "server.py"
PUBLIC, PRIVATE = "203.0.114.7", "10.9.8.7"
NAMES = {
    "named.example": [PUBLIC],
    "other.example": [PUBLIC],
    "inner.example": [PRIVATE],
    "both.example": [PUBLIC, PRIVATE],
    "loop.example": ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"],
}


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(f"/var/tmp/fumehood-guardnet-{os.getuid()}-{os.getpid()}")
    (made / "runs").mkdir(parents=True)
    (made / "runs").chmod(0o711)
    made.chmod(0o755)
    Path(shutil.copy(SERVER, made / "server.py")).chmod(0o644)
    yield made
    assert left_below(made / "runs") == []
    shutil.rmtree(made)


@pytest.fixture
def outer() -> Iterator[Outer]:
    """An outer world in which every address is one service on loopback that says who it is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    opened, _ = listening.accept()
                except OSError:
                    return
                with opened:
                    opened.recv(1000)
                    opened.sendall(b"HTTP/1.0 200 OK\r\n\r\nthe outer world")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Outer(names=NAMES, port=listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def attempts(place: Path, outer: Outer, text: str, *wheres: str) -> tuple[list[str], list[str]]:
    """What the server says of each connection under this policy; and what was said on stderr."""
    host = probe.probe_host({}, quick=True, run_root=place / "runs")
    inward, outward = os.pipe(), os.pipe()
    asked: list[dict[str, Any]] = [{"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}]
    for number, where in enumerate(wheres, start=1):
        params = {"name": "attempt", "arguments": {"what": "connect", "argument": where}}
        asked.append({"id": number, "method": "tools/call", "params": params})
    os.write(inward[1], b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in asked))
    os.close(inward[1])
    said: list[str] = []
    traffic = Traffic(
        Controls(key=b"k" * 32, line_characters=limits.FRAME_BYTES),
        accept_all,
        Calls(Caller(source="guard", who="uid:0", run="0" * 16), SystemClock().monotonic),
    )
    server = str(place / "server.py")
    with open_run(host, once=True) as taken:
        session = run.Session(
            ready=Ready(
                argv=("/usr/bin/python3", server),
                policy=policy.parse(text, "policy"),
                binds=(Bind(source=Path(server), target=server),),
            ),
            host=host,
            run=taken,
            client=ClientEnd(Wire(reading=inward[0], writing=outward[1])),
            traffic=traffic,
            audit=None,
            clock=SystemClock(),
            world=outer.world,
            say=said.append,
        )
        assert asyncio.run(run.guard(session)) == 0
    session.client.close()
    with os.fdopen(outward[0], encoding="utf-8") as lines:
        answers = {one["id"]: one for one in map(json.loads, lines)}
    texts = [answers[number]["result"]["structuredContent"]["text"] for number in range(1, len(wheres) + 1)]
    return texts, said


def test_a_listed_host_is_reached_and_no_other_host_port_or_address(place: Path, outer: Outer) -> None:
    found, _ = attempts(
        place,
        outer,
        'allow_net = ["named.example:80"]',
        "named.example:80",
        "named.example:81",
        "other.example:80",
        f"{PUBLIC}:80",
        f"{PRIVATE}:80",
    )
    assert "the outer world" in found[0]
    assert [text for text in found[1:] if "the outer world" in text] == []
    assert len(outer.dialled) == 1


def test_a_name_that_leads_inside_is_refused_unless_it_is_listed_as_private(place: Path, outer: Outer) -> None:
    wheres = ("inner.example:80", "both.example:80")
    found, _ = attempts(place, outer, 'allow_net = ["inner.example:80", "both.example:80"]', *wheres)
    assert [text for text in found if "the outer world" in text] == []
    assert outer.dialled == []
    found, _ = attempts(place, outer, 'allow_private_net = ["inner.example:80"]', "inner.example:80")
    assert "the outer world" in found[0]


def test_a_name_that_is_listed_as_private_never_leads_to_loopback(place: Path, outer: Outer) -> None:
    found, _ = attempts(place, outer, 'allow_private_net = ["loop.example:80"]', "loop.example:80")
    assert "the outer world" not in found[0]
    assert outer.dialled == []


def test_an_address_is_taken_as_it_is_written(place: Path, outer: Outer) -> None:
    found, _ = attempts(
        place, outer, f'allow_net = ["{PRIVATE}:80"]', f"{PRIVATE}:80", f"{PRIVATE}:81", "inner.example:80"
    )
    assert "the outer world" in found[0]
    assert [text for text in found[1:] if "the outer world" in text] == []


def test_without_a_policy_nothing_is_reached(place: Path, outer: Outer) -> None:
    found, _ = attempts(place, outer, "", "named.example:80", f"{PUBLIC}:80")
    assert [text for text in found if "the outer world" in text] == []
    assert (outer.asked, outer.dialled) == ([], [])
