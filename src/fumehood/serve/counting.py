"""Counts in the words around an answer. Pure."""

from collections.abc import Mapping

_REASONS = {
    "deep": "too deep",
    "encoding": "in no known encoding",
    "other": "of another kind",
    "too_large": "too large",
}  # where a reason's own name is no word that follows a number


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 file`, `2 files`; `many` where the plural is not made by an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def share(shown: int, total: int, one: str, many: str = "") -> str:
    """How many of how many there are: `3 files`, or `3 of 12 files` where not all are shown."""
    return counted(total, one, many) if shown == total else f"{shown} of {counted(total, one, many)}"


def passed_over(skipped: Mapping[str, int]) -> str:
    """What a walk or a search did not look at: `2 denied, 1 link`; empty where there is nothing."""
    return ", ".join(
        counted(count, "link") if reason == "links" else f"{count} {_REASONS.get(reason, reason)}"
        for reason, count in sorted(skipped.items())
        if count
    )
