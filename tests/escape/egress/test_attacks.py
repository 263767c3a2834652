import resource
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fumehood.sandbox.egress import Mode, Policy, Rule

if TYPE_CHECKING:
    from escape.egress.conftest import Hood

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("R3")]
PUBLIC = Rule(host="public.example", port=443)
ALLOW = Policy(mode=Mode.ALLOWLIST, rules=(PUBLIC,))
OPEN = Policy(mode=Mode.OPEN)
SMUGGLED = b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"


def client_hello(name: str) -> bytes:
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_hello_that_names_the_host_passes(hood: "Hood") -> None:
    hello = client_hello("public.example")
    done = hood.run(ALLOW, f"say(got=ask('public.example', 443, {hello!r}))")
    assert done.said["got"].startswith("outer:")
    assert hood.outer.received == [hello]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (client_hello("other.example"), "tls_name_differs"),
        (b"\x16\3\1\0\0", "tls_without_name"),
        (b"\x15\3\1\0\2\1\x5a" + client_hello("other.example"), "tls_without_name"),
        (SMUGGLED, "http_name_differs"),
        (b"\r\n" + SMUGGLED, "http_name_differs"),
        (SMUGGLED.replace(b"Host", b"Host: public.example\r\nHost"), "http_without_name"),
        (b"GET http://other.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n", "http_without_name"),
    ],
    ids=["tls", "malformed", "alert_first", "http", "empty_line", "two_hosts", "absolute"],
)
def test_a_hello_that_names_another_host_is_cut_before_a_byte_leaves(hood: "Hood", first: bytes, why: str) -> None:
    done = hood.run(ALLOW, f"say(got=ask('public.example', 443, {first!r}))")
    assert done.said == {"got": "ConnectionResetError"}
    assert b"".join(hood.outer.received) == b""
    (record,) = done.records("tcp", name="public.example")
    assert (record.decision, record.why, record.up_bytes) == ("refused", why, 0)
    assert record.first == first[:256]


@pytest.mark.parametrize("first", [client_hello("other.example"), SMUGGLED], ids=["tls", "http"])
def test_a_hello_in_many_pieces_cannot_slip_through(small: Callable[..., "Hood"], first: bytes) -> None:
    hood = small(first_reads=3)
    done = hood.run(
        ALLOW,
        f"hello = {first!r}\n"
        "with socket.create_connection(('public.example', 443)) as s:\n"
        "    s.setsockopt(6, 1, 1)\n"
        "    s.settimeout(20)\n"
        "    try:\n"
        "        for byte in hello: s.send(bytes([byte]))\n"
        "        end = s.recv(100)\n"
        "    except OSError as error: end = type(error).__name__\n"
        "say(end=str(end))",
    )
    assert done.said["end"] in {"ConnectionResetError", "BrokenPipeError"}
    assert b"".join(hood.outer.received) == b""


def test_a_client_that_never_finishes_its_hello_is_cut(small: Callable[..., "Hood"]) -> None:
    hood = small(first_seconds=0.2)
    done = hood.run(ALLOW, "say(got=ask('public.example', 443, b'\\x16\\3\\1\\2\\0'))")
    assert done.said == {"got": "ConnectionResetError"}
    assert b"".join(hood.outer.received) == b""
    (record,) = done.records("tcp", name="public.example")
    assert (record.why, record.hello) == ("hello_incomplete", "partial")


def test_a_client_that_ends_in_the_middle_of_its_hello_is_cut(hood: "Hood") -> None:
    done = hood.run(
        ALLOW,
        "s = socket.create_connection(('public.example', 443)); s.sendall(b'GET / HT'); s.shutdown(socket.SHUT_WR)\n"
        "try: end = s.recv(10)\n"
        "except OSError as error: end = type(error).__name__\n"
        "say(end=str(end))",
    )
    assert done.said == {"end": "ConnectionResetError"}
    assert b"".join(hood.outer.received) == b""


