"""JSON Schema 2020-12 from Structs, as it is published. Pure."""

from typing import Any

import msgspec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def components(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type or a union of types
    """The definitions of a type and of everything in it, by name; references point to `#/$defs`.

    msgspec writes OpenAPI's `discriminator` beside tagged unions, which is no word of JSON Schema: taken out.
    """
    _, found = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {name: _without_discriminators(part) for name, part in found.items()}


def _without_discriminators(part: Any) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(part, dict):
        return {key: _without_discriminators(value) for key, value in part.items() if key != "discriminator"}
    return [_without_discriminators(value) for value in part] if isinstance(part, list) else part
