"""What a review saw, in a few sentences a topic, each beside the sensors it rests on. Pure.

Invariants: facts only; a count of a list that lost rows says "at least"; where no sensor of a topic ran, that is said
instead of "none".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.review.result import CollectorRecord, ReviewResult, Row

_NAMES = 8  # how many names stand in one sentence
_TARGET = (Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)  # where the target's own programs run
_WRITTEN = (Kind.FILE_CREATED, Kind.FILE_CHANGED, Kind.FILE_DELETED)
_DIFFERENCES = {
    "era_difference": "between the two eras",
    "repeat_difference": "between two starts",
    "call_difference": "between the lists before and after the calls",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One topic: what was seen, what it rests on, and where the page says more."""

    topic: str
    place: str  # the section that has the details
    said: tuple[str, ...]
    sensors: tuple[str, ...] = ()  # what is to be known of the sensors; the first is a line by itself


class Rows:
    """The rows of a result by type, in the phases of the target."""

    def __init__(self, result: ReviewResult) -> None:
        """Look at what the result kept."""
        self._rows = result.observations.items
        self._lost = {(lost.phase, lost.type) for lost in result.observations.lost}

    def of(self, *kinds: Kind, phases: Sequence[Phase] = _TARGET) -> list[Row]:
        """The rows of some types."""
        return [row for row in self._rows if row.type in kinds and row.phase in phases]

    def least(self, *kinds: Kind, phases: Sequence[Phase] = _TARGET) -> str:
        """`at least ` where rows of these types were lost."""
        return "at least " if any((phase, kind) in self._lost for phase in phases for kind in kinds) else ""

    def facts(self, *names: str) -> list[Row]:
        """The facts of the protocol with one of these names."""
        return [row for row in self.of(Kind.PROTOCOL_FACT) if row.detail.get("fact") in names]


def facts(result: ReviewResult) -> list[Fact]:
    """The topics, in the order in which they are read."""
    rows = Rows(result)
    topics = (
        ("Protocol", "protocol", _protocol(rows), ("protocol",)),
        ("Tools and prompts", "protocol", _definitions(rows, result), ("protocol",)),
        ("Install scripts", "processes", _install(result), ("strace",)),
        ("Programs", "processes", _programs(rows), ("strace",)),
        ("Network", "network", _network(rows), ("egress", "strace")),
        ("Files", "files", _files(rows), ("layer", "snapshot", "strace")),
        ("Planted credentials", "canaries", _canaries(rows, result), ("canary",)),
        ("Output", "output", _output(rows, result), ("output",)),
    )
    return [
        Fact(topic=topic, place=place, said=tuple(said), sensors=_sensors(result.collectors, names))
        for topic, place, said, names in topics
        if said
    ]


