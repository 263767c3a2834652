"""Counts in the words around an answer. Pure."""


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 file`, `2 files`; `many` where the plural is not made by an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def share(shown: int, total: int, one: str, many: str = "") -> str:
    """How many of how many there are: `3 files`, or `3 of 12 files` where not all are shown."""
    return counted(total, one, many) if shown == total else f"{shown} of {counted(total, one, many)}"
