"""What became of the planted credentials: who opened them, and where their values were met.

Invariants: each place is looked at within bounds, what was not looked at is counted, and a place that holds a value as
it was planted is none (its own file, unless something else of the home stands in it). Names of canaries leave this
module, values never. Not promised: see docs/limits/canaries.md.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from fumehood.core import limits
from fumehood.observe.canary import Budget, Finder, Sighting, Stream
from fumehood.observe.files import Opened
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.observe.processes import Process
from fumehood.review.home.model import Home
from fumehood.review.show import show
from fumehood.sandbox.egress import EgressRecord, EgressReport

COLLECTOR = "canary"
LIMITATIONS = (
    "A variable of the environment cannot be seen to be read; only where its value turns up is told.",
    "Values are met plain, reversed, in Base64, Base32, hexadecimal digits, percent-encoded, in gzip, zlib and ZIP.",
    "Three of these may lie in each other. What was encrypted, or encoded in another way, is not met.",
    "Of a value at least sixteen characters in one piece are needed.",
    "Words of command lines are cut at 200 bytes; what goes through TLS, memory or a pipe is not seen.",
    "A file that is opened through descriptor passing, io_uring or a mapping that was there before shows no open.",
)
_PLACES = 2000  # of one step that are told apart: four times what a list of a result holds
_T = TypeVar("_T")


Pieces: TypeAlias = Callable[[], Iterable[bytes]]  # the content of a file, in order; less where it cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One name that a step made or changed, as the target sees it; `content` of a file that is another than before."""

    path: bytes
    size: int
    content: Pieces | None


