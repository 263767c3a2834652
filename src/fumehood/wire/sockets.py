"""Bound sockets, opened before the walls of the process stand, and who is at the other end of one.

Invariants: a TCP socket is bound to literal addresses only, those that were judged; a Unix socket is made with mode
0600 (0666 only where the operator named other users, who are then told apart by uid); a file that is no socket, that
is another's, or behind which somebody answers is never removed; the peer of a Unix connection is what the kernel says
(SO_PEERCRED), taken when it connected.

Not promised: that the socket file is gone at the end (the walls forbid removing it): the next start finds nobody behind
it and replaces it. Sources: unix(7), socket(7).
"""

import os
import socket
import stat
import struct
from pathlib import Path

from fumehood.core import limits
from fumehood.core.errors import RefusedError, UnsupportedError

_CRED = struct.Struct("3i")  # pid, uid, gid: struct ucred
_PATH_BYTES = 107  # of sun_path, without its NUL
_CONNECT_SECONDS = 1.0  # loopback inside the kernel


class SocketError(RefusedError):
    """A socket cannot be opened as asked."""

    code = "socket"


def addresses(host: str, port: int) -> tuple[tuple[str, int], ...]:
    """The literal addresses of `host`, in the resolver's order; empty when it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return ()
    literal = [str(address[0]) for family, _, _, _, address in found if family in {socket.AF_INET, socket.AF_INET6}]
    return tuple((address, port) for address in dict.fromkeys(literal))


def bind_tcp(places: tuple[tuple[str, int], ...], *, setting: str = "http.port") -> list[socket.socket]:
    """A listening socket for each place; where the port is 0, the first one's is taken for all."""
    opened: list[socket.socket] = []
    port = 0
    try:
        for address, wanted in places:
            opened.append(_tcp(address, wanted or port))
            port = port or int(opened[-1].getsockname()[1])
    except OSError as error:
        for one in opened:
            one.close()
        raise SocketError(
            f"cannot listen on port {wanted or port}: {error.strerror}", remedy=f"set {setting} to another one, or 0"
        ) from None
    return opened


def bind_unix(path: Path, *, shared: bool) -> socket.socket:
    """A listening Unix socket. `shared`: other users may connect, to be judged by their uid."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise UnsupportedError("this system does not say who connects to a Unix socket", remedy="serve on loopback")
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise SocketError(f"a path of more than {_PATH_BYTES} bytes", remedy="set http.unix_socket to a shorter one")
    _check_folder(path.parent)
    _clear(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o111 if shared else 0o177)  # bind makes the file: there is no moment with another mode
    try:
        made.bind(os.fspath(path))
        made.listen(limits.HTTP_BACKLOG)
    except OSError as error:
        made.close()
        raise SocketError(
            f"cannot make the socket: {error.strerror}", remedy="see the folder of http.unix_socket"
        ) from None
    finally:
        os.umask(before)
    made.settimeout(0)
    return made


def peer_uid(connection: socket.socket) -> int:
    """The uid of whoever connected to a Unix socket."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CRED.size)
    return int(_CRED.unpack(data)[1])


def place(opened: socket.socket, *, encrypted: bool = False) -> str:
    """Where a socket listens, as a client has to write it."""
    if opened.family == socket.AF_UNIX:
        return f"unix:{opened.getsockname()}"
    address, port = opened.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    return f"{'https' if encrypted else 'http'}://{shown}:{port}"


def _tcp(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With the protocol named, what is accepted has it too, and asyncio sets TCP_NODELAY: without it, 44 ms an answer.
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # each address is judged by itself: `::` must not be IPv4 too
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        made.listen(limits.HTTP_BACKLOG)
    except OSError:
        made.close()
        raise
    made.settimeout(0)
    return made


def _check_folder(folder: Path) -> None:
    """In a folder that others may write, they could put a socket of theirs in the place of ours."""
    try:
        found = folder.stat()
    except OSError:
        raise SocketError("the socket's folder does not exist", remedy="make it, with mode 0700") from None
    sticky = found.st_mode & stat.S_ISVTX
    if found.st_uid not in {0, os.geteuid()} or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
        raise SocketError("others may write the socket's folder", remedy="take one of your own, with mode 0700")


def _clear(path: Path) -> None:
    """Remove a socket of ours behind which nobody is any more."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise SocketError("the place of the socket is taken by something else", remedy="set http.unix_socket anew")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asked:
        asked.settimeout(_CONNECT_SECONDS)
        try:
            asked.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError:  # full, or slow: there is somebody
            pass
    raise SocketError("somebody listens on that socket already", remedy="end that process, or take another path")
