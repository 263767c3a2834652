"""What is really there: the paths of a policy, the program that was typed, the variables that are set. Reads only.

Each path is resolved once, here, and what it resolved to is what is mounted.
"""

import contextlib
import os
import pwd
import stat
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import fumehood
from fumehood.core import settings
from fumehood.core.sections import Settings
from fumehood.gateway.guard import acquire, command, places, walls
from fumehood.gateway.guard.acquire import CacheError
from fumehood.gateway.guard.command import CommandError, Plain
from fumehood.gateway.guard.installed import Installed
from fumehood.gateway.guard.places import Kind, Own, Place, Spelling
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.guard.walls import Ready
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.spec import Bind, Route

_STARTING: Final = (  # by clients, by git, by editors and shells
    ".mcp.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".vscode",
    ".claude",
    ".codex",
    ".git",
    ".envrc",
)
_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".rb", ".php", ".jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Of whom and what the answers depend on."""

    host: HostFacts
    settings: Settings
    environ: Mapping[str, str]
    folder: str  # the current one
    files: tuple[str, ...] = ()  # of settings and policy, as named by flags
    uid: int  # of the server
    spelling: Spelling = places.FLAGS  # of the policy


def decide(wanted: Plain | Installed, policy: GuardPolicy, around: Surroundings) -> tuple[Ready, list[str]]:
    """The server in all its parts, and what the operator is told. Errors: `GuardPolicyError`, `CommandError`."""
    found = [_place(path, around, writable=False) for path in policy.allow_read]
    found += [_place(path, around, writable=True) for path in policy.allow_write]
    binds = places.binds(found, _own(policy, around))
    passed = {name: around.environ[name] for name in policy.env if name in around.environ}
    unset = (name for name in policy.env if name not in passed)
    said = [*places.notes(found), *(f"{around.spelling.env} {name}: it is not set" for name in unset)]
    said += _started(binds)
    said += _hidden(wanted.arguments, binds, around)
    ready = Ready(argv=(), policy=policy, binds=binds, passed=passed, folder=around.folder)
    if isinstance(wanted, Installed):
        _demand_reachable(wanted, around)
        return walls.package(wanted, ready), said
    program = _program(wanted.program, around)
    _demand_shown(program, binds, around.spelling)
    return replace(ready, argv=(program, *wanted.arguments)), said


def _demand_reachable(found: Installed, around: Surroundings) -> None:
    for path in (found.folder, found.node):
        if problem := _unreachable(path, around, writable=False):
            words = f"{found.record.name} lies in {path}: {problem}"
            raise CommandError(words, remedy="set XDG_CACHE_HOME, or run fumehood as an ordinary user")


# --- paths


def _place(asked: str, around: Surroundings, *, writable: bool) -> Place:
    path = asked.rstrip("/") or "/"
    resolved = os.path.realpath(path)
    kind = _kind(resolved)
    unreachable = "" if kind == "missing" else _unreachable(resolved, around, writable=writable)
    found = Place(asked=path, resolved=resolved, kind=kind, writable=writable, unreachable=unreachable)
    return replace(found, spelling=around.spelling)


def _kind(path: str) -> Kind:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - of the path that is mounted
    except OSError:
        return "missing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def _unreachable(path: str, around: Surroundings, *, writable: bool) -> str:
    """Why a server that runs as another user than we could not use this; empty when it could."""
    if around.uid == os.geteuid():
        return ""
    own = Path(path)
    above = own.parents if around.host.routes[:1] == (Route.DROPPED,) else ()
    if closed := next((one for one in (*above, own) if not _open(one, stat.S_IXOTH, folder=True)), None):
        return f"as root the server runs as a user of its own, who may not enter {closed}"
    if not _open(own, stat.S_IROTH):
        return "as root the server runs as a user of its own, who may not read it"
    if writable and not _open(own, stat.S_IWOTH):
        return "as root the server runs as a user of its own, who may not write it"
    return ""


