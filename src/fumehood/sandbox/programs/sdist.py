"""Downloads one source distribution, checks its hash, and unpacks it: confined, before anything of it may run.

Runs inside a sandbox that reaches the hosts of the index alone, as `python3 -I -S -c TEXT URL SHA256 FOLDER`, with the
standard library and nothing else. It makes `FOLDER/src` and executes no byte of it. What it prints is read as hostile.

Held: regular files and folders below one folder of the archive, and nothing else: no link, no device, no absolute
path, no `..`, no name twice. An archive that has one of them is refused whole. Source: PEP 625, PEP 721.

Bounds: a file of 128 MiB, 50,000 members, 512 MiB unpacked, paths of 1,000 bytes.
"""

import gzip
import hashlib
import http.client
import json
import os
import socket
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import IO

SDIST_BYTES = 128 * 1024 * 1024  # the public index takes 100 MiB unless asked
UNPACKED_BYTES = 512 * 1024 * 1024
MEMBERS = 50_000
PATH_BYTES = 1000
SECONDS = 20
PIECE = 1024 * 1024
EARLIEST = 315_532_800  # 1980: a wheel is a zip, which knows no earlier time
LATEST = 2**32 - 1


class BadSourcesError(Exception):
    """The archive is not one that is unpacked; its argument is the reason, in a word of ours."""


def download(url: str, into: IO[bytes]) -> str:
    """Write the file, and give its SHA-256."""
    request = urllib.request.Request(url, headers={"User-Agent": "uv"})  # noqa: S310 - the policy decides what is reached
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    digest, total = hashlib.sha256(), 0
    with opener.open(request) as answer:
        while piece := answer.read(PIECE):
            total += len(piece)
            if total > SDIST_BYTES:
                raise BadSourcesError("too large")
            digest.update(piece)
            into.write(piece)
    into.seek(0)
    return digest.hexdigest()


def inside(name: str) -> tuple[str, ...]:
    """The steps of a member's path; refuses one that leads elsewhere."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name or len(os.fsencode(name)) > PATH_BYTES:
        raise BadSourcesError("a path that leads elsewhere")
    return parts


def unpack(archive: IO[bytes], folder: Path) -> int:
    """Lay out the files below `folder`; how many there are."""
    roots: set[str] = set()
    count = total = files = 0
    with tarfile.open(fileobj=archive, mode="r|gz") as tar:
        for member in tar:
            count, total = count + 1, total + max(0, member.size)
            if count > MEMBERS or total > UNPACKED_BYTES:
                raise BadSourcesError("too large")
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise BadSourcesError("a link or a device")
            root, *parts = inside(member.name) or ("",)
            roots.add(root)
            if len(roots) > 1 or (not parts and member.isreg()):
                raise BadSourcesError("more than one folder")
            if member.isdir():
                folder.joinpath(*parts).mkdir(parents=True, exist_ok=True)
            else:
                write(tar, member, folder.joinpath(*parts))
                files += 1
    return files


def write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """One regular file, new, with its time and whether it is a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    mode = 0o755 if member.mode & 0o100 else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        while content and (piece := content.read(PIECE)):
            file.write(piece)
    moment = min(max(int(member.mtime), EARLIEST), LATEST)
    os.utime(path, (moment, moment))


def fetched(url: str, sha256: str, folder: Path) -> dict[str, object]:
    """What became of it: `ok`, or the first thing that is wrong."""
    os.umask(0o022)
    with tempfile.TemporaryFile() as archive:
        try:
            if download(url, archive) != sha256:
                return {"said": "hash"}
        except BadSourcesError as error:
            return {"said": "bad", "why": str(error)}
        except urllib.error.HTTPError as error:
            return {"said": "network", "why": f"status {error.code}"}
        except (OSError, ValueError, http.client.HTTPException) as error:
            return {"said": "network", "why": type(error).__name__}
        return laid(archive, folder)


def laid(archive: IO[bytes], folder: Path) -> dict[str, object]:
    """Unpack it, or say why not."""
    source = folder / "src"
    source.mkdir(parents=True)
    (folder / "dist").mkdir()  # where the build will leave its wheel
    try:
        return {"said": "ok", "files": unpack(archive, source)}
    except BadSourcesError as error:
        why = str(error)
    except FileExistsError:
        why = "a name twice"
    except (tarfile.TarError, zlib.error, EOFError, ValueError, NotADirectoryError, gzip.BadGzipFile):
        why = "no archive of its kind"
    except OSError:
        why = "a file that cannot be written"
    return {"said": "bad", "why": why}


def main(url: str, sha256: str, folder: str) -> None:
    """Print what became of it. The status is 0 whatever that is, so that a failure of ours is another one."""
    sys.stdout.write(json.dumps(fetched(url, sha256, Path(folder))))


if __name__ == "__main__":
    socket.setdefaulttimeout(SECONDS)  # of this whole process, and of no one that imports it
    main(*sys.argv[1:4])
