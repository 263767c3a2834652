"""Read a result that somebody hands over: strictly, within bounds, from bytes. Pure.

Invariants: what is returned is a result of this version of the schema; its texts are whatever its writer put there and
are made inert by whoever shows them. Errors: `UnfitResultError`, which says the first reason.
"""

import msgspec

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.review.result import ReviewResult

_SHOWN = 300  # characters of a reason


class UnfitResultError(RefusedError):
    """A document is no review result. Names the file and the first reason."""

    code = "unfit_result"


def result(data: bytes, name: str) -> ReviewResult:
    """The result that `data` is; `name` is the file's."""
    try:
        value = jsonio.parse(data, size=limits.JSON_RESULT_BYTES, locate=len(data) <= limits.JSON_LISTED_BYTES)
    except jsonio.JsonError as error:
        remedy = f"name the result.json of a review, or {error.remedy}"
        raise UnfitResultError(f"{name[:80]!a} is no review result: {error.message}", remedy=remedy) from None
    try:
        return msgspec.convert(value, ReviewResult)
    except msgspec.ValidationError as error:
        reason = ascii(str(error)[:_SHOWN])[1:-1]
        remedy = "fumehood review validate lists what does not fit"
        raise UnfitResultError(f"{name[:80]!a} is no review result: {reason}", remedy=remedy) from None
