from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fumehood.sandbox.egress import Mode, Policy, Rule

if TYPE_CHECKING:
    from escape.egress.conftest import Hood

pytestmark = [pytest.mark.sandbox]
ALLOW = Policy(mode=Mode.ALLOWLIST, rules=(Rule(host="public.example", port=80), Rule(host="93.184.216.77", port=80)))
OPEN = Policy(mode=Mode.OPEN)
NONE = Policy()


def test_a_listed_host_is_reached_by_its_name(hood: "Hood") -> None:
    done = hood.run(ALLOW, "say(got=get('public.example', 80))")
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    assert hood.outer.dialled == [("93.184.216.34", 80)]
    (record,) = done.records("tcp", decision="relayed")
    assert (record.name, record.port, record.peer) == ("public.example", 80, "93.184.216.34")
    assert (record.hello, record.server_name, record.request_line) == ("http", "public.example", "GET / HTTP/1.1")
    assert (record.end, record.down_bytes) == ("closed", len("outer:GET / HTTP/1.1"))
    assert done.records("dns", name="public.example", decision="answered", why="listed")
    assert done.notes == ()


def test_a_listed_address_is_reached_without_a_name(hood: "Hood") -> None:
    done = hood.run(ALLOW, "say(got=get('93.184.216.77', 80))")
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    assert hood.outer.dialled == [("93.184.216.77", 80)]


@pytest.mark.threat("R3")
def test_a_host_that_is_not_listed_is_reset_and_what_it_was_to_be_told_is_recorded(hood: "Hood") -> None:
    done = hood.run(ALLOW, "say(got=get('other.example', 80), port=get('public.example', 81))")
    assert done.said == {"got": "ConnectionResetError", "port": "ConnectionResetError"}
    assert hood.outer.dialled == []
    assert hood.outer.asked == []
    for name, port in (("other.example", 80), ("public.example", 81)):
        (record,) = done.records("tcp", name=name)
        assert (record.decision, record.why, record.port) == ("refused", "not_listed", port)
        assert (record.first.split(b"\r\n")[0], record.server_name) == (b"GET / HTTP/1.1", name)


@pytest.mark.threat("R3")
@pytest.mark.parametrize("policy", [ALLOW, NONE], ids=["allowlist", "none"])
def test_a_raw_address_is_refused_by_the_kernel_and_recorded(hood: "Hood", policy: Policy) -> None:
    program = "say(four=ask('1.1.1.1', 443, b'x'), six=ask('2606:4700::1111', 443, b'x', socket.AF_INET6))"
    done = hood.run(policy, program)
    assert done.said == {"four": "ConnectionRefusedError", "six": "ConnectionRefusedError"}
    assert hood.outer.dialled == []
    assert [(r.address, r.port) for r in done.records("packet", protocol="tcp")] == [
        ("1.1.1.1", 443),
        ("2606:4700::1111", 443),
    ]


@pytest.mark.threat("R3")
def test_in_none_no_name_exists_and_the_question_is_recorded(hood: "Hood") -> None:
    done = hood.run(NONE, "say(got=look('public.example'), own=look('localhost'))")
    assert done.said == {"got": "gaierror", "own": ["127.0.0.1"]}
    assert hood.outer.asked == []
    assert {r.query_type for r in done.records("dns", name="public.example", response_code=3)} >= {1}


def test_in_open_names_and_raw_addresses_are_relayed_and_recorded(hood: "Hood") -> None:
    done = hood.run(
        OPEN,
        "say(name=get('public.example', 8080), raw=get('93.184.216.50', 81), gone=look('absent.example'),"
        " six=ask('2606:4700::1111', 82, b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', socket.AF_INET6),"
        " far=get('six.example', 83))",
    )
    answer = "outer:GET / HTTP/1.1"
    assert done.said == {"name": answer, "raw": answer, "six": answer, "far": answer, "gone": "gaierror"}
    assert hood.outer.dialled == [
        ("93.184.216.34", 8080),
        ("93.184.216.50", 81),
        ("2606:4700::1111", 82),
        ("2606:4700::1111", 83),
    ]
    assert {(r.name, r.address if r.name is None else None) for r in done.records("tcp", decision="relayed")} == {
        ("public.example", None),
        (None, "93.184.216.50"),
        (None, "2606:4700::1111"),
        ("six.example", None),
    }
    assert done.records("dns", name="absent.example", response_code=3)


@pytest.mark.threat("R3")
@pytest.mark.parametrize(
    ("name", "why", "peer"),
    [
        ("private.example", "forbidden_address", "10.0.0.1"),
        ("metadata.example", "forbidden_address", "169.254.169.254"),
        ("rebinding.example", "forbidden_address", "127.0.0.1"),
        ("own.example", "own_address", "93.184.216.99"),
    ],
)
def test_a_name_with_an_address_that_is_not_public_is_refused(hood: "Hood", name: str, why: str, peer: str) -> None:
    listed = Policy(mode=Mode.ALLOWLIST, rules=(Rule(host=name, port=80),))
    for policy in (OPEN, listed):
        done = hood.run(policy, f"say(got=get('{name}', 80))")
        assert done.said == {"got": "ConnectionResetError"}
        (record,) = done.records("tcp", name=name)
        assert (record.decision, record.why, record.peer) == ("refused", why, peer)
        assert record.request_line == "GET / HTTP/1.1"
    assert hood.outer.dialled == []


