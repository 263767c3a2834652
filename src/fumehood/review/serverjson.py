"""A registry's `server.json` as requests: for each package what is reviewed, and what of it is not passed on. Pure.

Invariants: nothing of a file becomes a command, an environment or a credential; of its arguments only fixed or default
values that are no secrets become the server's own arguments; a package that is not run from npm or a Python index over
stdio is refused by name; and what was left out is said, in the operator's words and not in the file's.

Source: the MCP registry's schema of `server.json` (`packages`, `packageArguments`, `environmentVariables`), in the
form since September 2025, alone or as `server` in an answer of the registry's API.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonValue

PACKAGES = 32  # of one file; those of the field have one or two
_KINDS = {"npm": "npm", "pypi": "pypi"}
_ARGUMENTS = 32  # as many as a request may have
_NAMED = 64  # names of variables that are listed
_VARIABLE = re.compile(r"\{([A-Za-z0-9_.-]{1,100})\}")
_OLD = ("registry_type", "registry_name", "package_arguments", "environment_variables")


class ServerJsonError(RefusedError):
    """A file is no `server.json` that a review can be made of; says which rule, and the next step."""

    code = "server_json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One package of the file: what is reviewed, or why it is not."""

    place: str  # "packages[0]"
    target: dict[str, JsonValue]
    argv: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # in words
    refused: str = ""


def is_one(value: JsonValue) -> bool:
    """Whether a JSON value is meant as a `server.json`, and not as a request."""
    server = _server(value)
    return "schema_version" not in server and ("packages" in server or "remotes" in server)


def parse(data: bytes) -> tuple[Offer, ...]:
    """What the file offers, package by package; `JsonError` or `ServerJsonError` where it is no such file."""
    return offers(jsonio.parse(data, size=limits.JSON_REQUEST_BYTES))


def offers(value: JsonValue) -> tuple[Offer, ...]:
    """The same of a JSON value."""
    server = _server(value)
    packages = server.get("packages")
    if not isinstance(server.get("name"), str) or not isinstance(packages, list) or not packages:
        if isinstance(server.get("remotes"), list):
            raise ServerJsonError(
                "the file names remote servers alone, and a review runs what it reviews",
                remedy="review the package or the repository that the remote server is made of",
            )
        raise ServerJsonError(
            "the file is no server.json with packages", remedy="name a file of the MCP registry's form"
        )
    if len(packages) > PACKAGES:
        raise ServerJsonError(
            f"the file has more than {PACKAGES} packages", remedy="keep those that are to be reviewed"
        )
    return tuple(_offer(f"packages[{number}]", package) for number, package in enumerate(packages))


def chosen(found: tuple[Offer, ...], number: int | None) -> tuple[Offer, ...]:
    """The offers that requests are made of: one by its number from 0, or all that are not refused; none is an error."""
    if number is not None and not 0 <= number < len(found):
        raise ServerJsonError(f"there is no package {number}", remedy=f"name one from 0 to {len(found) - 1}")
    wanted = found if number is None else (found[number],)
    usable = tuple(offer for offer in wanted if not offer.refused)
    if not usable:
        reasons = "; ".join(f"{offer.place}: {offer.refused}" for offer in wanted)
        raise ServerJsonError(
            reasons, remedy="only npm and pypi packages over stdio, of one exact version, are reviewed"
        )
    return usable


def _server(value: JsonValue) -> dict[str, Any]:
    """The description itself, which the registry's API wraps."""
    if not isinstance(value, dict):
        return {}
    inner = value.get("server")
    return inner if isinstance(inner, dict) else value


def _offer(place: str, package: object) -> Offer:
    if not isinstance(package, dict):
        return Offer(place=place, target={}, refused="is no object")
    refused = _refused(package)
    if refused:
        return Offer(place=place, target={}, refused=refused)
    kind = _KINDS[package["registryType"]]
    target: dict[str, JsonValue] = {"kind": kind, "name": package["identifier"], "version": package["version"]}
    argv: list[str] = []
    left_out: list[str] = []
    for number, argument in enumerate(_list(package, "packageArguments")):
        words, why = _words(argument)
        argv += words
        if why:
            left_out.append(f"packageArguments[{number}]: {why}")
    if len(argv) > _ARGUMENTS:
        left_out.append(f"packageArguments: {len(argv) - _ARGUMENTS} beyond the {_ARGUMENTS} that a request may have")
    left_out += _beside(package)
    return Offer(place=place, target=target, argv=tuple(argv[:_ARGUMENTS]), left_out=tuple(left_out))


