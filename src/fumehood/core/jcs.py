"""Write a JSON value in the one form of RFC 8785 (JSON Canonicalization Scheme): a digest of it is of the value.

Invariants: the same value gives the same bytes, whatever order its members were made in; names are sorted by their
UTF-16 code units, nothing is escaped that need not be, and no white space stands between.
Not promised: floats. Their one spelling is ECMAScript's, and nothing of ours that is digested or signed has any: they
are refused, and so is an integer that a double does not hold.
"""

import json

_EXACT = 2**53 - 1  # RFC 8785, 3.2.2.3: numbers are doubles


def encode(value: object) -> bytes:
    """The canonical bytes of `value`: UTF-8 without a line end. Errors: ValueError for what has no such form."""
    return _text(value).encode("utf-8")  # half of a surrogate pair: UnicodeEncodeError is a ValueError


def exact(value: object) -> object:
    """`value` with text in the place of what has no canonical form here: fractions, integers that no double holds."""
    match value:
        case dict():
            return {name: exact(entry) for name, entry in value.items()}
        case list() | tuple():
            return [exact(entry) for entry in value]
        case float():
            return int(value) if value.is_integer() and abs(value) <= _EXACT else repr(value)
        case int() if not isinstance(value, bool) and abs(value) > _EXACT:
            return str(int(value))
        case _:
            return value


def _text(value: object) -> str:
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            if abs(value) > _EXACT:
                raise ValueError("an integer that a double does not hold has no canonical form")
            return str(int(value))
        case list() | tuple():
            return f"[{','.join(_text(entry) for entry in value)}]"
        case dict():
            return f"{{{','.join(_member(name, value[name]) for name in sorted(value, key=_order))}}}"
        case _:
            raise ValueError(f"a {type(value).__name__} has no canonical form here")


def _member(name: object, value: object) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:{_text(value)}"


def _order(name: object) -> bytes:
    if not isinstance(name, str):
        raise ValueError("a member's name is text")  # noqa: TRY004 - whoever writes catches one kind of error
    return name.encode("utf-16-be")
