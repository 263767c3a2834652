"""Keep of unpacked Debian packages what the runner uses, and nothing that is not named here.

Usage: base.py UNPACKED.tar BASE.tar. The same input gives the same output. What is kept: Python and its library,
setpriv, shared libraries, and the licences of all of it. No shell, no package manager, no set-id bit, no device.
"""

import fnmatch
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

KEPT = (
    "bin", "sbin", "lib", "lib64",  # links into /usr
    "usr/bin/python3", "usr/bin/python3.11", "usr/bin/setpriv",
    "usr/lib64/*",
    "usr/lib/x86_64-linux-gnu/*.so", "usr/lib/x86_64-linux-gnu/*.so.*",
    "usr/lib/python3.11/*",
    "usr/share/doc/*/copyright",
)  # fmt: skip
DROPPED = tuple(
    f"usr/lib/python3.11/{name}*"
    for name in ("ensurepip", "lib2to3", "pydoc_data", "turtle", "idlelib", "sitecustomize")
)
FOLDERS = {  # mode of each folder that packages bring only with their scripts, or not at all
    "": 0o755, "dev": 0o755, "etc": 0o755, "opt": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777,
    "usr": 0o755, "usr/bin": 0o755, "usr/sbin": 0o755, "usr/lib": 0o755, "usr/lib64": 0o755,
    "usr/lib/python3.11": 0o755, "usr/lib/x86_64-linux-gnu": 0o755, "usr/local": 0o755, "usr/local/lib": 0o755,
    "usr/local/lib/python3.11": 0o755, "usr/local/lib/python3.11/dist-packages": 0o755,
    "var": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/nologin\nnobody:x:65534:65534:nobody:/:/nologin\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    # Read by `python -I` as well, and not by `-S`: the small programs of the sandbox see the standard library alone.
    "usr/local/lib/python3.11/dist-packages/fumehood.pth": b"/opt/fumehood\n",
}


def kept(name: str) -> bool:
    """Whether a member of the packages, named without a leading slash, belongs to the base."""
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in DROPPED) or "/__pycache__" in name:
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in KEPT)


def members(unpacked: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, bytes | None]]:
    """What the base holds: what is kept of the packages, and folders and files of ours. Root's, without set-id bits."""
    newest = 0
    for one in unpacked:
        newest = max(newest, int(one.mtime))
        one.name = one.name.removeprefix("./")
        if one.isdir() or not kept(one.name):
            continue
        if one.islnk():
            one.linkname = one.linkname.removeprefix("./")
        if not (one.isreg() or one.issym() or one.islnk()):
            raise SystemExit(f"neither a file nor a link: {one.name}")
        one.mode &= 0o755
        one.uid = one.gid = 0
        one.uname = one.gname = "root"
        file = unpacked.extractfile(one) if one.isreg() else None
        yield one, file.read() if file else None
    for name, mode in FOLDERS.items():
        folder = tarfile.TarInfo(name or ".")
        folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, mode, newest
        yield folder, None
    for name, content in FILES.items():
        file_ = tarfile.TarInfo(name)
        file_.size, file_.mode, file_.mtime = len(content), 0o644, newest
        yield file_, content


def write(unpacked: Path, base: Path) -> None:
    """Make the base, its members by name."""
    with tarfile.open(unpacked) as source, tarfile.open(base, "w", format=tarfile.PAX_FORMAT) as target:
        for one, content in sorted(members(source), key=lambda pair: (pair[0].islnk(), pair[0].name)):
            target.addfile(one, io.BytesIO(content) if content is not None else None)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
