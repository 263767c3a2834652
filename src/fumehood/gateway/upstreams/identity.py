"""What a server is, whatever it is called: a digest of its command, its address or its folder. Pure.

Invariant: two entries of gateway.toml have one identity only if the same program with the same arguments is started in
the same folder, the same address is asked, or the same folder is served. The version of a package is not in it: another
version is held against the tools of the one before. Neither are its policy, its trust and its variables. Folders are
taken as they lie from the file, so that a lock under version control holds in another checkout.

Threat: an entry that keeps its name and is another server now, whose tools would pass for those that were accepted.

Not promised: that the program behind the same words is the same.
"""

import hashlib
import posixpath

from fumehood.core import jsonio
from fumehood.gateway.guard import command
from fumehood.gateway.guard.command import CommandError, Package
from fumehood.gateway.topology.model import Server


def identity(server: Server, folder: str) -> str:
    """The digest, 64 hex digits. `folder` is the absolute one of the file; so are the paths of `server`."""
    return hashlib.sha256(jsonio.dump(_what(server, folder))).hexdigest()


def _what(server: Server, folder: str) -> list[object]:
    if server.command is None:
        return ["url", server.url] if server.url is not None else ["workspace", _from(server.workspace, folder)]
    where = _from(server.folder, folder)
    try:
        found = command.read(server.command)
    except CommandError:  # whoever starts it says so
        return ["command", where, *server.command]
    if isinstance(found, Package):
        return ["package", where, found.name, *found.arguments]
    return ["command", where, *server.command]


def _from(path: str | None, folder: str) -> str:
    return "." if path is None else posixpath.relpath(posixpath.join(folder, path), folder)
