"""JSON Schema 2020-12, checked with linear-time patterns and without leaving the document.

Invariants: every problem is found, not only the first; a pattern is matched by a linear engine, so that none can be
made slow; a reference to anything outside the schema is refused and never fetched or read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema_rs


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One place where a value does not fit: keys and indexes from the root, the schema's keyword, words of the engine.

    `message` quotes no value but may quote foreign keys: to be cut and made inert before anybody sees it.
    """

    path: tuple[str | int, ...]
    keyword: str
    message: str


def problems(schema: Mapping[str, Any], value: object) -> list[Problem]:
    """Where `value` does not fit `schema`, which is one of ours; ValueError when that is no schema."""
    validator = jsonschema_rs.Draft202012Validator(
        dict(schema), pattern_options=jsonschema_rs.RegexOptions(), retriever=_refuse_reference, mask="the value"
    )
    return [
        Problem(
            path=tuple(error.instance_path),
            keyword=str(error.schema_path[-1]) if error.schema_path else "",
            message=error.message,
        )
        for error in validator.iter_errors(value)
    ]


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"a reference to {uri!a} leads out of the schema")
