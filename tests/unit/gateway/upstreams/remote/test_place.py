"""Which URLs name a server, and which addresses are dialled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.addresses import NON_PUBLIC_V4, is_public
from fumehood.core.errors import RefusedError
from fumehood.gateway.upstreams.remote.place import HOUSE, MACHINE, NOTHING, judge, origin_of, read_place


@pytest.mark.parametrize(
    ("url", "origin", "host", "target"),
    [
        ("https://Example.com/mcp", "https://example.com", "example.com", "/mcp"),
        ("https://example.com", "https://example.com", "example.com", "/"),
        ("https://example.com:443?a=b%20", "https://example.com", "example.com", "/?a=b%20"),
        ("https://example.com.:8443/a/?x", "https://example.com:8443", "example.com", "/a/?x"),
        ("https://1.1.1.1/mcp", "https://1.1.1.1", "1.1.1.1", "/mcp"),
        ("https://[2606:4700:0::1111]:99/", "https://[2606:4700::1111]:99", "2606:4700::1111", "/"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]", "2606:4700::1111", "/"),
    ],
)
def test_a_url_is_read_as_it_will_be_sent(url: str, origin: str, host: str, target: str) -> None:
    place = read_place(url)
    assert (place.origin, place.host, place.target) == (origin, host, target)


@pytest.mark.threat("G9")
@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "example.com",
            "ftp://example.com/",
            "https://",
            "https:///mcp",
            "HTTPS://example.com/",
            "//example.com/",
        ),
        *("https://user@example.com/", "https://user:pw@example.com/", "https://example.com/#part"),
        *("https://example.com\\@evil.example/", "https://exa mple.com/", "https://example.com/ HTTP/1.1"),
        *("https://example.com/\r\nHost: x", "https://example.com/\n", "https://exämple.com/", "https://example.com/ä"),
        *(
            "https://127.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://example.com:0/",
            "https://example.com:/",
        ),
        *("https://example.com:99999/", "https://[::1/", "https://::1/", "https://[1.1.1.1]/", "https://[]/"),
        *("https://[fe80::1%25eth0]/", "https://a:b:c/", "https://example..com/", "https://example.com/" + "x" * 2000),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(RefusedError, match="url"):
        read_place(url, allow_private=True)


@pytest.mark.threat("G9")
def test_only_a_private_server_is_spoken_to_without_tls() -> None:
    with pytest.raises(RefusedError, match="not encrypted"):
        read_place("http://example.com/")
    assert read_place("http://example.com/", allow_private=True).origin == "http://example.com"


@pytest.mark.threat("G9")
@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.0.1", "169.254.169.254", "fd00::1"])
def test_an_address_that_is_not_public_is_refused_at_the_start(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(RefusedError, match="not dialled"):
        read_place(f"https://{host}/")
    with pytest.raises(RefusedError, match="not dialled"):
        read_place(f"https://[::ffff:{address}]/" if ":" not in address else f"https://{host}/")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://[::1]/", "http://localhost/", "http://a.localhost/"])
def test_a_url_that_names_this_machine_leads_there_and_nowhere_else(url: str) -> None:
    place = read_place(url)
    assert place.allowed == MACHINE
    assert judge(["127.0.0.1", "::1"], place.allowed) is None
    assert "not a public address" in str(judge(["127.0.0.1", "10.0.0.1"], place.allowed))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "100.64.0.1", "::1", "fd00::1", "1.1.1.1"])
def test_networks_of_a_house_are_dialled_where_they_are_allowed(address: str) -> None:
    assert judge([address], HOUSE) is None


@pytest.mark.threat("G9")
@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "168.63.129.16", "192.0.0.192", "100.100.100.200"),
        *("fd00:ec2::254", "fd20:ce::254", "fe80::1", "0.0.0.0", "224.0.0.1", "64:ff9b::a9fe:a9fe", "x"),
    ],
)
def test_metadata_services_are_dialled_for_nobody(address: str) -> None:
    assert judge([address], HOUSE)
    assert judge(["1.1.1.1", address], HOUSE)
    assert judge([address], NOTHING)


@pytest.mark.threat("G9")
@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=4), st.sampled_from(NON_PUBLIC_V4))
def test_one_bad_address_refuses_a_name(addresses: list[str], network: str) -> None:
    bad = network.partition("/")[0]
    assert judge([*addresses, bad], NOTHING)
    assert (judge(addresses, NOTHING) is None) == all(is_public(one) for one in addresses)


def test_a_name_without_an_address_is_not_dialled() -> None:
    assert judge([], HOUSE) == "its name has no address"


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (b"/other", "the same origin"),
        (b"https://example.com/x", "the same origin"),
        (b"https://example.com:443/x#y", "the same origin"),
        (b"https://example.com:444/x", "https://example.com:444"),
        (b"http://169.254.169.254/latest/meta-data", "http://169.254.169.254"),
        (b"//evil.example/x", "what is no HTTP origin"),
        (b"https://user@evil.example/", "what is no HTTP origin"),
        (b"javascript:alert(1)", "what is no HTTP origin"),
        (b"https://evil.example/\x1b[31m", "what is no HTTP origin"),
        ("https://evil.example/ä".encode(), "what is no HTTP origin"),
    ],
)
def test_a_redirect_is_told_by_its_origin(location: bytes, words: str) -> None:
    assert origin_of(location, read_place("https://example.com/mcp")) == words


@pytest.mark.threat("G9")
@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: b"https://" + text.encode()))
def test_what_is_told_of_a_redirect_holds_no_words_of_the_server(location: bytes) -> None:
    told = origin_of(location, read_place("https://example.com/mcp"))
    known = told in {"the same origin", "what is no HTTP origin"}
    assert known or set(told) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-.:/[]")
