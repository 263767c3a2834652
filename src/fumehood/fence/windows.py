r"""The rules of paths on Windows, as functions that are tested on every system. Pure.

`serve` does not run on Windows, and nothing calls this yet (docs/adr/0020-linux-first.md says why it stands).
Invariants: `beneath` gives the components of a path below a root, or refuses; it compares components, never beginnings
of text, in any case; it takes no path that a Windows program would read as something else than it says: a drive's own
current folder (`C:x`), a device (`\\.\`, `CON`, `COM1.txt`), an alternate stream (`x:y`), a short name (`PROGRA~1`), a
name that ends in a dot or a space, a `..`.

Source: "Naming Files, Paths, and Namespaces" and "File path formats on Windows systems", Microsoft; RFC 8089 for URLs.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from fumehood.core.errors import NotFoundError, OutsideWorkspaceError

Place = tuple[str, ...]  # `("c:",)`, or `("\\server", "share")`: where the components begin

_SEPARATORS = re.compile(r"[/\\]+")
_DRIVE = re.compile(r"[A-Za-z]:\Z")
_SHORT = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ ]*(?:[.:].*)?\Z", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"|?*]')
_SERVER = re.compile(r"[^\x00-\x1f<>:\"|?*/\\]+\Z")


def beneath(root: str, path: str, *, mapped: Mapping[str, str] | None = None) -> tuple[str, ...]:
    r"""The components of `path` below `root`, as they were written; OutsideWorkspaceError for everything else.

    `root` is absolute. `path` is relative, absolute, or a `file:` URL. `mapped` says which share a drive letter stands
    for (`{"z:": r"\\server\share"}`), so that both spellings of one place are one.
    """
    shares = {drive.lower(): _place(share)[0] for drive, share in (mapped or {}).items()}
    base, base_parts = _placed(root, shares)
    if not base:
        raise ValueError("the root is not absolute")
    place, parts = _placed(_from_url(path), shares)
    if place:
        if place != base or not _begins(parts, base_parts):
            raise _outside(path)
        parts = parts[len(base_parts) :]
    for part in parts:
        _check(part, path)
    return tuple(part for part in parts if part != ".")


def is_ordinary(name: str) -> bool:
    """Whether a name, one component, is read as itself by every program on Windows."""
    return not (
        not name
        or name[-1] in ". "
        or _FORBIDDEN.search(name)
        or _RESERVED.match(name)
        or _SHORT.match(name)
        or _SEPARATORS.search(name)
    )


def _placed(path: str, shares: Mapping[str, Place]) -> tuple[Place, list[str]]:
    place, parts = _place(path)
    return shares.get(place[0], place) if len(place) == 1 else place, parts


def _place(path: str) -> tuple[Place, list[str]]:
    """Where a path begins and its components; no place for a relative one."""
    plain = path.replace("/", "\\")
    verbatim = plain[:4] in ("\\\\?\\", "\\??\\")
    if verbatim:
        plain = plain[4:]
        if plain[:4].lower() == "unc\\":
            plain = "\\\\" + plain[4:]
        elif not _DRIVE.match(plain[:2]):
            raise _outside(path)  # a volume by its id, or a device
    if plain.startswith("\\\\"):
        server, share, *parts = [*_SEPARATORS.split(plain[2:].lstrip("\\")), "", ""]
        if not _SERVER.match(server) or not _SERVER.match(share) or server in (".", "?"):
            raise _outside(path)
        return ("\\\\" + server.casefold(), share.casefold()), [part for part in parts if part]
    if _DRIVE.match(plain[:2]):
        if plain[2:3] != "\\":
            raise _outside(path)  # relative to whatever folder that drive is in
        return (plain[:2].lower(),), [part for part in _SEPARATORS.split(plain[2:]) if part]
    if plain.startswith("\\"):
        raise _outside(path)  # relative to whatever drive the process is in
    return (), [part for part in _SEPARATORS.split(plain) if part]


def _from_url(path: str) -> str:
    """The path of a `file:` URL; anything else as it is. Escapes are read once, and an escaped separator is refused."""
    if path[:5].lower() != "file:":
        return path
    rest = path[5:]
    if re.search(r"%(?:2f|5c|00)", rest, re.IGNORECASE) or "?" in rest or "#" in rest:
        raise _outside(path)
    try:
        plain = unquote_to_bytes(rest).decode("utf-8")
    except UnicodeDecodeError:
        raise _outside(path) from None
    if not plain.startswith("//"):
        local = plain
    else:
        host, slash, below = plain[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            return f"\\\\{host}\\{below}"
        local = slash + below
    local = local.lstrip("/")
    if not _DRIVE.match(local[:2].replace("|", ":")):
        raise _outside(path)
    return local[:2].replace("|", ":") + (local[2:] or "/")


def _begins(parts: list[str], base: list[str]) -> bool:
    return [part.casefold() for part in parts[: len(base)]] == [part.casefold() for part in base]


def _check(part: str, path: str) -> None:
    if part == "..":
        raise _outside(path)
    if part != "." and not is_ordinary(part):
        raise NotFoundError(f"{path[:200]!a} does not exist", remedy="name it as the folder lists it")


def _outside(path: str) -> OutsideWorkspaceError:
    return OutsideWorkspaceError(
        f"{path[:200]!a} leads out of the workspace or through a link", remedy="ask for a path inside"
    )
