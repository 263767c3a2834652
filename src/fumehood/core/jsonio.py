"""JSON from outside, read strictly and within bounds; JSON of ours, written so that it is inert.

Invariants: what `parse` returns came from exactly one document of RFC 8259 in UTF-8 without a byte order mark, at
most `size` bytes long, `depth` containers deep and JSON_VALUES values large, in which no object has a key twice, every
number is finite and every integer fits 64 bits, and no string holds half of a surrogate pair. Depth is decided before
anything recurses.
`dump` gives the same bytes for the same value, ASCII only and without control characters but line ends.

Not promised: that a document of many small values is cheap: a value of one byte takes some 60 in memory.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NoReturn, TypeAlias

import msgspec

from fumehood.core import limits
from fumehood.core.errors import RefusedError

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

_BOM = b"\xef\xbb\xbf"
_INTEGERS = range(-(2**63), 2**64)  # what every reader of ours and of our readers can hold
# Where no number looks like this, each fits: fewer than 19 digits in a row, and an exponent of at most two.
_LARGE_NUMBER = re.compile(r"[0-9]{19}|[eE][+-]?[0-9]{3}")
_SHOWN_KEY = 60  # characters of a foreign key in a message

# Each pattern matches whatever follows its first character, so none backtracks. (Possessive groups would say so
# aloud, but before CPython 3.11.5 they match wrongly: gh-106052.)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPE_BYTES = re.compile(rb"\\.", re.DOTALL)
_STRING_BYTES = re.compile(rb'"[^"]*"?')  # once the escapes are gone
_TOKEN = re.compile(r'"[^"]*"?|[\[\]{}:,]|[^\s"\[\]{}:,]+')  # once the escapes are blank
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_WHOLE_ESCAPE = re.compile(rf"\\(?:[^u]|u(?![dD][89a-fA-F])|{_PAIR})", re.DOTALL)
_HALF = re.compile(rf"{_WHOLE_ESCAPE.pattern}|(\\)", re.DOTALL)

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = [0] * 256
for _byte in b"[{":
    _STEP[_byte] = 1
for _byte in b"]}":
    _STEP[_byte] = -1


class JsonError(RefusedError):
    """A document is not JSON as we read it. `offset` counts characters from 0, `line` and `column` from 1."""

    code = "bad_json"

    def __init__(self, problem: str, *, text: str = "", offset: int = 0, remedy: str = "") -> None:
        """Say what is wrong and where."""
        before = text[:offset]
        self.problem = problem
        self.offset = offset
        self.line = before.count("\n") + 1
        self.column = offset - before.rfind("\n")
        super().__init__(f"not JSON: line {self.line}, column {self.column}: {problem}", remedy=remedy)


class _RepeatedKeyError(ValueError):
    """An object has a key twice; the message is the key."""


class _NumberError(ValueError):
    """A number is not one that we read."""


def parse(
    data: bytes, *, depth: int = limits.JSON_DEPTH, size: int = limits.JSON_REQUEST_BYTES, locate: bool = True
) -> JsonValue:
    """The value of one strict JSON document; anything else is a `JsonError`.

    `locate`: whether an error is to say where: finding the place of what loops of C have refused takes a second for
    each 2 MiB. Without it the place may be the beginning of the document.
    """
    if len(data) > size:
        raise JsonError(f"{len(data)} bytes, where at most {size} are read", remedy="send a smaller document")
    if data.startswith(_BOM):
        raise JsonError("a byte order mark", remedy="save the document as UTF-8 without a byte order mark")
    text = _decode(data)
    _refuse_large(data, text, depth, locate=locate)
    value = _read(text, locate=locate)
    if _has_half_pair(text):
        _refuse("half of a surrogate pair", text, _half_pair_offset(text) if locate else 0)
    return value


def dump(value: object, *, indent: int | None = None, sort_keys: bool = False) -> bytes:
    """`value` as one ASCII document in its own key order, with a line end; ValueError for what `parse` would refuse."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        value, ensure_ascii=True, allow_nan=False, separators=separators, indent=indent, sort_keys=sort_keys
    )
    if _has_half_pair(text):
        raise ValueError("half of a surrogate pair cannot be written as JSON")
    return text.encode("ascii") + b"\n"


def canonical(value: object) -> bytes:
    """What `dump` writes with sorted keys: the form of a value that digests are made of."""
    return dump(value, sort_keys=True)


