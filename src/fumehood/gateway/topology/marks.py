"""What the operator says of a server's tools: which change something, which send something out. Pure.

Invariants: a server's own words (its annotations) are never looked at; a tool that nobody spoke of is taken for the
worse one wherever it could be. Patterns fit the names that the server itself gives its tools.
"""

from fumehood.gateway.topology.model import Server
from fumehood.gateway.topology.patterns import fits_any


def writes(server: Server, tool: str) -> bool:
    """Whether a tool may change something.

    Without `reads` every tool of a command and of a URL does, and none of a workspace, which is served read-only.
    """
    if server.reads is None:
        return server.workspace is None
    return not fits_any(server.reads, tool)


def sends(server: Server, tool: str) -> bool:
    """Whether a tool may send something out.

    Without `egress` every tool does of what has a way out: a URL, and a command whose policy lists a host.
    """
    if server.egress is None:
        return server.url is not None or bool(server.policy.allow_net or server.policy.allow_private_net)
    return fits_any(server.egress, tool)


def is_trusted(server: Server) -> bool:
    """Whether results are believed: one that is not taints whoever gets it."""
    return server.trust == "trusted"
