import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.addresses import is_public
from fumehood.observe.dns import parse_question
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.names import HEADER_BYTES, POOL, Code, Names, build_reply, local_answer


def query(name: str, query_type: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return b"\xab\xcd\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + query_type.to_bytes(2, "big") + b"\0\1"


@given(st.lists(st.text(min_size=1, max_size=5), max_size=30))
def test_each_name_has_one_address_and_each_address_one_name(asked: list[str]) -> None:
    names = Names(limit=20)
    given_out = {name: names.address(name) for name in asked}
    addresses = [address for address in given_out.values() if address]
    assert len(set(addresses)) == len(addresses) == min(20, len(set(asked)))
    for name, address in given_out.items():
        if address:
            assert names.name(address) == name
            assert names.address(name) == address
            assert ipaddress.ip_address(address) in POOL
            assert not is_public(address)


@pytest.mark.threat("R3")
def test_names_run_out_and_those_that_have_an_address_keep_it() -> None:
    names = Names(limit=2)
    first, second = names.address("a"), names.address("b")
    assert names.address("c") is None
    assert (names.address("a"), names.address("b")) == (first, second)
    assert names.name("198.18.0.1") is None


@pytest.mark.parametrize("mode", list(Mode))
def test_localhost_is_the_sandboxs_own(mode: Mode) -> None:
    assert local_answer(Policy(mode=mode), "localhost") == "127.0.0.1"
    assert local_answer(Policy(mode=mode), "a.localhost") == "127.0.0.1"


@pytest.mark.threat("R3")
def test_in_none_no_name_exists_also_a_listed_one() -> None:
    policy = Policy(mode=Mode.NONE, rules=(Rule(host="a.example", port=1),))
    assert local_answer(policy, "a.example") is Code.NXDOMAIN


@pytest.mark.parametrize(
    "name", ["", "single", "1.0.0.127.in-addr.arpa", "a\\046b.example", "2130706433", "a.0x7f", "-a.example"]
)
def test_what_is_no_host_name_does_not_exist(name: str) -> None:
    assert local_answer(Policy(mode=Mode.OPEN), name) is Code.NXDOMAIN


def test_well_formed_names_get_an_address_listed_or_not() -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=(Rule(host="registry", port=443),))
    assert local_answer(policy, "registry") is None
    assert local_answer(policy, "unlisted.example") is None


def test_a_reply_echoes_the_question_byte_for_byte() -> None:
    asked = query("ReGistry.example") + b"edns that is not echoed"
    question = parse_question(asked)
    assert question is not None
    reply = build_reply(asked, question.end, Code.NOERROR, "198.18.1.0")
    assert reply[:2] == asked[:2]
    assert reply[2:4] == b"\x81\x80"
    assert reply[4:12] == b"\0\1\0\1\0\0\0\0"
    assert reply[12 : question.end] == asked[12 : question.end]
    assert reply[question.end :] == b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + bytes([198, 18, 1, 0])


def test_a_reply_to_what_could_not_be_read_echoes_no_question() -> None:
    assert build_reply(b"\xab\xcd" + bytes(20), HEADER_BYTES, Code.FORMERR) == b"\xab\xcd\x80\x81" + bytes(8)


@given(st.binary(min_size=12, max_size=600), st.sampled_from(Code), st.none() | st.just("198.18.1.0"))
def test_a_reply_fits_into_512_bytes_and_is_an_answer(data: bytes, code: Code, address: str | None) -> None:
    question = parse_question(data)
    reply = build_reply(data, question.end if question else HEADER_BYTES, code, address)
    assert len(reply) <= 512
    assert reply[2] & 0x80
    assert parse_question(reply) is None
