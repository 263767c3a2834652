"""What a target wrote to its streams, as one bounded observation a stream. Pure.

The text is redacted and made inert as a whole, before anything is cut: a secret on a cut would keep its shape from the
redaction. Where the capture itself was cut, the last word goes too, for it may be the beginning of one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase

COLLECTOR = "output"
LIMITATIONS = (
    "Text is captured up to 256 KiB a stream; what came after is counted and not kept.",
    "What a process writes to a file, a terminal of its own or a closed stream is not captured.",
    "Known shapes of secrets are redacted; others are not recognised.",
)
_WORD_BYTES = 4 * limits.KIB  # a cut secret is not longer than this; a key block would be, and has lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One stream: its first bytes, and how many there were."""

    stream: str  # "stdout", "stderr"
    data: bytes
    total_bytes: int


def observe(
    streams: tuple[Captured, ...], where: tuple[Phase, str], redact: Callable[[bytes], str]
) -> list[Observation]:
    """An observation for each stream that carried anything."""
    phase, step = where
    made: list[Observation] = []
    for stream in streams:
        if not stream.total_bytes:
            continue
        kept = whole_words(stream.data, cut=stream.total_bytes > len(stream.data))
        made.append(
            Observation(
                phase=phase,
                step=step,
                kind=Kind.OUTPUT_TEXT,
                collector=COLLECTOR,
                fidelity=Fidelity.OBSERVED,
                detail={
                    "stream": stream.stream,
                    "text": redact(kept),
                    "bytes": stream.total_bytes,
                    "dropped_bytes": stream.total_bytes - len(kept),
                    "lines": stream.data.count(b"\n"),
                },
            )
        )
    return made


def whole_words(data: bytes, *, cut: bool) -> bytes:
    """`data` within the capture's bound, without a last word that was cut."""
    kept = data[: limits.CAPTURE_BYTES]
    if not cut and len(kept) == len(data):
        return kept
    tail = kept[-_WORD_BYTES:]
    word = len(tail) - max(tail.rfind(b" "), tail.rfind(b"\n"), tail.rfind(b"\t")) - 1
    return kept[: len(kept) - word]


def collector(phase: Phase, streams: tuple[Captured, ...]) -> Collector:
    """What this sensor did, and how many bytes it did not keep."""
    lost = sum(stream.total_bytes - len(stream.data) for stream in streams)
    return Collector(
        name=COLLECTOR,
        phase=phase,
        state=CollectorState.DEGRADED if lost else CollectorState.ACTIVE,
        lost=lost,
        why=f"{lost} bytes were not kept" if lost else "",
        limitations=LIMITATIONS,
        counts={f"{stream.stream}_bytes": stream.total_bytes for stream in streams},
    )
