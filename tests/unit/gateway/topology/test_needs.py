"""What has to be set where a gateway is started."""

from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology.model import Server, Topology
from fumehood.gateway.topology.needs import variables


def test_each_variable_of_an_enabled_server_is_named_once() -> None:
    servers = {
        "a": Server(command=("x",), policy=GuardPolicy(env=("B", "A"))),
        "b": Server(url="https://example.com", token_env="C", headers_env={"X-A": "A", "X-D": "D"}),
        "c": Server(command=("x",), policy=GuardPolicy(env=("E",)), enabled=False),
    }
    assert variables(Topology(servers=servers)) == ("B", "A", "C", "D")
    assert variables(Topology()) == ()