@dataclass(slots=True, kw_only=True)
class _Sent:
    detail: dict[str, Value]
    step: str
    fidelity: Fidelity
    moment: float | None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where something was looked at: a word, and what tells it from its like."""

    where: str  # "argv", "dns", "tls", "target", "header", "body", "raw", "result", "output", "file", "path"
    detail: dict[str, Value]
    step: str
    fidelity: Fidelity = Fidelity.OBSERVED
    moment: float | None = None


Activity: TypeAlias = Callable[[float | None], str]  # from a moment of the wall clock to a step and what it was doing


def _no_activity(moment: float | None) -> str:
    del moment
    return ""


class Canaries:
    """The planted credentials of one review, and what looks for them."""

    def __init__(self, home: Home, at: str) -> None:
        """`at` is the home as the target sees it."""
        self.home = home
        self.finder = Finder(home.canaries)
        self.paths = {f"{at}/{path}".encode(): name for path, name in home.planted.items()}
        self.own = {f"{at}/{file.path}".encode(): self._names(file.data) for file in home.files}
        self.now: Watch | None = None

    def begin(self, phase: Phase, step: str, activity: Activity = _no_activity) -> "Watch":
        """Watch a step, the one that is under way from now on; `activity` says what of it was at a moment."""
        self.now = Watch(self, phase, step, activity)
        return self.now

    def _names(self, data: bytes) -> frozenset[str]:
        return frozenset(one.name for one in self.finder.look(data, Budget(left=limits.CANARY_SOURCE_BYTES)))


class Watch:
    """What is learnt of the canaries in one step."""

    def __init__(self, canaries: Canaries, phase: Phase, step: str, activity: Activity) -> None:
        """Nothing yet."""
        self._activity = activity
        self._canaries = canaries
        self._finder = canaries.finder
        self._phase = phase
        self._step = step
        self._left = self._spare = limits.CANARY_FOLD_BYTES
        self._frames: dict[str, list[bytes]] = {}
        self._frame_bytes = 0
        self._reads_of_ours = 0
        self._sent: dict[tuple[str, ...], _Sent] = {}
        self._first: set[tuple[str, str]] = set()
        self.looked = 0
        self.lost: dict[str, int] = {}

    def heard(self, line: bytes, activity: str) -> None:
        """Keep a line of the protocol until the step has ended: looking at a large one would hold up the deadlines."""
        if self._frame_bytes + len(line) > limits.FRAMES_TOTAL_BYTES:
            self._lose("frames")
            return
        self._frame_bytes += len(line)
        self._frames.setdefault(activity, []).append(line)

    def words(self, process: Process, program: bytes, argv: Sequence[bytes], moment: float | None = None) -> None:
        """Look at one command line, before anything of it was redacted."""
        place = self._at("argv", {"process": process.number, "program": show(program)}, moment)
        self._meet(b"\n".join([program, *argv]), place)

    def output(self, stream: str, data: bytes) -> None:
        """Look at what was captured of a stream."""
        self._meet(data, self._at("output", {"name": stream}))

    def egress(self, report: EgressReport) -> None:
        """Look at names, greetings, requests and first bytes."""
        names: list[bytes] = []
        for record in report.records:
            if record.kind == "dns":
                name = _bytes(record.name)
                names.append(name)
                self._note(
                    self._look(name, self._finder.look_in_name),
                    self._at("dns", {"name": show(name)}, report.moment(record.at_seconds)),
                )
            else:
                self._connection(record, report.moment(record.at_seconds))
        met = self._finder.look_in_names(names, Budget(left=limits.CANARY_SOURCE_BYTES))
        split = (one for one in met if (one.name, "dns") not in self._first)
        self._note(split, self._at("dns", {"names": "several"}))

    def files(self, written: Iterable[Written]) -> None:
        """Look into files that a step made or changed, the smallest first, and at their names."""
        left = limits.CANARY_FILE_BYTES
        for file in sorted(written, key=lambda one: one.size):
            shown = show(file.path)
            self._meet(file.path, self._at("path", {"path": shown}))
            if file.content is None:
                continue
            if file.size > left:
                self._lose("files")
                continue
            left -= file.size
            met = self._look(file, self._content)
            own = self._canaries.own.get(file.path, frozenset())
            self._note((one for one in met if one.name not in own), self._at("file", {"path": shown}))

    def observations(self, opened: Iterable[Opened], *, installer: bool) -> Iterator[Observation]:
        """Reads, then what was sent. `installer`: the step's first process is npm or uv: its reads are counted."""
        for activity, lines in self._frames.items():
            step = f"{self._step}/{activity}" if activity else self._step
            self._meet(b"\n".join(lines), _Place(where="result", detail={}, step=step))
        self._frames = {}
        for one in opened:
            if installer and one.process.parent is None:
                self._reads_of_ours += one.count
                continue
            place = self._at("read", self._opened(one), one.moment)
            yield self._row(Kind.CANARY_READ, place, place.detail)
        for sent in self._sent.values():
            yield self._row(Kind.CANARY_SENT, sent, {**sent.detail, "count": sent.count})

    def collector(self) -> Collector:
        """What this sensor did in the step, and what it did not look at."""
        lost = sum(self.lost.values())
        return Collector(
            name=COLLECTOR,
            phase=self._phase,
            state=CollectorState.DEGRADED if lost else CollectorState.ACTIVE,
            lost=lost,
            why=", ".join(f"{what}: {count}" for what, count in sorted(self.lost.items())),
            limitations=LIMITATIONS,
            counts={
                "planted": len(self._canaries.home.canaries),
                "files_planted": len(self._canaries.home.files),
                "bytes_looked_at": self.looked,
                "reads_of_the_installer_itself": self._reads_of_ours,
            },
        )

    def _connection(self, record: EgressRecord, moment: float | None) -> None:
        name = record.name or record.server_name or record.address or ""
        place: dict[str, Value] = {"name": show(_bytes(name)), "port": record.port}
        if record.hello == "tls":
            self._note(
                self._look(_bytes(record.server_name), self._finder.look_in_name), self._at("tls", place, moment)
            )
        for request in record.requests:
            self._meet(_bytes(request.target), self._at("target", place, moment))
            self._meet(b"\n".join(b"%s: %s" % header for header in request.headers), self._at("header", place, moment))
            self._meet(request.body, self._at("body", place, moment))
            if request.body_bytes > len(request.body):
                self._lose("bodies")  # only the first bytes were kept
        if not record.requests:
            self._meet(_bytes(record.request_line), self._at("target", place, moment))
        self._meet(record.first, self._at("raw", place, moment))  # none where every byte stands in a request

    def _content(self, file: Written, budget: Budget) -> frozenset[Sighting]:
        stream = Stream(self._finder, budget)
        met: frozenset[Sighting] = frozenset()
        for piece in file.content() if file.content else ():
            met |= stream.feed(piece)
        self.looked += stream.bytes
        if stream.bytes < file.size:
            self._lose("unread")
        return met

    def _at(self, where: str, detail: dict[str, Value], moment: float | None = None) -> _Place:
        step = self._step if moment is None else self._activity(moment) or self._step
        fidelity = Fidelity.SNAPSHOTTED if where in ("file", "path") else Fidelity.OBSERVED
        return _Place(where=where, detail=detail, step=step, fidelity=fidelity, moment=moment)

    def _meet(self, data: bytes, place: _Place) -> None:
        self._note(self._look(data, self._finder.look), place)

    def _look(self, data: _T, how: Callable[[_T, Budget], frozenset[Sighting]]) -> frozenset[Sighting]:
        """Look at one source: none takes more than its share of what folds may give in a step, and each has a little.

        So bombs do not keep a later upload from being unfolded.
        """
        if isinstance(data, bytes):
            self.looked += len(data)
        share = min(self._left, limits.CANARY_SOURCE_BYTES)
        spare = min(self._spare, max(0, limits.CANARY_FLOOR_BYTES - share))
        budget = Budget(left=share + spare)
        met = how(data, budget)
        used = share + spare - max(0, budget.left)
        self._left -= min(used, share)
        self._spare -= max(0, used - share)
        if budget.cut:
            self._lose("folds")
        return met

    def _note(self, met: Iterable[Sighting], place: _Place) -> None:
        """Keep what was met; a piece of what was met whole in the same place is no second fact."""
        every = sorted(met)
        whole = {one.name for one in every if one.whole}
        for one in every:
            if one.whole or one.name not in whole:
                self._keep(one, place)

    def _keep(self, one: Sighting, place: _Place) -> None:
        key = (one.name, one.encoding, place.where, place.step, str(place.detail))
        known = self._sent.get(key)
        if known is not None:
            known.count += 1
            return
        first = (one.name, place.where) not in self._first
        if len(self._sent) >= _PLACES and not first:
            self._lose("places")
            return
        self._first.add((one.name, place.where))
        detail: dict[str, Value] = {"canary": one.name, "encoding": one.encoding, "where": place.where, **place.detail}
        if not one.whole:
            detail["part"] = True
        self._sent[key] = _Sent(detail=detail, step=place.step, fidelity=place.fidelity, moment=place.moment)

    def _opened(self, opened: Opened) -> dict[str, Value]:
        parent = opened.process.parent
        detail: dict[str, Value] = {
            "canary": self._canaries.paths[opened.path],
            "path": show(opened.path),
            "process": opened.process.number,
            "parent": None if parent is None else parent.number,
            "program": show(opened.process.program),
            "count": opened.count,
        }
        if opened.by != opened.path:
            detail["by"] = show(opened.by)
        return detail

    def _row(self, kind: Kind, place: _Place | _Sent, detail: dict[str, Value]) -> Observation:
        return Observation(
            phase=self._phase,
            step=place.step,
            kind=kind,
            collector=COLLECTOR,
            fidelity=place.fidelity,
            detail={key: value for key, value in detail.items() if value is not None},
            moment=place.moment,
        )

    def _lose(self, what: str) -> None:
        self.lost[what] = self.lost.get(what, 0) + 1


def _bytes(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogatepass")
