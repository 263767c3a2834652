"""What was said to a server and by it, as observations: a conversation in, rows of the ledger out.

Facts come first, then frames, then noise. Each row carries the step with the activity in which it was said.
"""

from collections.abc import Iterator, Mapping

from fumehood.core import limits
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.review.evidence import rooms
from fumehood.review.exercise.listing import Listing
from fumehood.review.show import show_text, show_untrusted
from fumehood.review.work import Work
from fumehood.wire import outcomes
from fumehood.wire.conversation import Asked, Conversation
from fumehood.wire.transcript import Direction, FrameKind, Record

LIMITATIONS = (
    "only stdin and stdout are read as protocol",
    "of a flood the first frames of each kind are listed, the others are counted",
)


def conversation(work: Work, talk: Conversation, step: str) -> None:
    """Put one conversation into the ledger, with what its sensor says of itself."""
    for seen in observations(talk, step):
        keep(work, seen)
    work.ledger.collector(collector(talk), step=step)
    work.count("frames_received", frames_received(talk))


def lists(work: Work, found: Mapping[str, Listing], step: str) -> None:
    """Put what each list came to into the ledger."""
    for one in found.values():
        keep(work, fact(f"{step}/{one.sort.method}", "listed", one.detail))


def definitions(work: Work, found: Mapping[str, Listing], step: str) -> None:
    """Put what is on the lists into the ledger, one by one."""
    for one in found.values():
        for detail in one.described():
            keep(work, fact(f"{step}/{one.sort.method}", "definition", detail))


def keep(work: Work, seen: Observation) -> None:
    """Put one observation into the ledger; a fact has a room of its own, whatever a flood of definitions takes."""
    work.ledger.observe(seen, room=rooms.of_fact(seen.kind, seen.detail))


def observations(talk: Conversation, step: str) -> Iterator[Observation]:
    """The handshake, what the server asked of us, the frames, the noise."""
    if isinstance(talk.outcome, outcomes.Initialized):
        yield fact(f"{step}/{talk.opening}", "initialized", _initialized(talk, talk.outcome))
    for asked in talk.asked:
        yield fact(_where(step, asked.activity), "asked", _asked(asked))
    transcript = talk.session.transcript
    for record in transcript.records:
        yield _seen(Kind.PROTOCOL_FRAME, _where(step, record.activity), _frame(record))
    noise = transcript.received(FrameKind.NOISE)
    if noise:
        sample = None if talk.session.noise_sample is None else show_untrusted(talk.session.noise_sample)
        yield _seen(Kind.PROTOCOL_NOISE, step, {"lines": noise, "first": sample})


def fact(step: str, name: str, detail: dict[str, Value]) -> Observation:
    """One `protocol.fact`; what is None in the detail is left out."""
    return _seen(Kind.PROTOCOL_FACT, step, {"fact": name, **detail})


def collector(talk: Conversation) -> Collector:
    """What the sensor of the protocol says of itself."""
    session, transcript = talk.session, talk.session.transcript
    received = frames_received(talk)
    return Collector(
        name="protocol",
        phase=Phase.EXERCISE,
        state=CollectorState.ACTIVE,
        lost=transcript.lost + talk.asked_lost,
        limitations=LIMITATIONS,
        counts={
            "frames_received": received,
            "frames_sent": transcript.counts.total() - received,
            "bytes": sum(transcript.bytes.values()),
            "noise_lines": transcript.received(FrameKind.NOISE),
            "answers_beyond_the_first": session.later_answers,
            "answers_with_another_id": session.other_answers,
        },
    )


def frames_received(talk: Conversation) -> int:
    """How many frames the server sent."""
    return sum(n for (way, _), n in talk.session.transcript.counts.items() if way is Direction.RECEIVED)


def _where(step: str, activity: str) -> str:
    return f"{step}/{activity}" if activity else step


def _initialized(talk: Conversation, outcome: outcomes.Initialized) -> dict[str, Value]:
    result = outcome.result
    return {
        "era": talk.era,
        "protocol_version": result.protocol_version,
        "server_name": show_text(result.server_name),
        "server_version": show_text(result.server_version),
        "server_title": None if result.server_title is None else show_text(result.server_title),
        "capabilities": [show_text(name) for name in list(result.capabilities)[: limits.CAPABILITIES]],
        "instructions": None if result.instructions is None else show_text(result.instructions),
        "initialized_sent": True if talk.era == "legacy" else None,
    }


def _asked(asked: Asked) -> dict[str, Value]:
    return {
        "method": show_untrusted(asked.method),
        "answer": asked.answer,
        "params": show_untrusted(asked.params),
        "params_bytes": asked.size,
        "params_sha256": asked.digest,
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


def _seen(kind: Kind, step: str, detail: dict[str, Value]) -> Observation:
    return Observation(
        phase=Phase.EXERCISE,
        step=step,
        kind=kind,
        collector="protocol",
        fidelity=Fidelity.OBSERVED,
        detail={key: value for key, value in detail.items() if value is not None},
    )
