"""EXERCISE: start the server, complete the handshake, watch it for a while, end it.

Invariants: the entrypoint is looked at again, after everything that could have replaced it; the server is ended by us;
one that stays alive is a completed handshake.
"""

import asyncio
import contextlib
import dataclasses
from dataclasses import dataclass

from fumehood.core import jsonio, limits
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.review import handshake, merged, npm, plan, steps
from fumehood.review.acquire import PinnedSource
from fumehood.review.request import RequestVersion1, ReviewRequest
from fumehood.review.show import show_text, show_untrusted
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy
from fumehood.sandbox.supervise import Running
from fumehood.wire import outcomes, stdio
from fumehood.wire.transcript import Direction, FrameKind, Record

CLIENT = stdio.Client(name="mcp", version="0.1.0")  # what an SDK's client says when nobody told it its name

LIMITATIONS = (
    "only stdin and stdout are read as protocol",
    "of a flood the first frames of each kind are listed, the others are counted",
)


@dataclass(slots=True)
class Talk:
    """What the conversation came to."""

    outcome: outcomes.Outcome | outcomes.NoAnswer = outcomes.NoAnswer()
    session: stdio.Session | None = None


def entrypoint(work: Work, source: PinnedSource, asked: str | None) -> str:
    """The program to start, relative to the workspace: a regular file, reached through no link."""
    inside = f"{source.package}/" if source.package else ""
    if asked is None:
        manifest = _manifest(work, f"{inside}package.json")
        asked = npm.only_bin(manifest, source.package.rpartition("/")[2])
    entry = f"{inside}{asked.removeprefix('./')}"
    if ".." in entry.split("/") or entry.startswith("/"):
        raise ReviewEndedError(State.TARGET_FAILED, "entrypoint", "the package's bin leads out of the package")
    if merged.find(work.layers, f"{work.bench.layer_workspace}/{entry}") is None:
        raise ReviewEndedError(State.TARGET_FAILED, "no_entrypoint", "there is no file at the entrypoint")
    return entry


def arguments(request: ReviewRequest, workspace: str) -> tuple[str, ...]:
    """The server's arguments; in version 2 `{workspace}` stands for the workspace, in version 1 for itself."""
    if isinstance(request, RequestVersion1):
        return request.argv
    return tuple(word.replace("{workspace}", workspace) for word in request.argv)


async def exercise(work: Work, request: ReviewRequest, entry: str, network: Policy) -> None:
    """Run the step and put what was said into the ledger; ends the review unless the handshake was completed."""
    argv = arguments(request, work.bench.workspace)
    seconds = min(request.timeout_seconds, work.settings.review.exercise_seconds)
    step = dataclasses.replace(
        plan.exercise(entry, argv, network, seconds + limits.STOP_SECONDS),
        linger_seconds=request.linger_seconds,
    )
    talk = Talk()

    async def converse(running: Running) -> None:
        await _converse(running, talk, seconds, request.linger_seconds)

    try:
        ran = await steps.perform(work, step, body=converse)
    finally:  # what was said counts, also when the limit of the job came first
        if talk.session is not None:
            _record(work, talk.session, talk.outcome)
        work.coverage["seconds_observed"] = sum(ran.wall_seconds for ran in work.steps if ran.name == step.name)
    work.stack.push(ran.layer)
    ended = handshake.judge(talk.outcome, show_untrusted)
    badly = steps.ended_badly(work, ran)
    if badly is not None and (ended is not None or work.output_limit_reached):
        raise badly
    if ended is not None:
        raise _with_exit(ended, ran)


