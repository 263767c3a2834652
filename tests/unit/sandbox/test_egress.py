from typing import assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.hello import Hello
from fumehood.sandbox.egress import Answer, Dial, Mode, Policy, Refuse, Rule, decide, disagreement, listed, literals

RULES = (
    Rule(host="registry.example", port=443, operator=True, pins=("10.0.0.1",)),
    Rule(host="api.example", port=8443),
    Rule(host="93.184.216.34", port=80),
    Rule(host="2606:4700::1111", port=443),
)
HOSTS = st.sampled_from(["registry.example", "api.example", "other.example", None])
ADDRESSES = st.sampled_from(["198.18.1.0", "93.184.216.34", "2606:4700::1111", "10.0.0.1"])
PORTS = st.sampled_from([1, 80, 443, 8443])


def test_a_listed_host_and_port_is_dialled_as_its_rule_says() -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=RULES)
    assert decide(policy, "registry.example", "198.18.1.0", 443) == Dial(
        host="registry.example", port=443, operator=True, pins=("10.0.0.1",), strict=True
    )
    assert decide(policy, "api.example", "198.18.1.1", 8443) == Dial(
        host="api.example", port=8443, operator=False, pins=(), strict=True
    )


def test_a_listed_address_is_dialled_and_names_nobody() -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=RULES)
    expected = Dial(host="93.184.216.34", port=80, operator=False, pins=(), strict=False)
    assert decide(policy, None, "93.184.216.34", 80) == expected


@pytest.mark.threat("R3")
@given(HOSTS, ADDRESSES, PORTS)
def test_nothing_is_dialled_in_none(name: str | None, address: str, port: int) -> None:
    assert decide(Policy(mode=Mode.NONE, rules=RULES), name, address, port) == Refuse(why="network_none")


@pytest.mark.threat("R3")
@given(HOSTS, ADDRESSES, PORTS)
def test_only_what_a_rule_names_is_dialled_in_allowlist(name: str | None, address: str, port: int) -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=RULES)
    match decide(policy, name, address, port):
        case Dial() as order:
            assert any((rule.host, rule.port) == (order.host, order.port) == (name or address, port) for rule in RULES)
            assert order.strict == (name is not None)
        case Refuse(why=why):
            assert why == ("not_listed" if name else "raw_address")
            assert all((rule.host, rule.port) != (name or address, port) for rule in RULES)
        case Answer():
            pytest.fail("nothing is answered here")
        case never:
            assert_never(never)


@pytest.mark.threat("R20")
@given(HOSTS, ADDRESSES, PORTS)
def test_nothing_is_dialled_in_sinkhole_whatever_the_rules_say(name: str | None, address: str, port: int) -> None:
    assert decide(Policy(mode=Mode.SINKHOLE, rules=RULES), name, address, port) == Answer()


@pytest.mark.threat("R3")
@given(HOSTS, ADDRESSES, PORTS)
def test_in_open_only_an_operators_rule_lifts_the_check_of_addresses(name: str | None, address: str, port: int) -> None:
    order = decide(Policy(mode=Mode.OPEN, rules=RULES), name, address, port)
    assert isinstance(order, Dial)
    assert order.operator == ((name, port) == ("registry.example", 443))
    assert bool(order.pins) == order.operator


def test_literals_and_listed_hosts_are_found() -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=RULES)
    assert literals(policy) == ("93.184.216.34", "2606:4700::1111")
    assert listed(policy, "api.example")
    assert not listed(policy, "other.example")


@pytest.mark.threat("R3")
@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (Hello(kind="tls", server_name="a.example"), None),
        (Hello(kind="http", server_name="a.example"), None),
        (Hello(kind="other"), None),
        (Hello(kind="tls", server_name="b.example"), "tls_name_differs"),
        (Hello(kind="http", server_name="b.example"), "http_name_differs"),
        (Hello(kind="tls"), "tls_without_name"),
        (Hello(kind="http", note="several_hosts"), "http_without_name"),
        (None, "hello_incomplete"),
    ],
)
def test_a_hello_must_name_the_host_that_was_decided_about(hello: Hello | None, why: str | None) -> None:
    assert disagreement("a.example", hello) == why
