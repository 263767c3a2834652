import re

import pytest

from fumehood.core.addresses import NON_PUBLIC_V4, NON_PUBLIC_V6
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.ruleset import build_ruleset, catches, plain_ports

RULES = (Rule(host="a.example", port=8443), Rule(host="93.184.216.34", port=80), Rule(host="2606:4700::1111", port=443))


def redirects(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "redirect" in line]


def test_none_redirects_nothing() -> None:
    assert redirects(build_ruleset(Policy(rules=RULES))) == []
    assert not catches(Policy())
    assert plain_ports(Policy(rules=RULES)) == ()


def test_allowlist_redirects_names_and_listed_addresses_only() -> None:
    policy = Policy(mode=Mode.ALLOWLIST, rules=RULES)
    assert redirects(build_ruleset(policy)) == [
        "ip daddr 198.18.0.0/15 meta l4proto tcp redirect to :1",
        "ip daddr 93.184.216.34 meta l4proto tcp redirect to :1",
        "ip6 daddr 2606:4700::1111 meta l4proto tcp redirect to :1",
    ]
    assert plain_ports(policy) == (80, 443, 8443)


@pytest.mark.threat("R3")
def test_open_leaves_every_forbidden_network_to_the_kernel_before_it_redirects_the_rest() -> None:
    text = build_ruleset(Policy(mode=Mode.OPEN))
    rest = text.index("    meta l4proto tcp redirect")
    for network in (*NON_PUBLIC_V4, *NON_PUBLIC_V6):
        assert re.search(rf"[{{,] {re.escape(network)}[ ,]", text[:rest])
    assert plain_ports(Policy(mode=Mode.OPEN)) == (80, 443)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_no_rule_takes_is_rejected_on_arrival_where_the_recorder_has_seen_it(mode: Mode) -> None:
    leaving, arriving = build_ruleset(Policy(mode=mode)).split("chain arriving")
    assert "reject" not in leaving
    assert arriving.split("meta l4proto tcp reject with tcp reset")[1].strip().startswith("reject")


@pytest.mark.threat("R3")
def test_a_host_that_is_text_of_nft_cannot_enter_the_ruleset() -> None:
    hostile = Policy(
        mode=Mode.ALLOWLIST, rules=(Rule(host="1.1.1.1 accept\n}", port=1), Rule(host="::1%;flush", port=1))
    )
    text = build_ruleset(hostile)
    assert "flush" not in text
    assert "1.1.1.1" not in text


def test_dns_is_never_a_plain_port() -> None:
    assert plain_ports(Policy(mode=Mode.ALLOWLIST, rules=(Rule(host="a.example", port=53),))) == ()