async def _converse(running: Running, talk: Talk, seconds: float, linger_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    async with stdio.session(running.read, running.write) as opened:
        talk.session = opened
        try:
            async with asyncio.timeout_at(deadline):
                talk.outcome = await stdio.initialize(opened, CLIENT)
        except TimeoutError:
            talk.outcome = opened.undecided()
        if isinstance(talk.outcome, outcomes.Exited):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await running.wait()  # its status is a fact, and what it left behind is watched for the linger
        if isinstance(talk.outcome, outcomes.Initialized):
            linger = min(deadline, loop.time() + linger_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(linger):
                    await opened.flushed()
                    await stdio.drain(opened)
                    await asyncio.sleep(max(0.0, linger - loop.time()))  # its output is closed; it may still act


def _with_exit(ended: ReviewEndedError, ran: steps.Ran) -> ReviewEndedError:
    """Say with which status a server left that never answered."""
    if ended.code != "exited" or ran.exit.status is None:
        return ended
    message = f"it ended with status {ran.exit.status} before it answered initialize"
    return ReviewEndedError(ended.state, ended.code, message)


def _manifest(work: Work, path: str) -> object:
    data = merged.read(work.layers, f"{work.bench.layer_workspace}/{path}", limits.MANIFEST_BYTES)
    if data is None:
        raise ReviewEndedError(State.TARGET_FAILED, "no_package_json", "the package has no package.json")
    try:
        return jsonio.parse(data.removeprefix(b"\xef\xbb\xbf"), size=limits.MANIFEST_BYTES)
    except jsonio.JsonError as error:
        raise ReviewEndedError(State.TARGET_FAILED, "bad_manifest", f"package.json: {error.message}") from error


def _record(work: Work, opened: stdio.Session, outcome: outcomes.Outcome | outcomes.NoAnswer) -> None:
    """The conversation as observations: facts first, then frames, then noise."""
    ledger = work.ledger
    if isinstance(outcome, outcomes.Initialized):
        ledger.observe(_seen(Kind.PROTOCOL_FACT, _facts(outcome)))
    transcript = opened.transcript
    for record in transcript.records:
        ledger.observe(_seen(Kind.PROTOCOL_FRAME, _frame(record)))
    noise = transcript.received(FrameKind.NOISE)
    if noise:
        sample = None if opened.noise_sample is None else show_untrusted(opened.noise_sample)
        ledger.observe(_seen(Kind.PROTOCOL_NOISE, {"lines": noise, "first": sample}))
    received = sum(n for (way, _), n in transcript.counts.items() if way is Direction.RECEIVED)
    work.coverage["frames_received"] = received
    ledger.collector(
        Collector(
            name="protocol",
            phase=Phase.EXERCISE,
            state=CollectorState.ACTIVE,
            lost=transcript.lost,
            limitations=LIMITATIONS,
            counts={
                "frames_received": received,
                "frames_sent": transcript.counts.total() - received,
                "bytes": sum(transcript.bytes.values()),
                "noise_lines": noise,
                "answers_beyond_the_first": opened.later_answers,
                "answers_with_another_id": opened.other_answers,
            },
        )
    )


def _facts(outcome: outcomes.Initialized) -> dict[str, Value]:
    result = outcome.result
    return {
        "fact": "initialized",
        "protocol_version": result.protocol_version,
        "server_name": show_text(result.server_name),
        "server_version": show_text(result.server_version),
        "server_title": None if result.server_title is None else show_text(result.server_title),
        "capabilities": [show_text(name) for name in list(result.capabilities)[:32]],
        "instructions": None if result.instructions is None else show_text(result.instructions),
        "initialized_sent": True,
    }


def _frame(record: Record) -> dict[str, Value]:
    return {
        "direction": record.direction.value,
        "kind": record.kind.value,
        "method": None if record.method is None else show_untrusted(record.method),
        "id": None if record.id is None else show_untrusted(record.id),
        "bytes": record.size,
        "sha256": record.digest or None,
        "problem": record.problem or None,
    }


def _seen(kind: Kind, detail: dict[str, Value]) -> Observation:
    return Observation(
        phase=Phase.EXERCISE,
        step="exercise",
        kind=kind,
        collector="protocol",
        fidelity=Fidelity.OBSERVED,
        detail={key: value for key, value in detail.items() if value is not None},
    )
