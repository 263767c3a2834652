"""Between the paths that a target sees and those of its layer. Pure.

One overlay is mounted at `/var`; `/home` and `/tmp` are links to `/var/home` and `/var/tmp`. The kernel resolves them,
so a trace says `/var/home/u/x` where the target said `/home/u/x`, and the layer has `home/u/x`.
"""

_MOUNT = b"/var/"
_LINKS = (b"home", b"tmp")


def as_seen(path: bytes) -> bytes:
    """An absolute path of the sandbox, by the shorter of its two names."""
    if not path.startswith(_MOUNT):
        return path
    top = path[len(_MOUNT) :].partition(b"/")[0]
    return path[len(_MOUNT) - 1 :] if top in _LINKS else path


def from_layer(path: bytes) -> bytes:
    """A layer's relative path, as the target sees it."""
    return as_seen(_MOUNT + path)


def climbs(name: bytes) -> bool:
    """Whether `..` stands behind another name: if that one is a link, words alone do not say where it leads."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    while parts and parts[0] == b"..":
        parts.pop(0)
    return b".." in parts


def join(folder: bytes, name: bytes) -> bytes:
    """`name` from `folder`, with `.` and `..` taken away by words alone; what links do to it is not known here."""
    whole = name if name.startswith(b"/") else folder + b"/" + name
    parts: list[bytes] = []
    for part in whole.split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts)
