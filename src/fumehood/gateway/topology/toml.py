"""TOML 1.0: read within bounds; written as strings, lists of strings, booleans, keys, in ASCII, one line each. Pure.

The standard library reads TOML and writes none; what is written here is what snippets and imports need, and no more.
Its reader takes time that grows with the square of a dotted key, hours for one that fills a file, so that dots of one
line are counted first.
"""

import json
import re
import tomllib
from typing import Any, Final

from fumehood.core import limits

_NOT_ASCII: Final = re.compile("[^ -~]")
_BARE: Final = re.compile("[A-Za-z0-9_-]+")


def read(text: str) -> dict[str, Any]:
    """What a text holds; ValueError, which says why, where it holds nothing, or more than is read."""
    if len(text) > limits.TOPOLOGY_BYTES:
        raise ValueError(f"more than {limits.TOPOLOGY_BYTES} characters")
    if any(line.count(".") > limits.TOML_DOTS for line in text.split("\n")):
        raise ValueError(f"more than {limits.TOML_DOTS} dots in one line")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def value(given: object) -> str:
    """A string, a boolean, a whole number, or a list of those; ValueError for anything else.

    A basic string is JSON's, but for U+007F and the astral planes.
    """
    if isinstance(given, list | tuple):
        return f"[{', '.join(value(one) for one in given)}]"
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return repr(given)
    if isinstance(given, str):
        return _NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", json.dumps(given, ensure_ascii=False))
    raise ValueError("not a value that is written here")


def key(name: str) -> str:
    """A key, quoted where it has to be."""
    return name if _BARE.fullmatch(name) else value(name)


def keys(names: tuple[str, ...]) -> str:
    """Keys of tables within each other, as a header has them."""
    return ".".join(key(name) for name in names)
