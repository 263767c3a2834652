"""A policy is read whole or refused by file, line, key and rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.guard import policy
from fumehood.gateway.guard.policy import GuardPolicy, GuardPolicyError
from fumehood.sandbox.egress import Mode, Policy

FULL = """
allow_read = ["/srv/docs"]
allow_write = ["/srv/out"]
allow_net = ["api.example.com:443", "10.1.2.3:8080"]
allow_private_net = ["git.corp.example:443"]
env = ["API_KEY"]
memory_bytes = 268435456
processes = 64
audit_file = "/var/log/guard.jsonl"
"""


def test_a_whole_policy_is_read() -> None:
    made = policy.parse(FULL, "p.toml")
    assert made.allow_read == ("/srv/docs",)
    assert made.allow_write == ("/srv/out",)
    assert made.env == ("API_KEY",)
    assert (made.memory_bytes, made.processes) == (256 * limits.MIB, 64)
    assert made.audit_file == "/var/log/guard.jsonl"


@pytest.mark.threat("G2")
def test_nothing_is_allowed_without_a_policy() -> None:
    made = GuardPolicy()
    assert (made.allow_read, made.allow_write, made.env) == ((), (), ())
    assert made.network == Policy(mode=Mode.NONE)


@pytest.mark.threat("G2")
def test_only_an_address_or_a_name_listed_as_private_may_be_private() -> None:
    rules = policy.parse(FULL, "p.toml").network.rules
    assert [(rule.host, rule.port, rule.operator) for rule in rules] == [
        ("api.example.com", 443, False),
        ("10.1.2.3", 8080, True),
        ("git.corp.example", 443, True),
    ]


def test_flags_add_and_never_take_away() -> None:
    flags = policy.from_flags({"allow_read": ("/srv/docs", "/srv/more"), "env": ("OTHER",)})
    both = policy.parse(FULL, "p.toml").plus(flags)
    assert both.allow_read == ("/srv/docs", "/srv/more")
    assert both.env == ("API_KEY", "OTHER")
    assert both.allow_private_net == ("git.corp.example:443",)
    assert both.memory_bytes == 256 * limits.MIB


@pytest.mark.threat("G2")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allow_raed = ['/a']", "p.toml, line 1: allow_raed: no such key (did you mean allow_read?)"),
        ("\n[network]\nx = 1", "p.toml, line 2: network: no such key (known here: "),
        ("env = ['A']\nallow_read = '/a'", "p.toml, line 2: allow_read is a list of absolute paths"),
        ("allow_read = ['docs']", "p.toml, line 1: allow_read is a list of absolute paths"),
        ('allow_write = ["/a\\u0000b"]', "p.toml, line 1: allow_write is a list of absolute paths"),
        ("allow_net = ['example.com']", "p.toml, line 1: allow_net: 'example.com' is not HOST:PORT"),
        ("allow_net = ['*.example.com:443']", "is not HOST:PORT, an exact name"),
        ("allow_net = ['localhost:80']", "is loopback"),
        ("allow_net = ['127.8.9.1:80']", "is loopback"),
        ("allow_net = ['[::1]:80']", "is loopback"),
        ("allow_net = ['0.0.0.0:80']", "is loopback"),
        ("allow_private_net = ['10.0.0.1:80']", "is an address: write it into allow_net"),
        ("env = ['A=b']", "p.toml, line 1: env is a list of names of variables"),
        ("env = ['FUMEHOOD_LOG__LEVEL']", "FUMEHOOD_LOG__LEVEL is a setting of fumehood's own"),
        ("memory_bytes = 1", "p.toml, line 1: memory_bytes expected"),
        ("memory_bytes = 99999999999999", "memory_bytes expected"),
        ("processes = true", "p.toml, line 1: processes expected"),
        ("not toml", "p.toml: not TOML: "),
        (f"processes = {'9' * 5000}", "p.toml: not TOML: "),
    ],
)
def test_what_is_wrong_is_refused_by_its_place(text: str, said: str) -> None:
    with pytest.raises(GuardPolicyError) as refused:
        policy.parse(text, "p.toml")
    assert said in str(refused.value)
    assert refused.value.remedy


def test_a_flag_is_refused_by_its_name() -> None:
    with pytest.raises(GuardPolicyError, match="--allow-read is a list of absolute paths"):
        policy.from_flags({"allow_read": ("docs",)})
    with pytest.raises(GuardPolicyError, match="--allow-net: 'x' is not HOST:PORT"):
        policy.from_flags({"allow_net": ("x",)})


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_is_refused_in_one_inert_line(text: str) -> None:
    refused = ""
    try:
        policy.parse(text, "p.toml")
    except GuardPolicyError as error:
        refused = str(error)
    assert refused.isprintable()


@given(st.lists(st.text(max_size=40), max_size=3), st.sampled_from(["allow_read", "allow_net", "env"]))
def test_any_words_of_a_flag_are_taken_as_they_are_or_refused(words: list[str], key: str) -> None:
    refused, taken = "", tuple(words)
    try:
        taken = getattr(policy.from_flags({key: tuple(words)}), key)
    except GuardPolicyError as error:
        refused = str(error)
    assert refused.isprintable()
    assert taken == tuple(words)


@pytest.mark.threat("G2")
@pytest.mark.parametrize("text", ['allow_read = ["/srv\\n"]', 'env = ["NAME\\n"]', 'audit_file = "/log\\n"'])
def test_a_line_end_ends_no_path_and_no_name(text: str) -> None:
    with pytest.raises(GuardPolicyError, match="policy, line 1"):
        policy.parse(text, "policy")
