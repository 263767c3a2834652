import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.addresses import (
    ANYWHERE,
    NON_PUBLIC_V4,
    NON_PUBLIC_V6,
    Endpoint,
    is_host_name,
    is_public,
    parse_address,
    parse_endpoint,
    refusal,
)

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "151.101.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::8a",
    "::ffff:8.8.8.8",
    "168.63.129.15",
]
NOT_PUBLIC = [
    *("0.0.0.0", "10.1.2.3", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.31.0.1"),
    *("192.168.0.1", "192.0.0.192", "168.63.129.16", "198.18.0.1", "198.19.255.255", "224.0.0.1", "255.255.255.255"),
    *(
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::8.8.8.8",
        "64:ff9b::a9fe:a9fe",
    ),
    *("64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254"),
    *(
        "fd20:ce::254",
        "ff02::1",
        "4000::1",
        "3fff::1",
        "::ffff:0:127.0.0.1",
        "",
        "localhost",
        "1.2.3",
        "01.2.3.4",
        "\0",
    ),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)
    assert refusal([address]) is None


@pytest.mark.threat("R3")
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_private_loopback_metadata_and_translated_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert refusal([address]) is not None


@pytest.mark.threat("R3")
@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_public(given: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    address = parse_address(str(given))
    assert address is not None
    if any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast, address.is_reserved)):
        assert not is_public(str(given))


@pytest.mark.threat("R3")
@given(st.sampled_from((*NON_PUBLIC_V4, *NON_PUBLIC_V6)), st.data())
def test_no_address_of_a_listed_network_is_public_also_in_its_mapped_form(network: str, data: st.DataObject) -> None:
    parsed = ipaddress.ip_network(network)
    offset = data.draw(st.integers(0, parsed.num_addresses - 1))
    address = parsed[offset]
    if parse_address(str(address)) == address:  # ::/3 holds the mapped form of public IPv4 addresses
        assert not is_public(str(address))
    if address.version == 4:
        assert not is_public(f"::ffff:{address}")
        assert not is_public(f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1")


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(text: str) -> None:
    assert is_public(text) in (True, False)
    assert isinstance(refusal([text]), str | None)


@pytest.mark.threat("R3")
@given(st.lists(st.sampled_from(PUBLIC), max_size=5), st.sampled_from(NOT_PUBLIC), st.integers(0, 5))
def test_one_private_answer_among_public_ones_refuses_the_name(public: list[str], private: str, at: int) -> None:
    answers = [*public[:at], private, *public[at:]]
    assert refusal(answers) is not None


def test_no_answer_is_a_refusal() -> None:
    assert refusal([]) == "no_address"


def test_an_allowed_network_lets_its_addresses_through_and_no_other() -> None:
    allow = [ipaddress.ip_network("10.0.0.0/8")]
    assert refusal(["10.1.1.1"], allow) is None
    assert refusal(["10.1.1.1", "127.0.0.1"], allow) == "forbidden_address 127.0.0.1"
    assert refusal(["127.0.0.1", "fe80::1", "::1"], ANYWHERE) is None
    assert refusal(["nonsense"], ANYWHERE) == "not_an_address"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("registry.example:443", "registry.example", 443),
        ("Registry.EXAMPLE.:443", "registry.example", 443),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[2606:4700:0::1111]:65535", "2606:4700::1111", 65535),
        ("[::FFFF:8.8.8.8]:1", "8.8.8.8", 1),
        ("single:1", "single", 1),
        ("_srv.xn--bcher-kva.example:8443", "_srv.xn--bcher-kva.example", 8443),
    ],
)
def test_host_and_port_are_read(text: str, host: str, port: int) -> None:
    assert parse_endpoint(text) == Endpoint(host=host, port=port)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":",
            "a",
            "a:",
            ":1",
            "a:0",
            "a:65536",
            "a:01",
            "a:-1",
            "a: 1",
            "a:1 ",
            "a b:1",
            "a..b:1",
            "-a:1",
            "a-:1",
            "a:1:2",
        ),
        *(
            "[::1]",
            "[::1]:",
            "[::1:1",
            "::1:1",
            "[1.2.3.4]:1",
            "[fe80::1%0]:1",
            "[x]:1",
            "127.1:1",
            "0x7f.1:1",
            "2130706433:1",
        ),
        *("a.0x7f000001:1", "1.2.3.4%x:1", "bücher.example:1", "a\n:1", "a:1\n", "a:\u0661", "*.a:1", "a/b:1", "u@a:1"),
        *("x" * 64 + ":1", "a." * 127 + "a:1", "1.2.3.4.:1"),
    ],
)
def test_what_is_not_exactly_a_host_and_a_port_is_refused(text: str) -> None:
    assert parse_endpoint(text) is None


@given(st.text(alphabet="abAB01.-_:[]%x\n é", max_size=40) | st.text(max_size=40))
def test_whatever_is_read_as_an_endpoint_reads_the_same_again(text: str) -> None:
    endpoint = parse_endpoint(text)
    if endpoint is not None:
        again = f"[{endpoint.host}]:{endpoint.port}" if ":" in endpoint.host else f"{endpoint.host}:{endpoint.port}"
        assert parse_endpoint(again) == endpoint
        assert is_host_name(endpoint.host) or parse_address(endpoint.host) is not None
