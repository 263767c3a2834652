"""review.evidence.acts: the names that a step is remembered by."""

from fumehood.observe.model import Fidelity, Kind, Observation, Phase, Value
from fumehood.review.evidence import acts
from fumehood.review.evidence.acts import Acts


def seen(kind: Kind, collector: str, **detail: Value) -> Observation:
    return Observation(
        phase=Phase.EXERCISE,
        step="exercise",
        kind=kind,
        collector=collector,
        fidelity=Fidelity.OBSERVED,
        detail=detail,
    )


def test_programs_that_started_and_hosts_that_were_turned_to_are_names() -> None:
    found = Acts()
    found.add(seen(Kind.PROCESS_EXEC, "strace", program="/bin/a", outcome="started"))
    found.add(seen(Kind.PROCESS_EXEC, "strace", program="/bin/b", outcome="ENOENT"))
    found.add(seen(Kind.NETWORK_DNS, "egress", name="a.example"))
    found.add(seen(Kind.NETWORK_CONNECT, "egress", name=None, address="192.0.2.1"))
    found.add(seen(Kind.NETWORK_CONNECT, "strace", address="198.18.0.5"))
    found.add(seen(Kind.FILE_READ, "strace", path="/etc/shadow"))
    assert sorted(found.programs) == ["/bin/a"]
    assert sorted(found.hosts) == ["192.0.2.1", "a.example"]


def test_names_beyond_the_bound_are_counted() -> None:
    found = Acts()
    for number in range(acts.NAMES + 3):
        found.add(seen(Kind.NETWORK_DNS, "egress", name=f"{number}.example"))
        found.add(seen(Kind.NETWORK_DNS, "egress", name="0.example"))
    assert (len(found.hosts), found.lost) == (acts.NAMES, 3)
