"""What the operator typed behind `--`: a plain command, a package to acquire, or what cannot be confined. Pure.

Invariants: nothing is guessed from a name that is not listed here; what would run outside of every wall (a container's
daemon), or would fetch and run whatever is newest, is refused with the reason; the words of a plain command are passed
on as they are, through no shell.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core.errors import RefusedError

_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "finch"})
_RIGHTS: Final = frozenset({"sudo", "su", "doas", "pkexec", "runuser"})
_PYTHON: Final = frozenset({"uvx", "pipx"})
_FETCHING: Final = {  # program → the words that make it fetch and run
    "uv": ("tool", "run"),
    "npm": ("exec", "x"),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "bun": ("x",),
}
_NPX_QUIET: Final = frozenset({"-y", "--yes", "-q", "--quiet"})
_PACKAGE: Final = re.compile(r"(?P<name>(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*)(?:@(?P<version>.*))?")
_EXACT: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")  # semver.org, 2.0.0
_SHOWN_CHARACTERS: Final = 40
_NAME_CHARACTERS: Final = 214  # of a package; npm's own bound
_VERSION_CHARACTERS: Final = 100


class CommandError(RefusedError):
    """A command that is not run under guard; the reason is in the message."""

    code = "guard_command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A program of this host, and its words."""

    program: str  # as typed
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of npm in one exact version, and the words of its program."""

    name: str
    version: str
    arguments: tuple[str, ...]


Command: TypeAlias = Plain | Package


def read(words: Sequence[str]) -> Command:
    """What these words are. Errors: `CommandError`."""
    if not words or not words[0]:
        raise CommandError("there is no command", remedy="fumehood guard -- COMMAND ARGS…")
    if any("\0" in word for word in words):
        raise CommandError("a word of the command has a NUL byte", remedy="leave it out")
    program, arguments = words[0], tuple(words[1:])
    name = posixpath.basename(program)
    if name in _CONTAINERS:
        why = "a container is started by its daemon, outside of every wall that stands here"
        raise CommandError(f"{name}: {why}", remedy="run the server's own program, or confine the container by its own")
    if name in _RIGHTS:
        raise CommandError(f"{name}: nobody gets other rights inside", remedy="name the program itself")
    if name in _PYTHON:
        raise CommandError(f"{name}: packages of PyPI cannot be acquired by fumehood", remedy=_INSTALLED)
    if name in {"npx", "bunx"}:
        return _npx(name, arguments)
    if arguments and arguments[0] in _FETCHING.get(name, ()):
        raise CommandError(f"{name} {arguments[0]}: it would fetch and run, without a pin", remedy=_INSTALLED)
    return Plain(program=program, arguments=arguments)


_INSTALLED: Final = "install the server, name its program, and let it read the folder of that"


def _npx(name: str, words: Sequence[str]) -> Package:
    """The one package that npx is to run."""
    rest = list(words)
    while rest and rest[0] in _NPX_QUIET:
        rest.pop(0)
    if rest and rest[0] == "--":
        rest.pop(0)
    if not rest or rest[0].startswith("-"):
        what = f"the option {rest[0][:60]!a} is not known" if rest else "it names no package"
        raise CommandError(f"{name}: {what}", remedy=f"{name} -y NAME@1.2.3 ARGS…")
    return package(rest[0], tuple(rest[1:]))


def package(word: str, arguments: tuple[str, ...] = ()) -> Package:
    """A package in one exact version. Errors: `CommandError`, which tells the exact form."""
    found = _PACKAGE.fullmatch(word)
    if not found or len(found["name"]) > _NAME_CHARACTERS:
        raise CommandError(f"{word[:120]!a} is no name of a package", remedy="npx -y NAME@1.2.3 ARGS…")
    name, version = found["name"], found["version"] or ""
    if not _EXACT.fullmatch(version) or len(version) > _VERSION_CHARACTERS:
        what = f"{version[:60]!a} may be another one tomorrow" if version else "no version is named"
        raise CommandError(
            f"{name}: {what}",
            remedy=f"write the exact one: npx -y {name}@1.2.3; npm view {name} version tells the newest",
        )
    return Package(name=name, version=version, arguments=arguments)


def server(found: Command) -> str:
    """What tells one server of this user from another: a word of its name, and a digest of what was typed.

    The version of a package is not in it, so that another version is held against the one before.
    """
    name = _name(found)
    typed = json.dumps([type(found).__name__, name, *found.arguments]).encode()
    return f"{word(found)}-{hashlib.sha256(typed).hexdigest()[:16]}"


def word(found: Command) -> str:
    """A word of its name."""
    shown = re.sub(r"[^A-Za-z0-9]+", "-", posixpath.basename(_name(found)))
    return shown[:_SHOWN_CHARACTERS].strip("-") or "server"


def _name(found: Command) -> str:
    return found.name if isinstance(found, Package) else found.program


def suggestion(program: str) -> str:
    """The folder that shows a program with what lies beside it: of `…/bin/NAME` the one above `bin`."""
    folder = posixpath.dirname(program)
    return posixpath.dirname(folder) if posixpath.basename(folder) == "bin" else folder
