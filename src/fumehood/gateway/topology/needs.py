"""What a topology needs of whoever starts it. Pure."""

from collections.abc import Iterator

from fumehood.gateway.topology.model import Server, Topology


def variables(topology: Topology) -> tuple[str, ...]:
    """The variables that enabled servers name, each once, in the order of the file."""
    named = (name for server in topology.servers.values() if server.enabled for name in _of(server))
    return tuple(dict.fromkeys(named))


def _of(server: Server) -> Iterator[str]:
    yield from server.policy.env
    if server.token_env is not None:
        yield server.token_env
    yield from server.headers_env.values()
