"""EXERCISE: start the server as often and in the eras that the request asks for, and say how the starts differ.

The children, each a fresh process: `exercise` (the first); `exercise-modern` (`protocol_era` both: as INSTALL left the
home); `exercise-again` (`repeat` 2: in the home of the first); `exercise-fresh` (`repeat` 3: as INSTALL left it).

Invariants: a server is ended by us; a child sees of an earlier one what a second start in one home would see, or
nothing; the first child that completed its handshake decides the state, later ones add facts.
"""

import dataclasses
import itertools
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.observe.model import Phase, Value
from fumehood.review import steps
from fumehood.review.evidence.acts import NAMES
from fumehood.review.exercise import called, calling, child, compare, handshake, lists, record
from fumehood.review.exercise.called import Calls
from fumehood.review.exercise.calling import Caller
from fumehood.review.exercise.child import Actions, Live, Spoken, Start
from fumehood.review.exercise.compare import Heard
from fumehood.review.exercise.entrypoint import arguments
from fumehood.review.exercise.heard import heard, list_of
from fumehood.review.exercise.listing import Listing, failure
from fumehood.review.request import ReviewRequest
from fumehood.review.show import show_untrusted
from fumehood.review.stack import Mark
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy
from fumehood.wire.hosting import Era

_AGAIN, _FRESH = 2, 3  # values of `repeat`


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """One start that has ended."""

    spoken: Spoken
    after: Mark  # the home as it left it
    ended: ReviewEndedError | None  # None: the handshake was completed
    badly: ReviewEndedError | None  # what ended the child, where it was not we

    @property
    def step(self) -> str:
        """Its name."""
        return self.spoken.start.step


async def exercise(work: Work, request: ReviewRequest, entry: str, network: Policy) -> None:
    """Run the phase and put what was said into the ledger; ends the review unless the profile was carried out."""
    course = _Course(work, request, entry, network)
    try:
        await course.run()
    finally:
        mine = [ran.wall_seconds for ran in work.steps if ran.phase is Phase.EXERCISE]
        work.coverage["seconds_observed"] = sum(mine)


