"""What the engine saw, bounded so that a flood of one thing cannot hide another. Pure.

Each triple of kind, decision and reason has a quota; reasons are words of ours, so there are few. Beyond it a record is
still kept when it is the first of its name, address and port, up to a second quota, and beyond that when it is the
first with the last two labels of its name: ever new names below one domain hide no other domain. The rest is counted.
"""

from collections import Counter
from typing import TypeAlias

from fumehood.core import limits
from fumehood.sandbox.egress import EgressRecord

_Key: TypeAlias = tuple[str, str | None, str | None]


class Records:
    """Collects records up to their quotas, and counts what was not kept."""

    def __init__(self, quota: int = limits.RELAY_RECORDS, zones: int = limits.RELAY_ZONES) -> None:
        """Keep at most `quota` of each kind and decision, as many first ones beyond, and one of each of `zones`."""
        self._quota, self._zone_quota = quota, zones
        self._kept: list[EgressRecord] = []
        self._counts: Counter[_Key] = Counter()
        self._seen: dict[_Key, set[tuple[object, ...]]] = {}
        self._beyond: Counter[_Key] = Counter()
        self._zones: set[tuple[str, str]] = set()
        self._lost: Counter[str] = Counter()

    def add(self, record: EgressRecord) -> None:
        """Keep a record, or count it as lost."""
        key = (record.kind, record.decision, record.why)
        what = (record.name, record.address, record.port, record.protocol)
        seen = self._seen.setdefault(key, set())
        fresh = what not in seen
        if fresh and len(seen) < 2 * self._quota:
            seen.add(what)
        self._counts[key] += 1
        new_zone = self._is_new_zone(record)
        if self._counts[key] > self._quota:
            self._beyond[key] += fresh
            if not new_zone and (not fresh or self._beyond[key] > self._quota):
                self.lose(" ".join(word for word in key[:2] if word))
                return
        self._kept.append(record)

    def _is_new_zone(self, record: EgressRecord) -> bool:
        """Whether this is the first record of its kind for the last two labels of its name."""
        if record.name is None or len(self._zones) >= self._zone_quota:
            return False
        zone = (record.kind, ".".join(record.name.rsplit(".", 2)[-2:]))
        known = zone in self._zones
        self._zones.add(zone)
        return not known

    def lose(self, what: str, count: int = 1) -> None:
        """Count something that was not recorded."""
        if count:
            self._lost[what] += count

    @property
    def kept(self) -> tuple[EgressRecord, ...]:
        """Every record, in the order in which things began."""
        return tuple(sorted(self._kept, key=lambda record: record.at_seconds))

    @property
    def lost(self) -> dict[str, int]:
        """What was not kept, by kind and decision."""
        return dict(sorted(self._lost.items()))
