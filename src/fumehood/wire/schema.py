"""JSON Schema 2020-12, checked with linear-time patterns and without leaving the document.

Invariants: every problem is found, not only the first; a pattern is matched by a linear engine, so that none can be
made slow; a reference to anything outside the schema is refused and never fetched or read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema_rs

from fumehood.core import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One place where a value does not fit: keys and indexes from the root, the schema's keyword, words of the engine.

    `message` may quote values and foreign keys: to be cut and made inert before anybody sees it.
    """

    path: tuple[str | int, ...]
    keyword: str
    message: str


def problems(schema: Mapping[str, Any], value: object) -> list[Problem]:
    """Where `value` does not fit `schema`, which is one of ours; ValueError when that is no schema."""
    return list(iter_problems(schema, value))


def iter_problems(schema: Mapping[str, Any], value: object) -> Iterator[Problem]:
    """The same one by one, for who wants the first ones only."""
    yield from Checker(schema).iter_problems(value)


class Checker:
    """One schema of ours, compiled once for many values; ValueError when it is no schema."""

    __slots__ = ("_mask", "_validator")

    def __init__(self, schema: Mapping[str, Any], *, mask: str | None = None) -> None:
        """Compile it. With a `mask`, messages have that instead of a value."""
        self._mask = mask
        self._validator = _validator(schema, mask=mask)

    def iter_problems(self, value: object) -> Iterator[Problem]:
        """Where `value` does not fit, one by one. Quick where it fits."""
        if self._validator.is_valid(value):
            return
        for error in self._validator.iter_errors(value):
            yield Problem(
                path=tuple(error.instance_path),
                keyword=str(error.schema_path[-1]) if error.schema_path else "",
                message=self._message(error),
            )

    def _message(self, error: jsonschema_rs.ValidationError) -> str:
        """The engine's words; where a value is none of several, all of these, of which the engine names two."""
        if self._mask is None or not isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Enum):
            return error.message
        return f"{self._mask} is not one of {', '.join(map(json.dumps, error.kind.options))}"


def is_linear(pattern: str) -> bool:
    """Whether the linear engine takes a pattern: no look-around, no back-reference, and not enormous once compiled."""
    try:
        _validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def _validator(schema: Mapping[str, Any], *, mask: str | None = None) -> jsonschema_rs.Draft202012Validator:
    options = jsonschema_rs.RegexOptions(size_limit=limits.PATTERN_COMPILED_BYTES)
    return jsonschema_rs.Draft202012Validator(
        dict(schema), pattern_options=options, retriever=_refuse_reference, mask=mask
    )


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"a reference to {uri!a} leads out of the schema")
