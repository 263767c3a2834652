"""Names and small files of Python packages, as a review reads them: of hostile bytes, bounded. Pure.

Source: PEP 503 (normal form of names), the entry points specification, the binary distribution format (names of
wheels, `RECORD`), and the `site` module's documentation (`.pth`, `sitecustomize`, `usercustomize`).
"""

import configparser
import re

_NAME = re.compile(rb"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")  # of a program: one plain word
_SITE = re.compile(rb"\.venv/lib(?:64)?/python3\.[0-9]{1,3}/site-packages/(?P<name>[^/]+)")
_CUSTOM = (b"sitecustomize", b"usercustomize")
ENTRY_POINTS_BYTES = 256 * 1024  # the largest in the field has some hundred programs, 10 KiB


def normal(name: str) -> str:
    """The normal form of a project's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_program(name: str) -> bool:
    """Whether a name can be that of a program in a folder of programs: no path, no line, nothing hidden."""
    return _NAME.fullmatch(name.encode("utf-8", "replace")) is not None


def info_folder(folders: list[bytes], name: str, version: str) -> bytes | None:
    """Which `*.dist-info` is the project's: by its name, and by its version where several bear it."""
    found = [one for one in folders if _is_info_of(one, name)]
    exact = [one for one in found if one.removesuffix(b".dist-info").rpartition(b"-")[2] == version.encode()]
    return next(iter(exact or found), None)


def _is_info_of(folder: bytes, name: str) -> bool:
    stem, found, _ = folder.removesuffix(b".dist-info").rpartition(b"-")
    return folder.endswith(b".dist-info") and bool(found) and normal(stem.decode("utf-8", "replace")) == normal(name)


def console_scripts(data: bytes) -> tuple[str, ...]:
    """The programs that `entry_points.txt` declares, in its order; none where it cannot be read."""
    parser = configparser.RawConfigParser(
        delimiters=("=",), strict=False, interpolation=None, empty_lines_in_values=False
    )
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # names of programs keep their case
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return ()
    names = parser.options("console_scripts") if parser.has_section("console_scripts") else []
    return tuple(name for name in dict.fromkeys(names) if is_program(name))


def recorded_scripts(record: bytes) -> tuple[str, ...]:
    """The programs that an installed `RECORD` lists, so also those that a wheel brings as they are."""
    found = []
    for line in record.splitlines():
        path = line.partition(b",")[0].strip(b'"')
        head, _, name = path.rpartition(b"/")
        if head == b"../../../bin" and _NAME.fullmatch(name):
            found.append(name.decode("ascii"))
    return tuple(dict.fromkeys(found))


def site_name(path: bytes) -> bytes | None:
    """The name right below `site-packages` in a path relative to the workspace; None for any other path."""
    found = _SITE.fullmatch(path)
    return found["name"] if found else None


def is_start_file(path: bytes) -> bool:
    """Whether Python's `site` reads or runs a file of the environment at every start."""
    name = site_name(path)
    if name is not None:
        return name.endswith(b".pth") or name.partition(b".")[0] in _CUSTOM
    package = _SITE.match(path)
    return package is not None and package["name"] in _CUSTOM and path.endswith(b"/__init__.py")


def runs_code(data: bytes) -> bool:
    """Whether a line of a `.pth` is run: `site` executes those that begin with `import` and a blank."""
    return any(line.startswith((b"import ", b"import\t")) for line in data.splitlines())