@pytest.mark.threat("R3")
def test_metadata_and_private_addresses_are_refused_by_the_kernel_in_open(hood: "Hood") -> None:
    done = hood.run(
        OPEN,
        "four = ['169.254.169.254', '10.0.0.1', '192.168.1.1', '172.16.0.1', '100.100.100.200', '168.63.129.16']\n"
        "six = ['fd00:ec2::254', 'fe80::1%lo', '64:ff9b::a9fe:a9fe', '2002:a9fe:a9fe::1', '::ffff:169.254.169.254']\n"
        "say(four=[get(a, 80) for a in four], six=[ask(a, 80, b'x', socket.AF_INET6) for a in six])",
    )
    assert set(done.said["four"]) == {"ConnectionRefusedError"}
    assert not any(answer.startswith("outer") for answer in done.said["six"])
    assert hood.outer.dialled == []
    refused = {r.address for r in done.records("packet", protocol="tcp", port=80)}
    assert refused >= {"169.254.169.254", "10.0.0.1", "168.63.129.16", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"}


def test_an_operators_rule_may_lead_to_a_private_address_by_pin_or_by_name(hood: "Hood") -> None:
    rules = (
        Rule(host="registry.example", port=4873, operator=True, pins=("127.0.0.1",)),
        Rule(host="private.example", port=80, operator=True),
    )
    for mode in (Mode.ALLOWLIST, Mode.OPEN):
        hood.outer.dialled.clear()
        hood.outer.asked.clear()
        done = hood.run(
            Policy(mode=mode, rules=rules),
            "say(pinned=get('registry.example', 4873, 'registry.example:4873'), named=get('private.example', 80))",
        )
        assert done.said == {"pinned": "outer:GET / HTTP/1.1", "named": "outer:GET / HTTP/1.1"}
        assert hood.outer.dialled == [("127.0.0.1", 4873), ("10.0.0.1", 80)]
        assert "registry.example" not in hood.outer.asked


def test_datagrams_are_recorded_with_their_true_addresses_and_first_bytes(hood: "Hood") -> None:
    done = hood.run(
        OPEN,
        "for address, family in (('8.8.4.4', socket.AF_INET), ('2606:4700::1111', socket.AF_INET6)):\n"
        "    socket.socket(family, socket.SOCK_DGRAM).sendto(b'beacon', (address, 123))\n"
        "say()",
    )
    assert [(r.address, r.port, r.first) for r in done.records("packet", protocol="udp")] == [
        ("8.8.4.4", 123, b"beacon"),
        ("2606:4700::1111", 123, b"beacon"),
    ]


def test_dns_answers_from_whatever_server_was_asked_over_udp_and_tcp(hood: "Hood") -> None:
    done = hood.run(
        ALLOW,
        "q = bytes.fromhex('abcd01000001000000000000') + b'\\x06public\\x07example\\0\\0\\1\\0\\1'\n"
        "said = []\n"
        "for family, server in ((socket.AF_INET, '8.8.8.8'), (socket.AF_INET6, '2001:4860:4860::8888')):\n"
        "    with socket.socket(family, socket.SOCK_DGRAM) as s:\n"
        "        s.settimeout(10); s.connect((server, 53)); s.send(q); said.append(s.recv(512)[-4:].hex())\n"
        "    with socket.socket(family) as s:\n"
        "        s.settimeout(10); s.connect((server, 53)); s.sendall(len(q).to_bytes(2, 'big') + q)\n"
        "        said.append(s.recv(512)[-4:].hex())\n"
        "say(said=said)",
    )
    assert done.said == {"said": ["c6120100"] * 4}
    assert [(r.protocol, r.peer) for r in done.records("dns", name="public.example")] == [
        ("udp", "8.8.8.8"),
        ("tcp", "8.8.8.8"),
        ("udp", "2001:4860:4860::8888"),
        ("tcp", "2001:4860:4860::8888"),
    ]


def test_without_nft_listed_ports_are_served_and_the_rest_is_recorded(hood: "Hood") -> None:
    hood.nft = None
    program = "say(got=get('public.example', 80), other=get('public.example', 81), raw=get('1.1.1.1', 443))"
    done = hood.run(ALLOW, program)
    refused = "ConnectionRefusedError"
    assert done.said == {"got": "outer:GET / HTTP/1.1", "other": refused, "raw": refused}
    assert done.notes == ("no redirect, listening on ports [80] only: no nft",)
    assert {(r.address, r.port) for r in done.records("packet")} == {("198.18.1.0", 81), ("1.1.1.1", 443)}
    opened = hood.run(OPEN, program)
    assert opened.said == {"got": "outer:GET / HTTP/1.1", "other": refused, "raw": "outer:GET / HTTP/1.1"}


def test_an_nft_that_fails_is_noted_with_what_it_said(hood: "Hood") -> None:
    hood.nft = Path("/bin/false")
    done = hood.run(ALLOW, "say(got=get('public.example', 80))")
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    assert done.notes[0].startswith("no redirect, listening on ports [80] only: nft ended with")
