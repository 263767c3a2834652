"""TOML 1.0 as we write it: strings, lists of strings, booleans, keys; ASCII, one line each. Pure.

The standard library reads TOML and writes none; what is written here is what snippets and imports need, and no more.
"""

import json
import re
from typing import Final

_NOT_ASCII: Final = re.compile("[^ -~]")
_BARE: Final = re.compile("[A-Za-z0-9_-]+")


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
