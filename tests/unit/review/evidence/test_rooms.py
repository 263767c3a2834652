"""What a flood cannot push out of a result."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.observe.model import Fidelity, Kind, Observation, Phase
from fumehood.review.evidence import rooms
from fumehood.review.evidence.ledger import Ledger

HOME, WORKSPACE = "/home/mira", "/home/mira/notes"


def seen(kind: Kind, *, phase: Phase = Phase.EXERCISE, **detail: Any) -> Observation:
    return Observation(
        phase=phase, step="s", kind=kind, collector="layer", fidelity=Fidelity.OBSERVED, detail=dict(detail)
    )


def observe(ledger: Ledger, observation: Observation) -> None:
    ledger.observe(observation, room=rooms.of(observation.kind, observation.detail, HOME, WORKSPACE))


def paths(ledger: Ledger) -> set[Any]:
    return {row.detail.get("path") for row in ledger.observations.items}


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("/home/mira/.ssh/authorized_keys", ".ssh/authorized_keys"),
        ("/home/mira/.ssh/other", ".ssh/"),
        ("/home/mira/.ssh", ".ssh/"),
        ("/home/mira/.bashrc", ".bashrc"),
        ("/home/mira/.zzz/1", ""),
        ("/home/mira/notes/.git/hooks/pre-commit", ".git/hooks/"),
        ("/home/mira/notes/.bashrc", ""),
        ("/home/mira/notes/a", ""),
        ("/home/miranda/.bashrc", ""),
        ("/etc/shadow", "/etc"),
        ("/tmp/a", ""),
        ("relative", ""),
    ],
)
def test_a_path_has_the_room_of_its_place(path: str, room: str) -> None:
    assert rooms.of_path(path, HOME, WORKSPACE) == room


@given(path=st.text(max_size=60), base=st.sampled_from(["", HOME, WORKSPACE]))
def test_a_target_cannot_make_rooms(path: str, base: str) -> None:
    room = rooms.of_path(f"{base}/{path}", HOME, WORKSPACE)
    assert room in {"", *rooms.names()}
    assert len(rooms.names()) < limits.ROOMS_ITEMS


@pytest.mark.threat("R4")
@pytest.mark.parametrize(
    ("flood", "fact"),
    [
        (
            [seen(Kind.FILE_CREATED, path=f"{HOME}/.aaa/{n}") for n in range(2000)],
            seen(Kind.FILE_CREATED, path=f"{HOME}/.ssh/authorized_keys"),
        ),
        (
            [seen(Kind.FILE_READ, path=f"{HOME}/.ssh/a{n}") for n in range(2000)],
            seen(Kind.FILE_READ, path="/etc/shadow"),
        ),
        (
            [seen(Kind.NETWORK_CONNECT, address="127.0.0.1", port=n) for n in range(2000)],
            seen(Kind.NETWORK_CONNECT, address="203.0.113.9", port=443),
        ),
        (
            [seen(Kind.PROCESS_EXEC, program=f"{HOME}/p{n}") for n in range(2000)],
            seen(Kind.PROCESS_EXEC, program="/usr/bin/curl"),
        ),
    ],
)
def test_a_flood_elsewhere_hides_no_fact_that_has_a_room(flood: list[Observation], fact: Observation) -> None:
    ledger = Ledger(lambda _: True)
    for observation in [*flood, fact]:
        observe(ledger, observation)
    assert ledger.observations.items[-1].detail == fact.detail
    assert sum(lost.count for lost in ledger.observations.lost) == len(flood) + 1 - len(ledger.observations.items)
    assert ledger.count(fact.kind, fact.phase) == len(flood) + 1


@pytest.mark.threat("R10")
def test_rooms_are_bounded_in_number_and_bytes() -> None:
    ledger = Ledger(lambda _: True)
    for n in range(limits.LIST_ITEMS):
        observe(ledger, seen(Kind.FILE_CREATED, path=f"/tmp/{n}"))
    for name in sorted(rooms.names()):
        for n in range(50):
            place = f"{name}/{n}" if name.startswith("/") else f"{HOME}/{name}/{n}"
            observe(ledger, seen(Kind.FILE_CREATED, path=place, note="x" * 2000))
    beyond = len(ledger.observations.items) - limits.LIST_ITEMS
    assert 0 < beyond * 2000 < limits.ROOMS_BYTES
    assert beyond < limits.ROOMS_ITEMS


@pytest.mark.threat("R4")
def test_a_flood_in_one_phase_silences_no_other_in_the_events() -> None:
    lines: list[bytes] = []

    def sink(line: bytes) -> bool:
        lines.append(line)
        return len(lines) <= limits.EVENTS

    ledger = Ledger(sink)
    for n in range(limits.EVENTS_PHASE + 10):
        ledger.observe(seen(Kind.FILE_CREATED, phase=Phase.INSTALL, path=f"/tmp/{n}"))
    ledger.observe(seen(Kind.FILE_CREATED, phase=Phase.EXERCISE, path="/tmp/later"))
    assert len(lines) == limits.EVENTS_PHASE + 1
    assert b"/tmp/later" in lines[-1]
    assert len(Phase) * limits.EVENTS_PHASE <= limits.EVENTS
    assert len(Phase) * limits.EVENTS_PHASE_BYTES <= limits.EVENTS_BYTES