def test_in_open_another_name_is_relayed_and_noted(hood: "Hood") -> None:
    done = hood.run(OPEN, "say(got=get('public.example', 80, 'other.example'))")
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    (record,) = done.records("tcp", name="public.example")
    assert (record.decision, record.server_name, record.note) == ("relayed", "other.example", "http_name_differs")


def test_a_server_that_speaks_first_is_heard_before_the_client_says_a_word(hood: "Hood") -> None:
    hood.outer.greeting = b"220 ready\r\n"
    done = hood.run(
        ALLOW,
        "with socket.create_connection(('public.example', 443)) as s:\n"
        "    s.settimeout(10); first = s.recv(100); s.sendall(b'EHLO a\\r\\n'); rest = s.recv(100)\n"
        "say(first=first.decode(), rest=rest.decode())",
    )
    assert done.said == {"first": "220 ready\r\n", "rest": "outer:EHLO a"}
    (record,) = done.records("tcp", name="public.example")
    assert (record.decision, record.hello) == ("relayed", "other")


def test_a_half_open_client_still_gets_its_answer(hood: "Hood") -> None:
    done = hood.run(
        ALLOW,
        "s = socket.create_connection(('public.example', 443)); s.settimeout(10)\n"
        "s.sendall(b'\\0\\0\\0\\1'); s.shutdown(socket.SHUT_WR)\n"
        "say(got=s.recv(100).decode('latin-1'))",
    )
    assert done.said["got"].startswith("outer:")


def test_a_thousand_connections_at_once_are_bounded_and_names_are_still_answered(small: Callable[..., "Hood"]) -> None:
    hood = small(dial_seconds=60, dial_each_seconds=60)  # a busy machine is no subject of this test
    done = hood.run(
        ALLOW,
        "address = look('public.example')[0]\n"
        "held, end = [], 0\n"
        "for _ in range(1000):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex((address, 443)); held.append(s)\n"
        "while (name := look('later.example')) == 'gaierror': pass\n"
        "end = time.monotonic() + 20\n"
        "def is_alive(s):\n"
        "    try: s.recv(1)\n"
        "    except BlockingIOError: return True\n"
        "    except OSError: return False\n"
        "while len(held) > 256 and time.monotonic() < end: held = [s for s in held if is_alive(s)]\n"
        "say(alive=len(held), name=name)",
    )
    assert done.said == {"alive": 256, "name": ["198.18.1.1"]}
    refused = done.records("tcp", why="too_many_connections")
    assert len(refused) + done.report.lost.get("tcp refused", 0) == 744
    assert len(hood.outer.dialled) == 256


