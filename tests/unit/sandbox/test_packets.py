import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.relay.packets import Attempt, parse_packet

SYN = b"\x30\x39\x01\xbb" + bytes(9) + b"\x02" + bytes(6)


def packet(destination: str, number: int, payload: bytes, *, options: int = 0, fragment: int = 0) -> bytes:
    address = ipaddress.ip_address(destination)
    if address.version == 6:
        return b"\x60" + bytes(5) + bytes([number, 64]) + bytes(16) + address.packed + payload
    head = bytes([0x45 + options]) + bytes(5) + fragment.to_bytes(2, "big") + bytes([64, number]) + bytes(6)
    return head + address.packed + bytes(4 * options) + payload


def udp(source: int, port: int, data: bytes = b"data") -> bytes:
    return source.to_bytes(2, "big") + port.to_bytes(2, "big") + bytes(4) + data


@pytest.mark.parametrize("address", ["8.8.8.8", "198.18.1.0", "2606:4700::1111", "169.254.169.254"])
def test_datagrams_and_first_packets_of_tcp_are_attempts(address: str) -> None:
    assert parse_packet(packet(address, 17, udp(999, 123))) == Attempt(
        protocol="udp", address=address, port=123, first=b"data"
    )
    assert parse_packet(packet(address, 6, SYN)) == Attempt(protocol="tcp", address=address, port=443)
    assert parse_packet(packet(address, 132, b"")) == Attempt(protocol="132", address=address, port=None)


def test_options_of_the_header_are_stepped_over() -> None:
    attempt = parse_packet(packet("8.8.8.8", 17, udp(999, 123), options=3))
    assert attempt == Attempt(protocol="udp", address="8.8.8.8", port=123, first=b"data")


@pytest.mark.parametrize(
    "data",
    [
        packet("127.0.0.1", 17, udp(1, 2)),
        packet("::1", 6, SYN),
        packet("8.8.8.8", 17, udp(1, 53)),
        packet("8.8.8.8", 17, udp(53, 1)),
        packet("8.8.8.8", 1, b"echo"),
        packet("2606:4700::1111", 58, b"neighbour"),
        packet("8.8.8.8", 6, SYN[:13] + b"\x12" + SYN[14:]),  # the answer
        packet("8.8.8.8", 6, SYN[:13] + b"\x10" + SYN[14:]),  # in the middle
        packet("8.8.8.8", 6, SYN[:13]),
        packet("8.8.8.8", 17, udp(1, 2), fragment=100),
        b"\x41" + packet("8.8.8.8", 17, udp(1, 2))[1:],  # a header of four bytes
        b"",
        b"\x45",
        b"\x60",
        b"\xf0" * 60,
    ],
)
def test_everything_else_is_none(data: bytes) -> None:
    assert parse_packet(data) is None


@given(st.sampled_from([b"\x45", b"\x4f", b"\x60", b""]), st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(version: bytes, data: bytes) -> None:
    attempt = parse_packet(version + data)
    assert attempt is None or len(attempt.first) <= 64


@pytest.mark.parametrize(("address", "number", "ask"), [("8.8.8.8", 1, 8), ("2606:4700::1111", 58, 128)])
def test_of_icmp_only_an_echo_is_an_attempt_the_rest_is_the_kernels_own_talk(
    address: str, number: int, ask: int
) -> None:
    echo = parse_packet(packet(address, number, bytes([ask]) + bytes(7) + b"hidden"))
    assert echo == Attempt(protocol="icmp", address=address, port=None, first=b"hidden")
    for kind in set(range(256)) - {ask}:
        assert parse_packet(packet(address, number, bytes([kind]) + bytes(7))) is None


def test_other_protocols_and_long_datagrams_keep_their_beginning() -> None:
    other = parse_packet(packet("8.8.8.8", 132, b"chunk"))
    long = parse_packet(packet("8.8.8.8", 17, udp(1, 2, b"x" * 2000)))
    assert other is not None
    assert long is not None
    assert (other.first, len(long.first)) == (b"chunk", 512)
