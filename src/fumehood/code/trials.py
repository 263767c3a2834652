"""What a self test tries, and what its outcomes mean. Pure: text and results in, values out.

A program that must not succeed proves something only if it succeeds without walls: `held` says that it did not with
them and did without. Where it fails without them too it is `not_proven`; that counts as a failure of the self test.
"""

import enum
import re
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from fumehood.code.job import JobResult, State
from fumehood.core.errors import HarnessError
from fumehood.core.jsonio import JsonValue

_HEAD: Final = re.compile(r"^//== ([a-z-]+): ([a-z]+)(?: -> (.+))?\n", re.MULTILINE)
_AFTER: Final = 3  # groups of a head; behind them in a split stands the program


class Kind(enum.StrEnum):
    """What a program is for."""

    LEAK = "leak"  # has to come back without the mark
    BOUND = "bound"  # has to end in its state
    WORKS = "works"  # has to give its value


class Outcome(enum.StrEnum):
    """What a trial says."""

    HELD = "held"
    NOT_HELD = "not_held"
    NOT_PROVEN = "not_proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One program of the self test."""

    name: str
    kind: Kind
    program: str
    expected: str = ""  # a state, or a value as JSON


class Tried(Struct, frozen=True, kw_only=True):
    """What came of one trial: words for each side; `without_walls` is empty for a program that only has to work."""

    name: str
    kind: Kind
    outcome: Outcome
    with_walls: str
    without_walls: str = ""


class Report(Struct, frozen=True, kw_only=True):
    """A whole self test."""

    ok: bool
    deno: str
    deno_sha256: str
    trials: tuple[Tried, ...]
    containment: dict[str, str] = msgspec.field(default_factory=dict)


def read(text: str) -> tuple[Trial, ...]:
    """The trials of a file; `HarnessError` when there are none, or one is of no kind."""
    parts = _HEAD.split(text)[1:]
    trials = []
    for at in range(0, len(parts), _AFTER + 1):
        name, kind, expected, program = parts[at : at + _AFTER + 1]
        if kind not in set(Kind):
            raise HarnessError(f"the trial {name} is of no kind that is known")
        trials.append(Trial(name=name, kind=Kind(kind), program=program.strip(), expected=expected or ""))
    if not trials:
        raise HarnessError("there is nothing to try")
    return tuple(trials)


def judge(trial: Trial, confined: JobResult, free: JobResult | None, mark: str) -> Tried:
    """What two runs of one program say; `free` is the one without walls, where the trial needs it."""
    return Tried(
        name=trial.name,
        kind=trial.kind,
        outcome=_outcome(trial, confined, free, mark),
        with_walls=_words(confined, mark),
        without_walls="" if free is None else _words(free, mark),
    )


def gives_away(result: JobResult, mark: str) -> bool:
    """Whether the mark stands anywhere in a result."""
    return mark in msgspec.json.encode(result).decode("utf-8")


def _outcome(trial: Trial, confined: JobResult, free: JobResult | None, mark: str) -> Outcome:
    if confined.state is State.RUNNER_UNAVAILABLE:
        return Outcome.NOT_PROVEN
    match trial.kind:
        case Kind.WORKS:
            works = confined.ok and _is_value(confined.value, trial.expected)
            return Outcome.HELD if works else Outcome.NOT_HELD
        case Kind.LEAK:
            held, succeeds = not gives_away(confined, mark), free is not None and gives_away(free, mark)
        case Kind.BOUND:
            held, succeeds = confined.state.value == trial.expected, free is not None and free.ok
    if not held:
        return Outcome.NOT_HELD
    return Outcome.HELD if succeeds else Outcome.NOT_PROVEN


def _is_value(value: JsonValue, expected: str) -> bool:
    return bool(msgspec.json.decode(expected) == value)


def _words(result: JobResult, mark: str) -> str:
    if gives_away(result, mark):
        return "gave the mark away"
    return result.state.value if result.error is None else f"{result.state.value}: {result.error.name}"