class _Course:
    """The starts of one review."""

    def __init__(self, work: Work, request: ReviewRequest, entry: str, network: Policy) -> None:
        self._work = work
        self._request = request
        self._home = work.stack.mark()
        self._actions = _actions(request, work.bench.workspace)
        self._start = Start(
            step="exercise",
            entry=entry,
            argv=arguments(request, work.bench.workspace),
            network=network,
            seconds=min(request.timeout_seconds, work.settings.review.exercise_seconds),
            linger_seconds=request.linger_seconds,
            era="modern" if request.protocol_era == "modern" else "legacy",
            client=child.CLIENT if request.action_profile == "mcp_initialize" else child.ASKING,
        )

    async def run(self) -> None:
        """Every start that the request asks for."""
        main = first = await self._child("exercise", self._start.era, self._home)
        modern: _Child | None = None
        if self._request.protocol_era == "both":
            modern = await self._child("exercise-modern", "modern", self._home)
            main = self._counts(first, modern)
        if main.ended is not None:
            raise main.ended
        try:
            if modern is not None and modern is not main and modern.ended is None:
                self._compare(first, modern, "era_difference")
            await self._repeat(main)
        finally:  # last, so that many definitions take no place of another fact's; also when the job's time is over
            self._describe(main)
        ended = failure(main.spoken.lists) or _ended_by(main.spoken.calls)
        if ended is not None:
            raise _at(main.badly or ended, main.step)

    async def _repeat(self, main: _Child) -> None:
        """The further starts, each compared with the one that counts."""
        era = main.spoken.start.era
        if self._request.repeat >= _AGAIN:
            await self._again(main, era)
        if self._request.repeat >= _FRESH:
            self._compare(main, await self._child("exercise-fresh", era, self._home), "repeat_difference")

    async def _again(self, main: _Child, era: Era) -> None:
        """A second start in the home of the first: one that this one's leavings keep from starting is a difference."""
        try:
            again = await self._child("exercise-again", era, main.after)
        except ReviewEndedError as error:
            if error.code != steps.HOME_CLOSED:
                raise
            between = f"{main.step} and exercise-again"
            detail: dict[str, Value] = {"what": "handshake", "before": "completed", "after": error.code}
            self._fact("exercise-again", "repeat_difference", {"between": between, **detail})
            self._work.ledger.limitation(error.message)
        else:
            self._compare(main, again, "repeat_difference")

    def _counts(self, legacy: _Child, modern: _Child) -> _Child:
        """Of two eras the child that counts: the first that completed its handshake, or else says most."""
        for one in (legacy, modern):
            self._fact(one.step, "era", _era(one))
        if legacy.ended is None:
            return legacy
        return modern if modern.ended is None or legacy.ended.code == "other_era" else legacy

    async def _child(self, step: str, era: Era, home: Mark) -> _Child:
        """One start above `home`; raises what ends the whole review, whatever the server said."""
        work = self._work
        work.stack.rewind(home)
        spoken = await child.run(work, dataclasses.replace(self._start, step=step, era=era), self._actions)
        work.stack.push(spoken.ran.layer)
        for wall in spoken.calls.without if spoken.calls else ():
            work.ledger.limitation(f"{step}: inputs were made in a child without a wall: {wall}")
        if spoken.calls is not None and spoken.calls.later is not None:
            self._changed(step, spoken.lists["tool"], spoken.calls.later)
        badly = steps.ended_badly(work, spoken.ran)
        if badly is not None and work.output_limit_reached:
            raise badly
        ended = handshake.judge(spoken.outcome, show_untrusted, spoken.start.asks)
        if ended is not None:
            ended = _at(badly or _with_exit(ended, spoken), step)
        return _Child(spoken=spoken, after=work.stack.mark(), ended=ended, badly=badly)

    def _changed(self, step: str, listed: Listing, later: Listing) -> None:
        """Which tools are described otherwise since they were called."""
        before, after = (Heard(handshake="completed", lists={"tool": list_of(one)}) for one in (listed, later))
        for detail in compare.differences(before, after):
            self._fact(f"{step}/{listed.sort.method}", "call_difference", detail)
        for one in itertools.islice(compare.changed(before, after), limits.DEFINITIONS):
            self._fact(f"{step}/{listed.sort.method}", "definition", one.detail)

    def _describe(self, main: _Child) -> None:
        """The definitions of the child that counts, one by one."""
        for what, listing in main.spoken.lists.items():
            if listing.complete or listing.definitions or not listing.offered:  # of a refused list nothing is known
                self._work.coverage[f"{what}s_listed"] = len(listing.definitions)
        record.definitions(self._work, main.spoken.lists, main.step)
        if main.spoken.calls is not None:
            self._work.coverage["tools_called"] = len(main.spoken.calls.tools)

    def _compare(self, before: _Child, after: _Child, name: str) -> None:
        """How a later start differs, and the definitions that it has otherwise."""
        old, new = heard(before.spoken), heard(after.spoken)
        found = compare.differences(old, new)
        if name == "repeat_difference":
            found += compare.acted(old, new)
            if before.spoken.acts.lost or after.spoken.acts.lost:
                self._work.ledger.limitation(f"{after.step}: of programs and hosts the first {NAMES} are compared")
        for detail in found:
            self._fact(after.step, name, {"between": f"{before.step} and {after.step}", **detail})
        for one in itertools.islice(compare.changed(old, new), limits.DEFINITIONS):
            self._fact(after.step, "definition", one.detail)

    def _fact(self, step: str, name: str, detail: dict[str, Value]) -> None:
        record.keep(self._work, record.fact(step, name, detail))


def _actions(request: ReviewRequest, workspace: str) -> Actions:
    """What the profile asks for once the handshake was completed."""
    if request.action_profile == "mcp_call":
        return Caller(seed=calling.seed(request), workspace=workspace, linger_seconds=request.linger_seconds)
    return lists.read if request.action_profile == "mcp_list" else _nothing


def _ended_by(calls: Calls | None) -> ReviewEndedError | None:
    """How the review ends when a call ended the server; None when none did."""
    if calls is None or calls.ended is None or not calls.ended_by:
        return None
    code = "stream_too_large" if calls.ended.why == "stream_too_large" else "exited"
    message = f"tools/call:{calls.ended_by} was not answered: {called.why_ended(calls.ended)}"
    return ReviewEndedError(State.TARGET_FAILED, code, message)


async def _nothing(live: Live) -> None:
    """The handshake is all."""
    del live


def _era(one: _Child) -> dict[str, Value]:
    ended = one.ended
    return {
        "era": one.spoken.start.era,
        "completed": ended is None,
        "code": None if ended is None else ended.code,
        "message": None if ended is None else ended.message,
    }


def _at(ended: ReviewEndedError, step: str) -> ReviewEndedError:
    """The same with the step that it happened in, which need not be the last."""
    ended.step = step
    return ended


def _with_exit(ended: ReviewEndedError, spoken: Spoken) -> ReviewEndedError:
    """Say with which status a server left that never answered."""
    status = spoken.ran.exit.status
    if ended.code != "exited" or status is None:
        return ended
    message = f"it ended with status {status} before it answered {spoken.start.asks.method}"
    return ReviewEndedError(ended.state, ended.code, message)
