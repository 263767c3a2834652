"""What came of a schema: arguments, or the reason why there are none. Pure."""

from dataclasses import dataclass

from fumehood.core.jsonio import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Arguments for one call; `valid` says whether they fit, None where nobody can say (`why`)."""

    arguments: JsonObject
    valid: bool | None
    why: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """No arguments came of a schema; `reason` is a sentence of ours."""

    reason: str