def _refused(package: dict[str, Any]) -> str:
    """Why a package is not reviewed, or nothing."""
    if any(name in package for name in _OLD) and "registryType" not in package:
        return "is of the form before September 2025 (registry_type), which is not read"
    kind = package.get("registryType")
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"registryType {_shown(kind)} is not reviewed"
    transport = package.get("transport")
    spoken = transport.get("type") if isinstance(transport, dict) else None
    if spoken != "stdio":
        return f"transport {_shown(spoken)} is not reviewed"
    if not isinstance(package.get("identifier"), str):
        return "has no identifier"
    version = package.get("version")
    if not isinstance(version, str) or version == "latest":
        return "names no exact version"
    return ""


def _words(argument: object) -> tuple[list[str], str]:
    """The words that one argument becomes, and why it becomes none or not all that it may."""
    if not isinstance(argument, dict):
        return [], "is no object"
    value = _value(argument)
    required = argument.get("isRequired") is True
    named = argument.get("type") == "named"
    name = argument.get("name")
    if named and not isinstance(name, str):
        return [], "has no name"
    if argument.get("isSecret") is True or _has_secret(argument):
        return [], f"a secret{', which is required' if required else ''}, is not given"
    if value is None:
        fixed_flag = named and not ({"value", "default", "valueHint", "variables", "choices"} & argument.keys())
        if fixed_flag and (argument.get("format") in (None, "boolean")) and required:
            return [str(name)], ""
        return [], f"has no value{', and is required' if required else ''}: name it by --argv"
    return ([f"{name}={value}"] if named else [value]), ""


def _value(argument: dict[str, Any]) -> str | None:
    """The fixed or else the default value, its variables replaced by theirs; None where one is not known."""
    text = argument.get("value", argument.get("default"))
    if not isinstance(text, str):
        return None
    variables = argument.get("variables")
    known = variables if isinstance(variables, dict) else {}
    unknown: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        described = known.get(found[1])
        said = described.get("value", described.get("default")) if isinstance(described, dict) else None
        if isinstance(said, str):
            return said
        if described is not None:
            unknown.append(found[1])
        return found[0]

    made = _VARIABLE.sub(replaced, text)
    return None if unknown else made


def _has_secret(argument: dict[str, Any]) -> bool:
    """Whether a variable that the value is made of is a secret."""
    variables = argument.get("variables")
    described = variables.values() if isinstance(variables, dict) else ()
    return any(isinstance(one, dict) and one.get("isSecret") is True for one in described)


def _beside(package: dict[str, Any]) -> Iterator[str]:
    """What else a client would have passed on or heeded, and a review does not."""
    secrets: list[str] = []
    others: list[str] = []
    for variable in _list(package, "environmentVariables")[:_NAMED]:
        if isinstance(variable, dict):
            required = " (required)" if variable.get("isRequired") is True else ""
            listed = secrets if variable.get("isSecret") is True else others
            listed.append(f"{_shown(variable.get('name'))}{required}")
    if secrets:
        yield f"secret variables are not given: {', '.join(secrets)}"
    if others:
        yield f"variables are not given: {', '.join(others)}"
    if _list(package, "runtimeArguments"):
        yield "runtimeArguments are words for a client's own runner, and are not passed on"
    if package.get("registryBaseUrl") is not None:
        yield "registryBaseUrl is not heeded: packages come from the operator's registry or index"
    if package.get("fileSha256") is not None:
        yield "fileSha256 is not compared: the result has the digest of what was fetched"


def _list(package: dict[str, Any], name: str) -> list[Any]:
    found = package.get(name)
    return found if isinstance(found, list) else []


def _shown(text: object) -> str:
    """Foreign text, cut and inert."""
    if not isinstance(text, str):
        return "of no known form"
    return ascii(text if len(text) <= 60 else text[:60] + "…")  # noqa: PLR2004 - a part of one line
