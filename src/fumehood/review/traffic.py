"""What the egress engine saw, as observations. Pure.

`connect() = 0` in a trace only means that our listener accepted: what became of a connection stands here, by name,
with the address that was dialled and the bytes that went each way.
"""

from collections.abc import Callable, Iterator

from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.sandbox.egress import EgressRecord, EgressReport, Mode

Show = Callable[[bytes], str]

LIMITATIONS = (
    "names are answered with addresses of 198.18.0.0/15, which a target can recognise",
    "what is inside TLS is not read: the server name is, unless the client encrypts it",
    "of a refused connection only the first bytes are kept",
)


def observations(report: EgressReport, phase: Phase, step: str, show: Show) -> Iterator[Observation]:
    """One observation for each record, and one more for each TLS or HTTP greeting."""
    for record in report.records:
        kind = {"dns": Kind.NETWORK_DNS, "tcp": Kind.NETWORK_CONNECT}.get(record.kind, Kind.NETWORK_OTHER)
        yield _made(phase, step, kind, _common(record, show) | _own(record, show))
        if record.hello == "tls":
            yield _made(phase, step, Kind.NETWORK_TLS, _greeting(record, show))
        elif record.hello == "http":
            greeting = _greeting(record, show) | {"request": show((record.request_line or "").encode())}
            yield _made(phase, step, Kind.NETWORK_HTTP, greeting)


def collector(report: EgressReport, phase: Phase, mode: Mode) -> Collector:
    """What the engine did in one step; degraded when a part of it could not be set up."""
    lost = sum(report.lost.values())
    limitations = LIMITATIONS if mode is not Mode.NONE else ()
    return Collector(
        name="egress",
        phase=phase,
        state=CollectorState.DEGRADED if report.notes else CollectorState.ACTIVE,
        lost=lost,
        why="; ".join(report.notes),
        limitations=limitations,
        counts={"records": len(report.records)} | {f"lost {key}": n for key, n in sorted(report.lost.items())},
    )


def refused_names(report: EgressReport) -> tuple[str, ...]:
    """The names whose connections the policy refused, in order, each once."""
    names = [r.name for r in report.records if r.kind == "tcp" and r.decision == "refused" and r.name]
    return tuple(dict.fromkeys(names))


def _made(phase: Phase, step: str, kind: Kind, detail: dict[str, Value]) -> Observation:
    return Observation(
        phase=phase, step=step, kind=kind, collector="egress", fidelity=Fidelity.OBSERVED, detail=_present(detail)
    )


def _common(record: EgressRecord, show: Show) -> dict[str, Value]:
    return {
        "at_seconds": round(record.at_seconds, 3),
        "name": None if record.name is None else show(record.name.encode("utf-8", "backslashreplace")),
        "address": record.address,
        "port": record.port,
    }


def _own(record: EgressRecord, show: Show) -> dict[str, Value]:
    if record.kind == "dns":
        return {"query_type": record.query_type, "response_code": record.response_code}
    if record.kind == "tcp":
        return {
            "decision": record.decision,
            "why": None if record.why is None else show(record.why.encode("utf-8", "backslashreplace")),
            "peer": record.peer,
            "up_bytes": record.up_bytes,
            "down_bytes": record.down_bytes,
            "seconds": None if record.seconds is None else round(record.seconds, 3),
            "end": record.end,
        }
    return {
        "protocol": record.protocol,
        "decision": record.decision,
        "first": show(record.first) if record.first else None,
    }


def _greeting(record: EgressRecord, show: Show) -> dict[str, Value]:
    return {
        "name": None if record.server_name is None else show(record.server_name.encode("utf-8", "backslashreplace")),
        "port": record.port,
        "decision": record.decision,
    }


def _present(detail: dict[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in detail.items() if value is not None}