def test_when_our_own_descriptors_run_out_the_engine_rests_and_serves_again(hood: "Hood") -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave_few() -> None:
        open_now = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 60, hard))

    hood.at_release = leave_few
    try:
        done = hood.run(
            ALLOW,
            "address = look('public.example')[0]\n"
            "held = []\n"
            "for _ in range(300):\n"
            "    s = socket.socket(); s.setblocking(False); s.connect_ex((address, 443)); held.append(s)\n"
            "while look('later.example') == 'gaierror': pass\n"
            "for s in held: s.close()\n"
            "end = time.monotonic() + 30\n"
            "got = ''\n"
            "while not got.startswith('outer') and time.monotonic() < end: got = get('public.example', 443)\n"
            "say(got=got)",
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    assert done.report.lost["tcp not_accepted"] > 0


def test_a_flood_of_questions_hides_no_later_connection(small: Callable[..., "Hood"]) -> None:
    hood = small(records=50, zones=50)
    done = hood.run(
        ALLOW,
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for n in range(3000):\n"
        "    label = b'x%04d' % n\n"
        "    q = n.to_bytes(2, 'big') + bytes.fromhex('01000001000000000000')\n"
        "    s.sendto(q + bytes([len(label)]) + label + b'\\x07example\\0\\0\\1\\0\\1', ('127.0.0.1', 53))\n"
        "q = b'\\xff\\xff' + bytes.fromhex('01000001000000000000') + b'\\x06public\\x07example\\0\\0\\1\\0\\1'\n"
        "answer, end = b'', time.monotonic() + 20\n"
        "s.settimeout(0.2)\n"
        "while answer[:2] != q[:2] and time.monotonic() < end:\n"
        "    s.sendto(q, ('127.0.0.1', 53))\n"
        "    try: answer = s.recv(512)\n"
        "    except TimeoutError: pass\n"
        "say(got=get('public.example', 443), other=get('other.example', 443))",
    )
    assert done.said["got"] == "outer:GET / HTTP/1.1"
    assert done.records("dns", name="public.example", why="listed")
    assert done.records("tcp", name="other.example", decision="refused")
    assert len(done.records("dns")) <= 4 * 100 + 50


def test_a_flood_of_datagrams_hides_no_later_attempt_of_a_connection(small: Callable[..., "Hood"]) -> None:
    hood = small(records=50, packets=100)
    done = hood.run(
        ALLOW,
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for n in range(20000): s.sendto(b'x' * 1000, ('8.8.%d.%d' % (n >> 8, n & 255), 999))\n"
        "say(got=ask('1.1.1.1', 443))",
    )
    assert done.said == {"got": "ConnectionRefusedError"}
    assert done.records("packet", protocol="tcp", address="1.1.1.1", port=443, why="refused_by_kernel")
    assert len(done.records("packet", why="not_relayed")) == 100


def test_names_run_out_and_the_engine_goes_on(small: Callable[..., "Hood"]) -> None:
    hood = small(names=20)
    done = hood.run(
        ALLOW,
        "first = look('public.example')\n"
        "many = [look(f'x{n}.example') for n in range(40)]\n"
        "say(first=first, failed=many.count('gaierror'), got=get('public.example', 443))",
    )
    assert done.said == {"first": ["198.18.1.0"], "failed": 21, "got": "outer:GET / HTTP/1.1"}
    assert done.records("dns", why="too_many_names")


def test_bytes_of_all_connections_together_are_capped_in_both_directions(small: Callable[..., "Hood"]) -> None:
    down = small(down_bytes=10).run(ALLOW, "say(got=get('public.example', 443))")
    assert down.said == {"got": "ConnectionResetError"}
    assert down.records("tcp", name="public.example")[0].end == "down_limit"
    hood = small(up_bytes=10)
    hood.outer.received.clear()
    up = hood.run(ALLOW, "say(got=get('public.example', 443))")
    assert up.said == {"got": "ConnectionResetError"}
    assert b"".join(hood.outer.received) == b""
    assert up.records("tcp", name="public.example")[0].end == "up_limit"


def test_a_target_that_fires_and_exits_at_once_leaves_its_attempt_behind(hood: "Hood") -> None:
    program = (
        "import os\n"
        "address = look('other.example')[0]\n"
        "say()\n"
        "sys.stdout.flush()\n"
        "s = socket.socket(); s.connect((address, 443)); s.send(b'beacon')\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'beacon', ('8.8.4.4', 123))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = hood.run(ALLOW, program)
    assert [r.first for r in done.records("tcp", name="other.example")] == [b"beacon"]
    assert [r.first for r in done.records("packet", protocol="udp")] == [b"beacon"]


def test_a_target_cannot_take_the_ports_of_the_engine(hood: "Hood") -> None:
    done = hood.run(
        ALLOW,
        "said = []\n"
        "for port in (1, 53, 443):\n"
        "    with socket.socket() as s:\n"
        "        try: s.bind(('198.18.1.0', port)); said.append('bound')\n"
        "        except OSError as error: said.append(type(error).__name__)\n"
        "say(said=said)",
    )
    assert set(done.said["said"]) <= {"PermissionError", "OSError"}


def test_the_catch_all_port_itself_leads_nowhere(hood: "Hood") -> None:
    done = hood.run(OPEN, "say(got=get('127.0.0.1', 1), pool=get('198.18.0.7', 80))")
    assert done.said["got"] == "ConnectionResetError"
    assert done.said["pool"] in {"ConnectionResetError", "ConnectionRefusedError"}
    assert hood.outer.dialled == []