def listed(names: Iterable[str]) -> str:
    """Names with how often each occurred, the most frequent first."""
    counted = Counter(names)
    shown = [f"{name} ({n} times)" if n > 1 else name for name, n in counted.most_common(_NAMES)]
    more = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def where(collector: CollectorRecord) -> str:
    """The step in which a sensor stood; its phase, in a result that does not tell the step."""
    return collector.step or collector.phase.value


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,000 entries`."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:] not in {"ay", "ey", "oy"} else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def _protocol(rows: Rows) -> list[str]:
    said = []
    for row in rows.facts("initialized", "discovered"):
        detail = row.detail
        offers = detail.get("capabilities")
        names = ", ".join(str(name) for name in offers) if isinstance(offers, list | dict) else ""
        said.append(
            f"Speaks {detail.get('protocol_version')} as {detail.get('server_name')} {detail.get('server_version')}, "
            f"and offers {names or 'nothing'}."
        )
    asked = [str(row.detail.get("method")) for row in rows.facts("asked") if row.detail.get("answer") == "declined"]
    if asked:
        said.append(f"Asked of the client: {listed(asked)}; declined.")
    noise = sum(_number(row, "lines") for row in rows.of(Kind.PROTOCOL_NOISE))
    if noise:
        said.append(f"{plural(noise, 'line')} on standard output were no frame.")
    return list(dict.fromkeys(said)) or ["No valid answer to the first request was recorded."]


def _definitions(rows: Rows, result: ReviewResult) -> list[str]:
    said = []
    lists = [
        plural(_number(row, "count"), str(row.detail.get("what")).replace("_", " ")) for row in rows.facts("listed")
    ]
    if lists:
        said.append(f"Listed: {', '.join(dict.fromkeys(lists))}.")
    definitions = rows.facts("definition")
    hidden = [str(row.detail.get("name")) for row in definitions if row.detail.get("invisible_characters")]
    if hidden:
        said.append(f"Invisible characters in {listed(hidden)}.")
    references = [str(row.detail.get("name")) for row in definitions if row.detail.get("network_refs")]
    if references:
        said.append(f"References to the network in the schemas of {listed(references)}.")
    calls = rows.facts("called")
    if calls:
        outcomes = listed(str(row.detail.get("outcome")) for row in calls)
        least = rows.least(Kind.PROTOCOL_FACT)
        said.append(f"{least}{plural(len(calls), 'call')} of {result.coverage.tools_called:,} tools: {outcomes}.")
    for name, words in _DIFFERENCES.items():
        found = rows.facts(name)
        if found:
            said.append(f"{plural(len(found), 'difference')} {words}.")
    return [_begun(text) for text in said]


def _install(result: ReviewResult) -> list[str]:
    lock, coverage = result.provenance.lockfile, result.coverage
    if lock is None:
        return []
    declared = "an unknown number" if coverage.hooks_declared is None else f"{coverage.hooks_declared:,}"
    packages = "Packages" if lock.packages is None else plural(lock.packages, "package")
    run = "none could be seen to run" if coverage.hooks_run is None else f"{plural(coverage.hooks_run, 'script')} ran"
    return [f"{packages} locked; {declared} with install scripts; {run}."]


def _programs(rows: Rows) -> list[str]:
    seen = rows.of(Kind.PROCESS_EXEC)
    started = [str(row.detail.get("program", "?")) for row in seen if row.detail.get("outcome") == "started"]
    failed = [
        f"{_first_word(row)} {row.detail.get('outcome')}" for row in seen if row.detail.get("outcome") != "started"
    ]
    refused = [str(row.detail.get("call")) for row in rows.of(Kind.PROCESS_REFUSED) if not row.detail.get("usual")]
    said = [f"Started {listed(started)}." if started else "No program was seen to start."]
    if failed:
        said.append(f"Tried and not started: {listed(failed)}.")
    if refused:
        said.append(f"Calls refused: {listed(refused)}.")
    return said


def _network(rows: Rows) -> list[str]:
    connections = [row for row in rows.of(Kind.NETWORK_CONNECT) if row.collector == "egress"]
    places = [
        f"{row.detail.get('name') or row.detail.get('address')}:{row.detail.get('port')} {row.detail.get('decision')}"
        for row in connections
    ]
    names = [str(row.detail.get("name")) for row in rows.of(Kind.NETWORK_DNS)]
    requests = rows.of(Kind.NETWORK_HTTP)
    said = [f"Connections: {listed(places)}." if places else "No connection beyond the sandbox was tried."]
    if names:
        said.append(f"Names asked for: {listed(names)}.")
    if requests:
        said.append(_begun(f"{rows.least(Kind.NETWORK_HTTP)}{plural(len(requests), 'HTTP request')} recorded."))
    return said


def _files(rows: Rows) -> list[str]:
    said = []
    for phase in _TARGET:
        written = [row for row in rows.of(*_WRITTEN, phases=[phase]) if row.collector != "strace"]
        if written:
            counts = Counter(row.type.value.partition(".")[2] for row in written)
            least = rows.least(*_WRITTEN, phases=[phase])
            said.append(f"{phase}: {least}{', '.join(f'{n:,} {what}' for what, n in counts.items())}.")
    reads = {str(row.detail.get("path")) for row in rows.of(Kind.FILE_READ)}
    if reads:
        said.append(f"{plural(len(reads), 'path')} outside the workspace looked at.")
    return said or ["None written."]


def _canaries(rows: Rows, result: ReviewResult) -> list[str]:
    read, sent = rows.of(Kind.CANARY_READ), rows.of(Kind.CANARY_SENT)
    if not getattr(result.request, "canaries", False) and not (read or sent):
        return ["None were planted."]
    said = [f"Read: {listed(str(r.detail.get('canary')) for r in read)}." if read else "None was seen to be read."]
    if sent:
        places = listed(f"{row.detail.get('canary')} in {row.detail.get('where')}" for row in sent)
        return [*said, f"Given away: {places}."]
    return [*said, "None was found in what the target gave away."]


def _output(rows: Rows, result: ReviewResult) -> list[str]:
    captured, dropped = result.coverage.bytes_captured, result.coverage.bytes_dropped
    streams = listed(f"{row.step} {row.detail.get('stream')}" for row in rows.of(Kind.OUTPUT_TEXT))
    more = f"; {plural(dropped, 'byte')} beyond the bound were dropped" if dropped else ""
    return [f"{plural(captured, 'byte')} of text captured{more}." + (f" Of the target: {streams}." if streams else "")]


def _sensors(collectors: Sequence[CollectorRecord], names: Sequence[str]) -> tuple[str, ...]:
    """Which sensors a topic rests on in the target's phases, and what each of them lost."""
    mine = [c for c in collectors if c.name in names and c.phase in _TARGET]
    if not names:
        return ()
    if not mine:
        return ("no sensor of this ran",)
    said = []
    for name in dict.fromkeys(c.name for c in mine):
        active = dict.fromkeys(where(c) for c in mine if c.name == name and c.state is CollectorState.ACTIVE)
        if active:
            said.append(f"{name} active in {', '.join(active)}")
    for c in mine:
        if c.state is not CollectorState.ACTIVE:
            said.append(f"{c.name} {c.state} in {where(c)}" + (f": {c.why}" if c.why else ""))
        if c.lost:
            said.append(f"{c.name} lost {c.lost:,} in {where(c)}")
    return tuple(said)


def _begun(text: str) -> str:
    """A sentence, with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _first_word(row: Row) -> str:
    argv = row.detail.get("argv")
    return str(argv[0]) if isinstance(argv, list) and argv else "?"


def _number(row: Row, name: str) -> int:
    value = row.detail.get(name)
    return value if isinstance(value, int) else 0
