"""What is the gateway's own is known, and passed to no command."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.topology.model import Gateway, Saved, Server, Topology
from fumehood.gateway.upstreams import ground
from fumehood.gateway.upstreams.ground import Ground, OwnVariableError

TOPOLOGY = Topology(
    gateway=Gateway(lock_file="/g/fumehood.lock", audit_file="/g/audit.jsonl"),
    servers={
        "a": Server(url="https://a.example/mcp", token_env="A_TOKEN", headers_env={"X-Key": "A_KEY"}),
        "b": Server(url="https://b.example/mcp", token_file="/g/b.token"),
        "c": Server(command=("node", "c.js")),
        "d": Server(command=("node", "d.js"), enabled=False),
        "e": Server(workspace="/w"),
    },
    tools={"t": Saved(program="/g/t.ts", description="t")},
)


def stood_on(environ: dict[str, str], variables: frozenset[str] = frozenset()) -> Ground:
    nothing: Any = None
    return Ground(
        host=nothing,
        settings=nothing,
        settings_file=None,
        environ=environ,
        variables=variables,
        files=(),
        folder="/",
        station=nothing,
        shop=nothing,
        clock=nothing,
        say=lambda _: None,
    )


def test_each_command_that_is_enabled_has_a_seat() -> None:
    assert ground.seats(TOPOLOGY) - ground.seats(Topology()) == 1


def test_variables_of_remote_servers_are_the_gateway_s_own() -> None:
    assert ground.own_variables(TOPOLOGY) == {"A_TOKEN", "A_KEY"}
    assert ground.own_variables(Topology()) == frozenset()


def test_files_that_the_gateway_goes_by_are_its_own() -> None:
    assert set(ground.own_files(TOPOLOGY, "/g/gateway.toml")) == {
        "/g/gateway.toml",
        "/g/fumehood.lock",
        "/g/fumehood.lock.proposed",
        "/g/.fumehood.lock.held",
        "/g/audit.jsonl",
        "/g/b.token",
        "/g/t.ts",
    }
    assert ground.own_files(Topology(), "/g.toml") == ("/g.toml",)


@pytest.mark.threat("G2")
@given(st.dictionaries(st.sampled_from(["A", "B", "FUMEHOOD_X", "A_TOKEN"]), st.text(max_size=3)))
def test_no_command_is_given_what_is_the_gateway_s_own(environ: dict[str, str]) -> None:
    made = stood_on(environ, frozenset({"A_TOKEN"}))
    assert made.environ_for(("A", "B")) == {name: value for name, value in environ.items() if name in {"A", "B"}}
    for name in ("A_TOKEN", "FUMEHOOD_X", "FUMEHOOD_"):
        with pytest.raises(OwnVariableError, match=name):
            made.environ_for(("A", name))