def _open(path: Path, bit: int, *, folder: bool = False) -> bool:
    mode = path.stat().st_mode
    return bool(mode & bit) or (folder and not stat.S_ISDIR(mode))


def _own(policy: GuardPolicy, around: Surroundings) -> Own:
    """What no server gets to see, and what none gets to write."""
    user = settings.user_file(around.environ)
    made = around.settings
    named = [made.log.audit_file, policy.audit_file, made.http.token_file, made.code.token_file]
    named += [made.code.runner_token_file, made.http.tls_key, made.http.unix_socket]
    kept = [*around.files, str(around.host.run_root), *(one for one in named if one)]
    kept += [str(user.parent)] if user is not None else []
    return Own(
        kept=tuple(os.path.realpath(one) for one in kept),
        programs=tuple(os.path.realpath(one) for one in _programs(made, around.environ)),
        homes=tuple(sorted({os.path.realpath(one) for one in _homes(around.environ)})),
    )


def _programs(made: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """What a server that wrote it would run as the operator, or would weaken fumehood by, at its next start."""
    yield str(Path(fumehood.__file__ or "/usr").parents[1])  # with what lies beside it: its dependencies
    yield from (sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    with contextlib.suppress(CacheError):  # no home, no cache
        yield str(acquire.cache_folder(environ))
    yield from map(str, made.sandbox.tools.values())
    files = (made.content.rules_file, made.review.ca_file, made.http.oauth_keys_file, made.http.tls_certificate)
    yield from (one for one in files if one)


def _homes(environ: Mapping[str, str]) -> Iterator[str]:
    """Folders that are somebody's home: those of users who may log in, and the operator's."""
    if environ.get("HOME", "").startswith("/"):
        yield environ["HOME"]
    for user in pwd.getpwall():
        if user.pw_dir not in {"", "/", "/nonexistent"} and not user.pw_shell.endswith(("nologin", "false")):
            yield user.pw_dir


# --- the program


def _program(typed: str, around: Surroundings) -> str:
    """The absolute path of what was typed, by the operator's PATH. Errors: `CommandError`."""
    if "/" in typed:
        path = os.path.normpath(os.path.join(around.folder, typed))  # noqa: PTH118 - a link in it is left as it is
        if not _is_program(path):
            raise CommandError(f"{typed!a} is no program", remedy="name a file that can be run")
        return path
    for folder in around.environ.get("PATH", "").split(os.pathsep):
        path = os.path.normpath(f"{folder}/{typed}")
        if folder.startswith("/") and _is_program(path):
            return path
    raise CommandError(f"{typed!a} is not found on PATH", remedy="write its whole path")


def _is_program(path: str) -> bool:
    return _kind(os.path.realpath(path)) == "file" and os.access(path, os.X_OK)


def _demand_shown(program: str, binds: Sequence[Bind], spelling: Spelling) -> None:
    resolved = os.path.realpath(program)
    for path in dict.fromkeys((program, resolved)):
        if not places.is_shown(path, binds):
            leads = f", which leads to {resolved}" if path != program else ""
            words = f"the program is {program}{leads}: the server does not see it"
            raise CommandError(words, remedy=spelling.shows(command.suggestion(path)))


def _started(binds: Sequence[Bind]) -> list[str]:
    """Files of a folder that may be written which other programs start something by, outside of every wall."""
    return [
        f"{bind.target}/{name} starts programs outside of these walls, and the server may write it"
        for bind in binds
        for name in _STARTING
        if bind.writable and os.path.lexists(bind.source / name)
    ]


def _hidden(words: Sequence[str], binds: Sequence[Bind], around: Surroundings) -> list[str]:
    """Words of the command that name what is there and would not be seen."""
    said = []
    for word in words:
        path = os.path.normpath(os.path.join(around.folder, word))  # noqa: PTH118 - as above
        named = word.startswith(("/", "./", "../")) or word.endswith(_SCRIPTS)
        if named and "\0" not in word and not places.is_shown(path, binds) and os.path.lexists(path):
            said.append(f"{path} is there, and the server does not see it: {around.spelling.read} shows it")
    return said
