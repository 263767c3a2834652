"""review.export.leastpolicy: a result becomes a policy that guard takes, and nothing becomes more than a word."""

import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.guard import policy
from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.review import result
from fumehood.review.export import leastpolicy
from fumehood.review.result import ReviewResult
from recorded import made


def recorded(
    *rows: tuple[Kind, dict[str, Any]], collector: str = "egress", phase: Phase = Phase.EXERCISE
) -> ReviewResult:
    one = made(rows=[(kind, phase, "exercise", detail) for kind, detail in rows])
    items = tuple(msgspec.structs.replace(row, collector=collector) for row in one.observations.items)
    return msgspec.structs.replace(one, observations=result.Observations(items=items, total=len(items)))


def taken(one: ReviewResult) -> policy.GuardPolicy:
    return policy.parse(leastpolicy.text(one), "policy.toml")


def test_hosts_that_were_turned_to_are_allowed_by_name_and_port() -> None:
    one = recorded(
        (Kind.NETWORK_CONNECT, {"name": "mail.example", "address": "198.18.1.0", "port": 443, "decision": "answered"}),
        (Kind.NETWORK_CONNECT, {"name": "mail.example", "address": "198.18.1.0", "port": 443, "decision": "refused"}),
        (Kind.NETWORK_CONNECT, {"address": "2001:db8::1", "port": 80, "decision": "refused"}),
    )
    assert set(taken(one).allow_net) == {"mail.example:443", "[2001:db8::1]:80"}


def test_what_was_read_and_written_elsewhere_is_allowed_and_what_every_server_has_is_not() -> None:
    one = recorded(
        (Kind.FILE_READ, {"path": "/etc/machine-id", "how": "read", "outcome": "done"}),
        (Kind.FILE_READ, {"path": "/etc/shadow", "how": "read", "outcome": "EACCES"}),
        (Kind.FILE_READ, {"path": "/srv/looked", "how": "look", "outcome": "done"}),
        (Kind.FILE_READ, {"path": "/usr/share/x", "how": "read", "outcome": "done"}),
        (Kind.FILE_READ, {"path": "/home/max/.npmrc", "how": "read", "outcome": "done"}),
        (Kind.FILE_CHANGED, {"path": "/srv/data/x", "how": "write", "outcome": "done"}),
        (Kind.FILE_CREATED, {"path": "/home/max/max-app/out", "kind": "file"}),
        collector="strace",
    )
    made_of = taken(one)
    assert (made_of.allow_read, made_of.allow_write) == (("/etc/machine-id",), ("/srv/data/x",))
    text = leastpolicy.text(one)
    assert "read from its home; a guarded home is empty at the start and gone at the end: .npmrc" in text
    assert "written in its own folder" in text


def test_the_limits_come_first_and_what_cannot_be_said_is_named() -> None:
    lines = leastpolicy.text(
        recorded(
            (Kind.NETWORK_CONNECT, {"address": "198.18.1.0", "port": 443, "decision": "answered"}),
            (Kind.NETWORK_CONNECT, {"address": "127.0.0.1", "port": 5000, "decision": "refused"}),
            (Kind.NETWORK_CONNECT, {"name": "a.localhost", "port": 5000, "decision": "refused"}),
            (Kind.NETWORK_OTHER, {"protocol": "udp", "address": "192.0.2.1", "port": 53, "decision": "dropped"}),
            (Kind.CANARY_READ, {"path": "/home/max/.aws/credentials"}),
        )
    ).splitlines()
    assert lines[0].startswith("# What this is: the least policy")
    text = "\n".join(lines)
    assert "hosts that no policy can name: 198.18.1.0:443" in text
    assert "its own loopback, which it has without being asked: 127.0.0.1:5000, a.localhost:5000" in text
    assert "no policy lets them out: 192.0.2.1:53" in text
    assert "planted credentials that it read" in text
    assert "Not whole: the sensor egress was missing or lost some." in text


def test_what_an_install_turned_to_is_no_part_of_it() -> None:
    one = recorded((Kind.NETWORK_CONNECT, {"name": "cdn.example", "port": 443}), phase=Phase.INSTALL)
    assert taken(one).allow_net == ()
    assert "while it was installed, which guard does not run: cdn.example:443" in leastpolicy.text(one)


def test_a_result_that_is_whole_says_so_by_saying_nothing() -> None:
    sensors = tuple(
        result.CollectorRecord(name=name, phase=Phase.EXERCISE, state=CollectorState.ACTIVE)
        for name in ("strace", "egress", "layer")
    )
    assert "Not whole" not in leastpolicy.text(made(collectors=sensors))
    lost = (result.Lost(phase=Phase.EXERCISE, type=Kind.FILE_READ, count=7),)
    more = made(collectors=sensors, observations=result.Observations(lost=lost))
    assert "Not whole: 7 of filesystem.read in EXERCISE" in leastpolicy.text(more)


def test_more_than_a_policy_takes_is_counted() -> None:
    many = [(Kind.NETWORK_CONNECT, {"name": f"n{n}.example", "port": 443, "decision": "answered"}) for n in range(40)]
    assert len(taken(recorded(*many)).allow_net) == 32
    assert "# 8 more do not fit: a policy takes 32" in leastpolicy.text(recorded(*many))


WORDS = st.text(max_size=30) | st.sampled_from(
    ['/a"\nallow_net = ["x:1"]', "/a\x1b[2J", "/\\u0041", "*.example", "/a/../b", "/"]
)


@given(
    WORDS,
    WORDS,
    st.integers(-1, 70000),
    st.sampled_from([Kind.NETWORK_CONNECT, Kind.FILE_READ, Kind.FILE_CHANGED, Kind.CANARY_READ]),
)
def test_whatever_a_stranger_wrote_guard_takes_the_policy_and_no_word_becomes_a_line(
    name: str, path: str, port: int, kind: Kind
) -> None:
    text = leastpolicy.text(recorded((kind, {"name": name, "path": path, "port": port, "address": path})))
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert set(tomllib.loads(text)) == {"allow_net", "allow_read", "allow_write", "env"}
    made_of = policy.parse(text, "policy.toml")
    assert set(made_of.allow_read + made_of.allow_write) <= {path}


@pytest.mark.parametrize("detail", [{}, {"path": 7}, {"name": 3, "port": "x"}])
def test_a_row_of_another_shape_adds_nothing(detail: dict[str, Any]) -> None:
    for kind in Kind:
        assert taken(recorded((kind, detail))) == policy.GuardPolicy()
