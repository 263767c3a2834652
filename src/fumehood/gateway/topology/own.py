"""Servers of a client's list that are fumehood already: what is behind guard, and which folder is served. Pure."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_FLAGS: Final[Mapping[str, str]] = {
    "--allow-read": "allow_read",
    "--allow-write": "allow_write",
    "--allow-net": "allow_net",
    "--env": "env",
}
_PYTHON: Final = re.compile(r"python[0-9.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A command of fumehood: exactly one of `workspace` and `command`, unless it is `lost`, with the reason."""

    workspace: str | None = None
    command: tuple[str, ...] = ()
    policy: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lost: str = ""


def read(words: Sequence[str]) -> Own | None:
    """What these words start, where they start fumehood; None where they start something else."""
    rest = _behind(words)
    if rest is None:
        return None
    if rest[:1] == ["--settings"] or (rest and rest[0].startswith("--settings=")):
        return Own(lost="it has --settings of its own: the gateway has one for all, so write this server by hand")
    match rest[:1]:
        case ["serve"]:
            return _served(rest[1:])
        case ["guard"]:
            return _guarded(rest[1:])
    return Own(lost="it is fumehood itself, and neither serve nor guard")


def _behind(words: Sequence[str]) -> list[str] | None:
    name = posixpath.basename(words[0])
    if name == "fumehood":
        return list(words[1:])
    return list(words[3:]) if _PYTHON.fullmatch(name) and list(words[1:3]) == ["-m", "fumehood"] else None


def _served(words: list[str]) -> Own:
    found = _options(words, ("--workspace",))
    folders = found[0].get("--workspace", []) if found and not found[1] else []
    if len(folders) != 1:
        return Own(lost="it serves a folder with options that are not known here: write workspace by hand")
    return Own(workspace=folders[0])


def _guarded(words: list[str]) -> Own:
    found = _options(words, tuple(_FLAGS))
    if not found or not found[1]:
        return Own(lost="it is behind guard with options that are not known here: write its command and policy by hand")
    given, command = found
    return Own(command=tuple(command), policy={_FLAGS[flag]: tuple(values) for flag, values in given.items()})


def _options(words: list[str], known: Sequence[str]) -> tuple[dict[str, list[str]], list[str]] | None:
    """Options with one value each, and what stands behind `--` or the last one; None where one is not known."""
    given: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        flag, has, value = rest.pop(0).partition("=")
        if flag == "--" and not has:
            return given, rest
        if flag not in known or not (has or rest):
            return None
        given.setdefault(flag, []).append(value if has else rest.pop(0))
    return given, rest
