"""Cursors: where the next page of an answer begins. Pure.

A cursor is opaque to a client and holds no secret and no name, which redaction would have to take out: a position, and
a digest of the question, so that it fits the same tool with the same arguments only. It is not signed: what a
forged one could name is a position, and each tool checks that as it checks any argument.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping

from fumehood.core import jsonio, limits
from fumehood.core.errors import BadCursorError
from fumehood.core.jsonio import JsonValue

_DIGEST_CHARACTERS = 12  # enough to tell questions apart; it protects nothing
_NAME_CHARACTERS = 24  # enough to tell the names of a tree apart
_REMEDY = "take `next_cursor` from the last result and leave the other arguments as they were"


def make(tool: str, arguments: Mapping[str, JsonValue], position: Mapping[str, JsonValue]) -> str:
    """The cursor for `position` in the answer to these arguments; their own `cursor` does not count."""
    document = {"q": _digest(tool, arguments), "p": dict(position)}
    return base64.urlsafe_b64encode(jsonio.dump(document)).rstrip(b"=").decode("ascii")


def read(tool: str, arguments: Mapping[str, JsonValue], text: str) -> dict[str, JsonValue]:
    """The position that a cursor holds; BadCursorError when it was not made for this question."""
    if len(text) > limits.CURSOR_CHARACTERS:
        raise BadCursorError("the cursor is too long", remedy=_REMEDY)
    try:
        document = jsonio.parse(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, jsonio.JsonError):
        raise BadCursorError("the cursor is none of ours", remedy=_REMEDY) from None
    position = document.get("p") if isinstance(document, dict) and set(document) == {"q", "p"} else None
    if not isinstance(document, dict) or not isinstance(position, dict):
        raise BadCursorError("the cursor is none of ours", remedy=_REMEDY)
    if document["q"] != _digest(tool, arguments):
        raise BadCursorError("the cursor belongs to another question", remedy=_REMEDY)
    return position


def whole(position: Mapping[str, JsonValue], key: str) -> int:
    """A number of a position, from 0; BadCursorError when it is none."""
    value = position.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadCursorError("the cursor is none of ours", remedy=_REMEDY)
    return value


def named(name: bytes) -> str:
    """What stands for a name or path in a position."""
    return hashlib.sha256(name).hexdigest()[:_NAME_CHARACTERS]


def _digest(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    asked = {key: value for key, value in sorted(arguments.items()) if key != "cursor"}
    return hashlib.sha256(jsonio.dump([tool, asked])).hexdigest()[:_DIGEST_CHARACTERS]
