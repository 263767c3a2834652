"""The operator's settings: one typed tree, from defaults, a file, the environment and flags; the later wins.

Invariants: an unknown key, in whichever source, stops the start and is named with its place; nothing is read from the
current folder or from a workspace, or what is reviewed could configure its own walls; a file that others may write is
refused. A setting may lower a limit; one that raises a limit or weakens a control begins with `unsafe_`.

Sources of the rules: `docs/reference/settings.md`; the XDG base directory specification (a relative XDG_CONFIG_HOME
is ignored).
"""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import msgspec

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.sections import SECTIONS, Settings

PREFIX = "FUMEHOOD_"
FILE = Path("fumehood") / "fumehood.toml"  # below the user's configuration folder

Tree: TypeAlias = dict[str, Any]

_PATH_WORDS = "must be an absolute path"
_SOCKET_WORDS = "must be ws://HOST:PORT or wss://HOST:PORT, without a path, for example ws://127.0.0.1:8777"
_URL_WORDS = "must be an http or https URL without user, query or fragment"


class SettingsError(RefusedError):
    """A setting is refused. `source` is the file, variable or flag; `line` counts from 1 where it is known."""

    code = "settings"

    def __init__(self, problem: str, *, source: str, key: str = "", line: int | None = None, remedy: str = "") -> None:
        """Say which setting of which source is refused, and why."""
        self.source = source
        self.key = key
        self.line = line
        place = f"{source}, line {line}" if line else source
        super().__init__(f"{place}: {f'{key}: ' if key else ''}{problem}", remedy=remedy)


def load(
    file: Path | None = None, *, environ: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """The settings from `file` (else the user's own file, if there is one), `environ` and `flags`.

    Flags are `section.field` → value; a value None is a flag that was not given. Errors: `SettingsError`.
    """
    tree: Tree = {}
    path = file or user_file(environ)
    if path is not None and (file is not None or os.path.lexists(path)):
        tree = _read_file(path)
    _merge(tree, _from_environment(environ))
    _merge(tree, _from_flags(flags or {}))
    return msgspec.convert(tree, Settings)


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where the user's own file would be; None when there is no absolute home."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    if folder.startswith("/"):
        return Path(folder) / FILE
    home = environ.get("HOME", "")
    return Path(home) / ".config" / FILE if home.startswith("/") else None


def _read_file(path: Path) -> Tree:
    source = ascii(str(path))[1:-1]
    return _convert(owned_text(path, source), source)


def _convert(text: str, source: str) -> Tree:
    """The tree that a file's text holds, checked, so that what is wrong can be named with its line."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more digits than Python reads
        raise SettingsError(f"not TOML: {_shown(str(error))}", source=source, remedy="correct the file") from None
    for section, key, known in _unknown(tree):
        name = f"{section}.{key}" if section else key
        line = _line_of(text, section, key)
        raise SettingsError("no such setting", source=source, key=_shown(name), line=line, remedy=_suggest(key, known))
    try:
        msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        problem, key = _place(error)
        section, _, field = key.rpartition(".")
        line = _line_of(text, section, field)
        raise SettingsError(problem, source=source, key=key, line=line, remedy=_REMEDY) from None
    return tree


_REMEDY = "see docs/reference/settings.md; a limit may be lowered, not raised"


def owned_text(path: Path, source: str, *, size: int = limits.SETTINGS_BYTES) -> str:
    """The file's text, when it is a regular file of a sane size that only its owner writes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise SettingsError(f"cannot be read: {why}", source=source, remedy="name a file that exists") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsError("is no regular file", source=source, remedy="name a file")
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & stat.S_IWOTH:
            raise SettingsError("others may write it", source=source, remedy="chown it to you and chmod o-w")
        data = os.read(descriptor, size + 1)
    finally:
        os.close(descriptor)
    if len(data) > size:
        raise SettingsError(f"larger than {size} bytes", source=source, remedy="make it smaller")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SettingsError("not UTF-8", source=source, remedy="save it as UTF-8") from None


def _from_environment(environ: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name in sorted(key for key in environ if key.startswith(PREFIX)):
        section, _, key = name.removeprefix(PREFIX).lower().rpartition("__")
        _put(tree, section, key, environ[name], source=f"environment variable {_shown(name)}")
    return tree


def _from_flags(flags: Mapping[str, object]) -> Tree:
    tree: Tree = {}
    for name, value in flags.items():
        section, _, key = name.rpartition(".")
        if value is not None:
            _put(tree, section, key, value, source=f"flag for {name}")
    return tree


def _put(tree: Tree, section: str, key: str, value: object, *, source: str) -> None:
    """Set one field from outside the file, where numbers may be written as text."""
    owner = SECTIONS.get(section) if section else Settings
    fields = {field.name: field for field in msgspec.structs.fields(owner)} if owner else {}
    if key not in fields or (not section and key in SECTIONS):
        known = [f"{PREFIX}{name.upper()}__FIELD" for name in SECTIONS] + [f"{PREFIX}ENVIRONMENT"]
        raise SettingsError("no such setting", source=source, remedy=f"settings are {', '.join(known)}")
    if isinstance(value, str) and get_origin(_bare(fields[key].type)) is tuple:
        value = tuple(word.strip() for word in value.split(",") if word.strip())  # a list in the environment
    try:
        converted = msgspec.convert(value, fields[key].type, strict=False)
    except msgspec.ValidationError as error:
        name = f"{section}.{key}" if section else key
        raise SettingsError(_place(error)[0], source=source, key=name, remedy=_REMEDY) from None
    (tree.setdefault(section, {}) if section else tree)[key] = converted


def _bare(kind: Any) -> Any:  # noqa: ANN401 - a type, as annotations hold it
    """A type without what `Annotated` says of it."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _merge(tree: Tree, later: Tree) -> None:
    for key, value in later.items():
        if isinstance(value, dict):
            tree[key] = {**tree.get(key, {}), **value}
        else:
            tree[key] = value


def _unknown(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Section, key and the known keys of each key that nobody knows."""
    top = [field.name for field in msgspec.structs.fields(Settings)]
    for key, value in tree.items():
        if key not in top:
            yield "", key, top
        elif key in SECTIONS and isinstance(value, dict):
            known = [field.name for field in msgspec.structs.fields(SECTIONS[key])]
            for inner in value:
                if inner not in known:
                    yield key, inner, known


def _line_of(text: str, section: str, key: str) -> int | None:
    """The line that seems to set a key: the right one in files that people write, None where it cannot be told."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]", line)
        if header:
            current = header[1]
            if not section and current == key:
                return number
        setting = re.match(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=", line)
        if setting and current == section and setting[1] == key:
            return number
    return None


def _place(error: msgspec.ValidationError) -> tuple[str, str]:
    """What is wrong in words, and the key."""
    problem, _, place = str(error).partition(" - at ")
    words = problem.replace("`", "")
    if "matching regex" in words:  # the pattern tells a person nothing
        named = {"wss?": _SOCKET_WORDS, "http": _URL_WORDS}
        words = next((said for part, said in named.items() if part in words), _PATH_WORDS)
    return words[0].lower() + words[1:], place.strip("`").removeprefix("$").removeprefix(".")


def _suggest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key[:60], known, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


def _shown(text: str) -> str:
    return ascii(text[:80])[1:-1]
