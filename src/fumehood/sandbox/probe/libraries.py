"""The files that a program needs to start, so that a root of a few files can be built for it.

Its loader, and every library that it or one of its libraries names, found in the system's folders; nothing is run.
Not promised: libraries that a program opens by itself while it runs, and folders that it names in DT_RUNPATH.
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fumehood.core.errors import UnsupportedError
from fumehood.sandbox import elf

_MOST: Final = 32  # libraries of one program; Deno has six
_TRIPLES: Final = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


class LibraryError(UnsupportedError):
    """A library that a program needs is not where the system keeps its libraries."""

    code = "library"


def system_folders(machine: str) -> tuple[Path, ...]:
    """Where the distributions keep libraries, the preferred first. Pure."""
    triple = _TRIPLES.get(machine, machine)
    return tuple(map(Path, (f"/lib/{triple}", f"/usr/lib/{triple}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")))


def libraries_of(program: Path, folders: Sequence[Path] | None = None) -> Mapping[str, Path]:
    """Name → file of each library, and the loader under its whole path. Raises `LibraryError`."""
    places = system_folders(platform.machine()) if folders is None else folders
    found: dict[str, Path] = {}
    loader, waiting = _loader(program), _needed(program)
    if loader:
        found[loader] = _real(Path(loader))
    while waiting:
        name = waiting.pop()
        if name in found or name == os.path.basename(loader):  # noqa: PTH119  # a string of the file, no path of ours
            continue
        if len(found) >= _MOST:
            raise LibraryError(f"{program} needs more than {_MOST} libraries")
        path = next((folder / name for folder in places if (folder / name).is_file()), None)
        if path is None:
            where = ", ".join(map(str, places))
            raise LibraryError(f"{program} needs {name}, which is not in {where}", remedy="install it")
        found[name] = _real(path)
        waiting += _needed(path)
    return found


def _real(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except OSError as error:
        raise LibraryError(f"{path}: {os.strerror(error.errno or 0)}") from error


def _loader(program: Path) -> str:
    """The loader that a program asks for; empty for one that is static."""
    found = elf.read(_reading(program)(0, elf.HEAD_BYTES))
    if found is None:
        raise LibraryError(f"{program} is no program of this machine")
    return found.loader


def _needed(path: Path) -> list[str]:
    """The libraries that a program or library names."""
    names = elf.needed(_reading(path))
    if names is None:
        raise LibraryError(f"{path} is no library of this machine")
    return list(names)


def _reading(path: Path) -> Callable[[int, int], bytes]:
    """Reads parts of a file."""

    def at(offset: int, size: int) -> bytes:
        try:
            with path.open("rb") as file:
                return os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise LibraryError(f"{path}: {os.strerror(error.errno or 0)}") from error

    return at
