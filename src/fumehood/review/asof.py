"""The moment that a resolution is bounded by: of two versions that both fit, none that came later. Pure.

npm takes a date for its beginning, uv for its end; here a date counts to its end in UTC, and both are told a moment.
"""

import datetime as dt

_DATE = len("2026-01-31")
_LAST = dt.date(9999, 12, 30)  # the day after still has a name


def moment(as_of: str) -> str:
    """A date or a time of RFC 3339, as the moment in UTC that nothing newer than is resolved."""
    if len(as_of) == _DATE:
        day = min(dt.date.fromisoformat(as_of), _LAST) + dt.timedelta(days=1)
        return f"{day.isoformat()}T00:00:00Z"
    try:
        utc = dt.datetime.fromisoformat(as_of.upper()).astimezone(dt.UTC)
    except OverflowError:  # an offset at the edge of the calendar
        return f"{_LAST.isoformat()}T00:00:00Z"
    return utc.replace(microsecond=0).isoformat().replace("+00:00", "Z")
