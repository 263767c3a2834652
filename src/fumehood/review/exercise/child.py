"""One start of the server: a confined child that is spoken to, watched on for a while, and ended by us.

Invariants: what was said is in the ledger whatever ended the child, also the limit of the job; every activity is in the
step's timeline from the moment at which it begins; the conversation has a deadline of its own, below the step's.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.review import plan, steps
from fumehood.review.evidence.acts import Acts
from fumehood.review.evidence.timeline import Timeline
from fumehood.review.exercise import handshake, record
from fumehood.review.exercise.called import Calls
from fumehood.review.exercise.handshake import Asks
from fumehood.review.exercise.listing import Listing
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy
from fumehood.sandbox.supervise import Running
from fumehood.wire import outcomes, stdio
from fumehood.wire.conversation import DECLARED, Conversation
from fumehood.wire.hosting import Era

CLIENT = stdio.Client(name="mcp", version="0.1.0")  # what an SDK's client says when nobody told it its name
ASKING = dataclasses.replace(CLIENT, capabilities=DECLARED)  # of the profiles that go beyond the handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a server is started, and for how long."""

    step: str
    entry: str
    argv: tuple[str, ...]
    network: Policy
    seconds: float
    linger_seconds: float
    era: Era
    client: stdio.Client = CLIENT

    @property
    def asks(self) -> Asks:
        """What the handshake asks with."""
        return handshake.LEGACY if self.era == "legacy" else handshake.MODERN


class Live:
    """A conversation, what was listed and called in it, and the moment at which its child's time is over."""

    def __init__(self, talk: Conversation, seconds: float) -> None:
        """`seconds` from now on."""
        self.talk = talk
        self.lists: dict[str, Listing] = {}
        self.calls: Calls | None = None
        self.deadline = asyncio.get_running_loop().time() + seconds

    @property
    def seconds_left(self) -> float:
        """Of the child's time."""
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


Actions = Callable[[Live], Awaitable[None]]  # what is done once the handshake was completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A start that has ended, and what was said."""

    start: Start
    ran: steps.Ran
    live: Live | None

    @property
    def talk(self) -> Conversation | None:
        """The conversation; None where the server could not even be spoken to."""
        return None if self.live is None else self.live.talk

    @property
    def lists(self) -> dict[str, Listing]:
        """What was listed."""
        return {} if self.live is None else self.live.lists

    @property
    def calls(self) -> Calls | None:
        """What came of the calls of its tools; None where none were to be made."""
        return None if self.live is None else self.live.calls

    @property
    def acts(self) -> Acts:
        """What it did, by name."""
        return self.ran.acts

    @property
    def outcome(self) -> outcomes.Outcome | outcomes.NoAnswer:
        """What the handshake came to."""
        return outcomes.NoAnswer() if self.talk is None else self.talk.outcome


async def run(work: Work, start: Start, actions: Actions) -> Spoken:
    """Start the server, shake hands, act, linger, end it. Its layer is not pushed yet."""
    step = dataclasses.replace(
        plan.exercise(work.bench, start.entry, start.argv, start.network, start.seconds + limits.STOP_SECONDS),
        name=start.step,
        linger_seconds=start.linger_seconds,
    )
    timeline = Timeline(start.step)
    timeline.begin("start", time.time())
    lives: list[Live] = []

    async def converse(running: Running) -> None:
        async with stdio.session(running.read, running.write) as opened:
            talk = Conversation(opened, start.client, start.era, lambda name: timeline.begin(name, time.time()))
            if work.canaries and (watch := work.canaries.now):
                opened.heard = lambda line: watch.heard(line, opened.activity)
            lives.append(Live(talk, start.seconds))
            await converse_with(running, lives[0], start.linger_seconds, actions)

    ran: steps.Ran | None = None
    try:
        ran = await steps.perform(work, step, body=converse, timeline=timeline)
    finally:  # what was said counts, also when the limit of the job came first
        for live in lives:
            record.conversation(work, live.talk, start.step)
            record.lists(work, live.lists, start.step)
            for activity, name, detail in live.calls.facts() if live.calls else ():
                record.keep(work, record.fact(f"{start.step}/{activity}", name, detail))
            if ran is None:
                record.definitions(work, live.lists, start.step)
    return Spoken(start=start, ran=ran, live=lives[0] if lives else None)


async def converse_with(running: Running, live: Live, linger_seconds: float, actions: Actions) -> None:
    """The whole conversation, and the linger after it: that ends sooner when nothing of the server lives any more."""
    talk = live.talk
    outcome = await talk.open(live.seconds_left)
    if isinstance(outcome, outcomes.Initialized):
        await actions(live)
        talk.begin("linger")
        linger = min(live.deadline, asyncio.get_running_loop().time() + linger_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(linger):
                await talk.drain()
                await running.wait()  # its output is closed; it may still act, as long as anybody lives
    if isinstance(outcome, outcomes.Exited):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(live.deadline):
                await running.wait()  # its status is a fact, and what it left behind is watched for the linger
