"""What one line of a summary says of one result: facts that the result holds, cut to a few names. Pure.

Invariants: nothing is judged or derived but counted; text comes from a result, where it is inert already; every list
is bounded, and what is cut is counted in `more`. Fields that an older or newer result lacks are null or empty.

Not promised: that the result fits its schema: `fumehood review validate` says that.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.observe.model import Kind, Phase
from fumehood.review.batch import listing

_SEEN_PHASES = frozenset({Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE})  # in which something of the target ran
_WRITTEN = (Kind.FILE_CREATED, Kind.FILE_CHANGED, Kind.FILE_DELETED)


class UnreadableResultError(RefusedError):
    """A file that should be a result is none."""

    code = "unreadable_result"


class Named(Struct, frozen=True, kw_only=True):
    """The first names of a list, the most frequent first, and how many more there are."""

    names: tuple[str, ...] = ()
    more: int = 0


class Facts(Struct, frozen=True, kw_only=True):
    """One result in a few words."""

    state: str
    protocol: str = ""
    server: str = ""
    tools: int | None = None
    hosts: Named = Named()
    names_asked: Named = Named()
    programs: Named = Named()
    files: dict[str, int] = {}
    canaries_read: Named = Named()
    canaries_sent: Named = Named()
    behaviour: str | None = None
    seconds: float = 0.0
    started_at: str = ""
    harness: str = ""
    error: str = ""
    lost: int = 0


class _Step(Struct):
    wall_seconds: float = 0.0


class _Execution(Struct):
    status: str
    started_at: str = ""
    steps: list[_Step] = []


class _Row(Struct):
    phase: str
    type: str
    collector: str
    detail: dict[str, Any] = {}


class _Lost(Struct):
    count: int = 0


class _Observations(Struct):
    items: list[_Row] = []
    lost: list[_Lost] = []


class _Error(Struct):
    code: str
    message: str
    step: str | None = None


class _Coverage(Struct):
    tools_listed: int | None = None


class _Environment(Struct):
    harness_version: str = ""


class _Behaviour(Struct):
    sha256: str


class _Result(Struct):
    """The parts of a result that are read; whatever else it has is passed over."""

    request: dict[str, Any]
    execution: _Execution
    observations: _Observations
    environment: _Environment
    coverage: _Coverage
    errors: list[_Error] = []
    behaviour: _Behaviour | None = None


def read(data: bytes) -> Facts:
    """The facts of a `result.json`. Errors: `UnreadableResultError`."""
    if len(data) > limits.JSON_RESULT_BYTES:
        raise UnreadableResultError(f"a result of {len(data)} bytes", remedy="see what wrote it")
    try:
        result = msgspec.json.decode(data, type=_Result)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableResultError(f"not a result: {str(error)[:200]}", remedy="see what wrote it") from None
    rows = result.observations.items
    seen = [row for row in rows if row.phase in _SEEN_PHASES]
    protocol, server = _initialized(rows)
    return Facts(
        state=result.execution.status,
        protocol=protocol,
        server=server,
        tools=result.coverage.tools_listed,
        hosts=named(_hosts(seen)),
        names_asked=named(_texts(seen, Kind.NETWORK_DNS, "name")),
        programs=named(_programs(seen)),
        files=_files(seen),
        canaries_read=named(_texts(rows, Kind.CANARY_READ, "canary")),
        canaries_sent=named(_sent(rows)),
        behaviour=result.behaviour.sha256 if result.behaviour else None,
        seconds=round(sum(step.wall_seconds for step in result.execution.steps), 1),
        started_at=result.execution.started_at,
        harness=result.environment.harness_version,
        error=_error(result.errors),
        lost=sum(lost.count for lost in result.observations.lost),
    )


def target(data: bytes) -> str:
    """The target of a request that lies beside its attempts."""
    value = jsonio.parse(data)
    return listing.target(value) if isinstance(value, dict) else "?"


def named(names: Iterable[str]) -> Named:
    """The most frequent names of many; equal ones in the order in which they came."""
    counted = Counter(names)
    kept = tuple(name for name, _ in counted.most_common(limits.BATCH_CELL_ITEMS))
    return Named(names=kept, more=len(counted) - len(kept))


def _initialized(rows: list[_Row]) -> tuple[str, str]:
    """The first revision that was agreed on, and what the server calls itself."""
    for row in rows:
        if row.type == Kind.PROTOCOL_FACT and row.detail.get("fact") == "initialized":
            detail = row.detail
            return str(detail.get("protocol_version", "")), " ".join(
                str(detail[key]) for key in ("server_name", "server_version") if detail.get(key)
            )
    return "", ""


def _hosts(rows: list[_Row]) -> Iterator[str]:
    for row in rows:
        if row.type == Kind.NETWORK_CONNECT and row.collector == "egress":
            detail = row.detail
            yield f"{detail.get('name') or detail.get('address')}:{detail.get('port')} {detail.get('decision')}"


def _programs(rows: list[_Row]) -> Iterator[str]:
    for row in rows:
        if row.type == Kind.PROCESS_EXEC and row.detail.get("outcome") == "started":
            yield str(row.detail.get("program", "?")).rpartition("/")[2]


def _texts(rows: list[_Row], kind: str, key: str) -> Iterator[str]:
    return (str(row.detail.get(key, "?")) for row in rows if row.type == kind)


def _sent(rows: list[_Row]) -> Iterator[str]:
    for row in rows:
        if row.type == Kind.CANARY_SENT:
            yield f"{row.detail.get('canary', '?')} in {row.detail.get('where', '?')}"


def _files(rows: list[_Row]) -> dict[str, int]:
    """How many files each phase created, changed and deleted, as its layer has them."""
    counts = Counter(
        f"{row.phase.lower()} {row.type.partition('.')[2]}"
        for row in rows
        if row.collector != "strace" and row.type in _WRITTEN
    )
    return dict(sorted(counts.items()))


def _error(errors: list[_Error]) -> str:
    if not errors:
        return ""
    first = errors[0]
    return f"{first.code}: {first.message}"[:400]
