"""What a server of a client's file becomes, line by line; and what of it is nobody's business. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fumehood.gateway.topology import toml

BEARER: Final = re.compile(r"bearer[ ]+(.*)", re.IGNORECASE | re.DOTALL)
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_LONG: Final = 8  # characters of a value from which on it is looked for in the words of a command


@dataclass(slots=True, kw_only=True)
class Piece:
    """What is made of one server."""

    name: str
    lines: list[str] = field(default_factory=list)  # of its table
    policy: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    off: bool = False  # whether it would not be started as it was meant
    lost: str = ""  # why nothing can be made of it

    def text(self) -> str:
        """The lines of TOML."""
        head = [f"# {one}" for one in self.comments]
        if self.lost:
            return "\n".join([*head, f"# {self.name} is not carried over: {self.lost}"])
        body = [f"[{toml.keys(('servers', self.name))}]", *self.lines, *(["enabled = false"] if self.off else [])]
        policy = ["", f"[{toml.keys(('servers', self.name, 'policy'))}]", *self.policy] if self.policy else []
        return "\n".join([*head, *body, *policy])


def values(given: Mapping[str, Any]) -> Iterator[str]:
    """Values that are nobody's business: those of variables and headers, unless they are short, or only a place."""
    for key in ("env", "headers", "http_headers"):
        for value in table(given.get(key)).values():
            if isinstance(value, str) and len(value) >= _LONG and not value.startswith(("/", "~")):
                yield value
                bearer = BEARER.fullmatch(value)
                if bearer and len(bearer[1]) >= _LONG:
                    yield bearer[1]


def made_up(server: str, name: str) -> str:
    """The name of a variable for a value that is not copied."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{server}_{name}").strip("_").upper()
    return f"MCP_{words}" if words.startswith("FUMEHOOD_") or not VARIABLE.fullmatch(words) else words


def table(value: object) -> Mapping[str, Any]:
    """A table, or an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """A list, or an empty one."""
    return value if isinstance(value, list) else []


def inert(text: str) -> str:
    """Words of ours about foreign ones, in ASCII."""
    return ascii(text.replace("…", "..."))[1:-1]