def line(value: object) -> bytes:
    """What `dump` writes, three times as fast where it is plain text; a float may be spelled otherwise.

    The faster writer takes more than JSON (a set, a date) and writes null for NaN: what it wrote is read again, and
    counts only when it is the same value.
    """
    try:
        quick = msgspec.json.encode(value)
        if quick.isascii() and b"\x7f" not in quick and msgspec.json.decode(quick) == value:
            return quick + b"\n"
    except (TypeError, ValueError, RecursionError):  # `dump` says what is wrong, if it is
        pass
    return dump(value)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise JsonError("not UTF-8", text=before, offset=len(before), remedy="save the document as UTF-8") from None


def _refuse_large(data: bytes, text: str, depth: int, *, locate: bool) -> None:
    """Count marks outside strings, in loops of C; only a refusal looks for the place."""
    plain = _ESCAPE_BYTES.sub(b"", data) if b"\\" in data else data
    marks = _STRING_BYTES.sub(b"", plain)
    brackets = marks.translate(None, _NOT_BRACKETS)
    if marks.count(b",") + brackets.count(b"[") + brackets.count(b"{") > limits.JSON_VALUES:
        raise JsonError(f"more than {limits.JSON_VALUES} values", remedy="send a smaller document")
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) <= depth:
        return
    level = 0
    if not locate:
        _refuse(f"nested deeper than {depth}", text, 0)
    for offset, token in _tokens(text):
        level += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        if level > depth:
            _refuse(f"nested deeper than {depth}", text, offset)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Strings, marks and literals with their places. Slow; for finding the place of what is refused."""
    for token in _TOKEN.finditer(_ESCAPE.sub("__", text)):
        yield token.start(), text[token.start() : token.end()]


def _read(text: str, *, locate: bool) -> JsonValue:
    large = _LARGE_NUMBER.search(text) is not None
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer if large else None,
            parse_float=_float if large else None,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        _refuse(error.msg[0].lower() + error.msg[1:], text, error.pos)
    except _RepeatedKeyError as error:
        offset, key = next(_repeated(text)) if locate else (0, str(error))
        _refuse(f"the key {_shown(key)} occurs twice in one object", text, offset)
    except _NumberError as error:
        _refuse(str(error), text, _number_offset(text) if locate else 0)
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RepeatedKeyError(_first_repeated(pairs))
    return result


def _first_repeated(pairs: list[tuple[str, JsonValue]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return ""


def _integer(literal: str) -> int:
    if len(literal) > limits.JSON_NUMBER_CHARS or (number := int(literal)) not in _INTEGERS:
        raise _NumberError("an integer that does not fit 64 bits")
    return number


def _float(literal: str) -> float:
    if len(literal) > limits.JSON_NUMBER_CHARS:
        raise _NumberError(f"a number of more than {limits.JSON_NUMBER_CHARS} characters")
    number = float(literal)
    if not math.isfinite(number):
        raise _NumberError("a number that is too large")
    return number


def _constant(literal: str) -> NoReturn:
    raise _NumberError(f"{literal} is not a JSON number")


def _number_offset(text: str) -> int:
    """Where the first number stands that one of the three hooks refuses."""
    for offset, literal in _tokens(text):
        if literal in {"NaN", "Infinity", "-Infinity"}:
            return offset
        if literal[0] in "-0123456789" and _refused(_float if set(literal) & set(".eE") else _integer, literal):
            return offset
    return 0


def _refused(hook: Callable[[str], object], literal: str) -> bool:
    try:
        hook(literal)
    except ValueError:
        return True
    return False


def _repeated(text: str) -> Iterator[tuple[int, str]]:
    """Each place where a key stands for the second time in its object. Only for text that parsed up to there."""
    open_objects: list[set[str] | None] = []  # the keys seen so far; None for an array
    previous: tuple[int, str] = (0, "")
    for offset, mark in _tokens(text):
        if mark in {"{", "["}:
            open_objects.append(set() if mark == "{" else None)
        elif mark in {"}", "]"}:
            open_objects.pop()
        elif mark == ":" and (keys := open_objects[-1]) is not None:
            key: str = json.loads(previous[1])
            if key in keys:
                yield previous[0], key
            keys.add(key)
        previous = (offset, mark)


def _has_half_pair(text: str) -> bool:
    """Whether an escape is half of a surrogate pair: such a string has no UTF-8 form."""
    return _SURROGATE.search(text) is not None and "\\" in _WHOLE_ESCAPE.sub("", text)


def _half_pair_offset(text: str) -> int:
    return next(escape.start() for escape in _HALF.finditer(text) if escape[1])


def _shown(key: str) -> str:
    """A foreign key, cut and inert."""
    return ascii(key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…")


def _refuse(problem: str, text: str, offset: int) -> NoReturn:
    raise JsonError(problem, text=text, offset=offset, remedy="correct the document there")
