"""Tools of the catalogue as a program knows them, and which of all tools a client is shown. Pure.

Inside of a program a tool has the name that a client sees: `tools.<server>__<tool>(arguments)`. There is one name
space, so that what a model found by `search_tools` is what it calls directly, writes in a program and names in a role.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from fumehood.code.backend import Tool
from fumehood.core import limits
from fumehood.core.errors import UnknownToolError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate.model import Offered
from fumehood.gateway.topology.model import SAVED

Show: TypeAlias = Literal["both", "direct", "code"]

SEARCH: Final = "search_tools"
DESCRIBE: Final = "describe_tools"
RUN: Final = "run_code"
OURS: Final = frozenset({SEARCH, DESCRIBE, RUN})

_SENTENCE: Final = re.compile(r"[.!?](?=\s)")


def is_shown(show: Show, offered: Offered) -> bool:
    """Whether a client is shown a tool, by `gateway.show`. A saved tool always is: it was made to be called.

    What is hidden is no matter of rights: a program may still call it, and what the gate allows it allows.
    """
    if offered.server == SAVED:
        return offered.name not in OURS or show != "direct"
    return show != "code"


def of_program(offered: Offered) -> Tool:
    """A tool as a program may search, read and call it."""
    definition = offered.definition
    output = definition.get("outputSchema")
    return Tool(
        name=offered.name,
        description=_words(definition),
        input_schema=_schema(definition.get("inputSchema")),
        output_schema=output if isinstance(output, dict) else None,
        writes=offered.writes,
    )


def named(every: Sequence[Offered], names: Sequence[str], finds: str = SEARCH) -> list[Offered]:
    """The tools of these names, each once, in the order of the names. `finds`: what finds others.

    `UnknownToolError` for the first that is none of them, in the same words whether it exists or not.
    """
    known = {one.name: one for one in every}
    found: list[Offered] = []
    for name in dict.fromkeys(names):
        if name not in known:
            shown = ascii(name[: limits.CODE_NAME_CHARACTERS])
            raise UnknownToolError(f"{shown} is no tool that you may use", remedy=f"{finds} finds those that you may")
        found.append(known[name])
    return found


def short(text: str) -> str:
    """The first sentence of a description in one line, or as much of it as is shown in a list."""
    line = " ".join(text[: 2 * limits.CODEMODE_SHORT_CHARACTERS].split())
    end = _SENTENCE.search(line)
    line = line[: end.end()] if end else line
    most = limits.CODEMODE_SHORT_CHARACTERS
    return line if len(line) <= most else line[: most - 1] + "…"


def _words(definition: JsonObject) -> str:
    """Its description, else its title."""
    words = definition.get("description")
    words = words if isinstance(words, str) and words else definition.get("title")
    return words if isinstance(words, str) else ""


def _schema(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {"type": "object"}
