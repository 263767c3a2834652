"""Patterns of names, in which `*` fits anything, nothing included. Pure; time is linear in the name."""


def fits(pattern: str, name: str) -> bool:
    """Whether a whole name fits a pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    last = rest.pop()
    end = len(name) - len(last)
    if end < len(first) or not name.startswith(first) or not name.endswith(last):
        return False
    at = len(first)
    for part in rest:  # the first place of each is the best one: what is left for the next ones is longest
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def fits_any(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name fits one of several patterns."""
    return any(fits(pattern, name) for pattern in patterns)
