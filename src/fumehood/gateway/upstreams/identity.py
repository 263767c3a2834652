"""What a server is, whatever it is called: a digest of its command, its address or its folder. Pure.

Invariant: two entries of gateway.toml have one identity only if the same program with the same arguments is started in
the same folder, the same address is asked, or the same folder is served. The version of a package is not in it: another
version is held against the tools of the one before. Neither are its policy, its trust and its variables.

Threat: an entry that keeps its name and is another server now, whose tools would pass for those that were accepted.

Not promised: that the program behind the same words is the same.
"""

import hashlib

from fumehood.core import jsonio
from fumehood.gateway.guard import command
from fumehood.gateway.guard.command import CommandError, Package
from fumehood.gateway.topology.model import Server


def identity(server: Server) -> str:
    """The digest, 64 hex digits."""
    return hashlib.sha256(jsonio.dump(_what(server))).hexdigest()


def _what(server: Server) -> list[object]:
    if server.command is None:
        return ["url", server.url] if server.url is not None else ["workspace", server.workspace]
    try:
        found = command.read(server.command)
    except CommandError:  # whoever starts it says so
        return ["command", server.folder, *server.command]
    if isinstance(found, Package):
        return ["package", server.folder, found.name, *found.arguments]
    return ["command", server.folder, *server.command]
