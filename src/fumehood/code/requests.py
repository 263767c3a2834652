"""What a program asks of the bridge, read from a call's arguments. Pure.

A call whose envelope is right and whose arguments are not is the program's mistake, and no breach of the protocol:
`read` says which form is expected, and the program gets to see it.

Source: `docs/reference/code.md`.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from fumehood.code.messages import Method
from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError
from fumehood.core.jsonio import JsonValue

_OPTIONS: Final = 2  # arguments that `search` and `run` take at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Ask which tools fit a query."""

    query: str
    limit: int = limits.CODE_FOUND_TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Ask how tools are called."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """Call one tool."""

    name: str
    arguments: JsonValue


Request: TypeAlias = Search | Describe | RunTool


def read(method: Method, args: list[Any]) -> Request:
    """What a call asks for; `InvalidArgumentsError` with the expected form."""
    match method:
        case "search":
            return _search(args)
        case "describe":
            return _describe(args)
        case "run":
            return _run(args)
        case _:
            assert_never(method)


def _search(args: list[Any]) -> Search:
    most = limits.CODE_FOUND_TOOLS_MAX
    form = f"amcp.search(query, {{limit}}): query is a text, limit a whole number from 1 to {most}"
    match args:
        case [str(query)] | [str(query), None] if _is_query(query):
            return Search(query=query)
        case [str(query), {**options}] if _is_query(query) and set(options) <= {"limit"}:
            limit = options.get("limit")
            if limit is None:
                return Search(query=query)
            if type(limit) is int and 1 <= limit <= most:
                return Search(query=query, limit=limit)
    raise InvalidArgumentsError(form)


def _describe(args: list[Any]) -> Describe:
    most = limits.CODE_DESCRIBED_TOOLS
    match args:
        case [str(name)] if _is_name(name):
            return Describe(names=(name,))
        case [[*names]] if 1 <= len(names) <= most and all(map(_is_name, names)):
            return Describe(names=tuple(names))
    raise InvalidArgumentsError(f"amcp.describe(names): names is a list of 1 to {most} names of tools")


def _run(args: list[Any]) -> RunTool:
    if 1 <= len(args) <= _OPTIONS and _is_name(args[0]):
        arguments = args[1] if len(args) == _OPTIONS else None
        if arguments is None or isinstance(arguments, dict):
            return RunTool(name=args[0], arguments=arguments or {})
    most = limits.CODE_NAME_CHARACTERS
    raise InvalidArgumentsError(f"amcp.run(name, args): name is a text of at most {most} characters, args an object")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= limits.CODE_NAME_CHARACTERS and value.isprintable()


def _is_query(value: str) -> bool:
    return len(value) <= limits.CODE_QUERY_CHARACTERS
