"""Numbers that a schema allows, and small questions about values. Pure."""

import math
import sys
from typing import Final

from fumehood.core.jsonio import JsonValue
from fumehood.review.inputs.flat import Flat, is_number

_INTEGERS: Final = 2**53 - 1  # every reader holds these


def near(wanted: float, schema: Flat, *, whole: bool) -> int | float:
    """The number nearest to the wanted one that the schema allows, as far as that is simple."""
    low, high = _bounds(schema, whole=whole)
    step = schema.get("multipleOf")
    number = min(max(wanted, low), high)
    if is_number(step) and 0 < abs(step) <= _INTEGERS and abs(number / step) <= _INTEGERS:
        number = math.ceil(number / step) * step
        if number > high:
            number = math.floor(high / step) * step
    elif whole and abs(number) <= _INTEGERS:
        number = math.ceil(number)
    return int(number) if abs(number) <= _INTEGERS and float(number).is_integer() else float(number)


def is_of(value: object, allowed: list[str]) -> bool:
    """Whether a value is of one of the types."""
    if isinstance(value, bool):
        return "boolean" in allowed
    if isinstance(value, int | float):
        return "number" in allowed or ("integer" in allowed and value == value // 1)
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "") in allowed


def count(value: object, missing: int = 0) -> int:
    """A count that a schema gives, or `missing`; never more than any bound here could reach."""
    if not is_number(value):
        return missing
    return int(min(max(value, 0), 2**31)) if isinstance(value, int | float) else missing


def _bounds(schema: Flat, *, whole: bool) -> tuple[float, float]:
    """The least and the largest number that a schema allows."""
    low, high = float(-_INTEGERS), float(_INTEGERS)
    gap = 1.0 if whole else 0.5
    if is_number(schema.get("minimum")):
        low = _finite(schema["minimum"])
    if is_number(schema.get("exclusiveMinimum")):
        low = max(low, _finite(schema["exclusiveMinimum"]) + gap)
    if is_number(schema.get("maximum")):
        high = _finite(schema["maximum"])
    if is_number(schema.get("exclusiveMaximum")):
        high = min(high, _finite(schema["exclusiveMaximum"]) - gap)
    if "maximum" not in schema and "exclusiveMaximum" not in schema:
        high = max(low, high)
    if "minimum" not in schema and "exclusiveMinimum" not in schema:
        low = min(low, high)
    if low > high and not whole:  # an open interval narrower than the gap
        middle = (low - gap + high + gap) / 2
        return middle, middle
    return low, high


def _finite(number: float) -> float:
    """A whole number of any length as a float; the largest one for what none can hold."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def another(value: JsonValue, number: int, again: int) -> JsonValue:
    """A value that differs from its neighbours, where that is easy."""
    if isinstance(value, bool) or value is None:
        return value if again % 2 else not value if isinstance(value, bool) else value
    if isinstance(value, int):
        return value + number
    return f"{value}{number}" if isinstance(value, str) and again > 0 else value
