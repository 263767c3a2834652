"""The behaviour that a result records, without what differs from run to run, and one digest of it. Pure.

Two parties who review the same version under the same conditions compare one line. The form is a JSON value: the
conditions, how it ended, what the sensors were, and sets of facts by section; its digest is SHA-256 over RFC 8785.

Invariants: neither the order of the rows nor how often a thing was seen, no time, number of a process, name that the
run drew or port that the kernel chose is in it; a fact that is not in the other is.
Not promised: that equal digests mean equal code, or that a target does the same elsewhere or later. They say that what
was recorded is alike, within the sections and the noise of docs/reference/behaviour.md. A form with entries in
`incomplete` came from a list that overflowed: which of its rows were kept is chance.
"""

import hashlib
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from fumehood.core import jcs
from fumehood.observe.model import Kind, Phase, Value
from fumehood.review.behaviour.facts import Section, child, fact
from fumehood.review.behaviour.noise import Noise, is_pooled
from fumehood.review.request import to_value
from fumehood.review.result import Behaviour, ReviewResult, Row

VERSION = "behaviour/1"

Form: TypeAlias = dict[str, Value]

# What of a request decides which behaviour can be seen; its target, question, limits of time and entrypoint do not.
_CONDITIONS = (
    *("adapter", "action_profile", "prepare_profile", "network_mode", "allow", "argv", "linger_seconds"),
    *("protocol_era", "canaries", "repeat"),
)
_OPERATORS = frozenset({Phase.ACQUIRE, Phase.FETCH})  # phases that reach the hosts of the operator's settings


def behaviour(result: ReviewResult) -> Behaviour:
    """The version of the form and the digest of this result's."""
    return Behaviour(version=VERSION, sha256=digest(form(result)))


def digest(made: Form) -> str:
    """SHA-256 over the canonical bytes of a form, in hex digits."""
    return hashlib.sha256(jcs.encode(made)).hexdigest()


def form(result: ReviewResult) -> Form:
    """The form of a result."""
    execution = result.execution
    sensors: list[Value] = [
        {"phase": c.phase.value, "step": child(c.step), "name": c.name, "state": c.state.value, "lossless": c.lost == 0}
        for c in result.collectors
    ]
    steps: list[Value] = [
        {
            "name": s.name,
            "phase": s.phase.value,
            "end": s.end.value,
            "status": s.status,
            "signal": s.signal,
            "trace": s.trace,
        }
        for s in execution.steps
    ]
    errors: list[Value] = [{"step": e.step, "code": e.code} for e in result.errors]
    return {
        "version": VERSION,
        "conditions": conditions(result),
        "state": {"status": execution.status.value, "stop_condition": result.stop_condition_triggered},
        "errors": errors,
        "steps": _exact(steps),
        "sensors": ordered(sensors),
        "incomplete": ordered(
            {"phase": lost.phase.value, "type": lost.type.value} for lost in result.observations.lost
        ),
        **{section.value: facts for section, facts in sections(result).items()},
    }


def conditions(result: ReviewResult) -> dict[str, Value]:
    """What of the request decides which behaviour can be seen."""
    asked: dict[str, Value] = to_value(result.request)
    found = {key: _exact(asked.get(key, getattr(result.request, key, None))) for key in _CONDITIONS}
    return found | {"allow": [*sorted(result.request.allow)]}


def sections(result: ReviewResult) -> dict[Section, list[Value]]:
    """The facts of each section: each once, in the order of their canonical bytes."""
    rows = result.observations.items
    noises = _noises(result, rows)
    programs = _programs(rows, noises)
    found: dict[Section, list[Value]] = {section: [] for section in Section}
    for row in rows:
        step = child(row.step)
        kept = fact(row, noises[row.phase, step], programs.get(step, {}))
        if kept is not None:
            found[kept[0]].append(kept[1])
    return {section: ordered(facts) for section, facts in found.items()}


def ordered(values: Iterable[Value]) -> list[Value]:
    """Each value once, in the order of its canonical bytes."""
    by_bytes = {jcs.encode(value): value for value in map(_exact, values)}
    return [by_bytes[key] for key in sorted(by_bytes)]


def _exact(value: Value) -> Value:
    return cast("Value", jcs.exact(value))  # results come from strangers: a number may be anywhere


def _noises(result: ReviewResult, rows: Iterable[Row]) -> Mapping[tuple[Phase, str], Noise]:
    """The noise of each phase and child: every child has addresses of its own for names."""
    environment = result.environment
    addresses: dict[str, dict[str, str]] = defaultdict(dict)
    keys: set[tuple[Phase, str]] = set()
    for row in rows:
        keys.add((row.phase, child(row.step)))
        name, address = row.detail.get("name"), row.detail.get("address")
        if row.type in {Kind.NETWORK_DNS, Kind.NETWORK_CONNECT} and isinstance(name, str) and is_pooled(address):
            addresses[child(row.step)][str(address)] = name
    places = _places(environment.registry, environment.forge)
    return {
        (phase, step): Noise(
            user=environment.target_user,
            host=environment.target_host,
            workspace=environment.workspace,
            uid=environment.target_uid,
            addresses=addresses[step],
            places=places if phase in _OPERATORS else {},
        )
        for phase, step in keys
    }


def _places(registry: str, forge: str) -> dict[str, str]:
    found = {}
    for url, put in ((registry, "<registry>"), (forge, "<forge>")):
        try:
            host = urllib.parse.urlsplit(url).hostname
        except ValueError:
            continue
        if host:
            found[host] = put
    return found


def _programs(rows: Iterable[Row], noises: Mapping[tuple[Phase, str], Noise]) -> Mapping[str, Mapping[object, str]]:
    """By child and number of a process, the programs that it was, in no order of time."""
    found: dict[str, dict[object, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        program, number = row.detail.get("program"), row.detail.get("process")
        if row.type is Kind.PROCESS_EXEC and isinstance(program, str) and isinstance(number, int):
            step = child(row.step)
            found[step][number].add(noises[row.phase, step].text(program))
    return {step: {n: " | ".join(sorted(names)) for n, names in known.items()} for step, known in found.items()}
