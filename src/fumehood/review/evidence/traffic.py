"""What the egress engine saw, as observations. Pure.

`connect() = 0` in a trace only means that our listener accepted: what became of a connection stands here, by name,
with the address that was dialled and the bytes that went each way.
"""

from collections.abc import Callable, Iterator

from fumehood.core import limits
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase, Value
from fumehood.sandbox.egress import EgressRecord, EgressReport, EgressRequest, Mode

Show = Callable[[bytes], str]

LIMITATIONS = (
    "names are answered with addresses of 198.18.0.0/15, which a target can recognise",
    "what is inside TLS is not read: the server name is, unless the client encrypts it",
    "of a refused connection only the first bytes are kept",
)
_STARVED = 5  # names in one line
_CREDENTIALS = frozenset(  # headers whose value is one, whatever it looks like
    b"authorization proxy-authorization cookie set-cookie api-key x-api-key x-auth-token x-access-token private-token "
    b"x-amz-security-token x-goog-api-key".split()
)
_SINKHOLE = (
    "nothing was reached: every connection was answered here, so what follows a real answer is not seen",
    "requests inside TLS are not read: TLS is ended by an alert once the client has said which server it wants",
)


def observations(report: EgressReport, phase: Phase, step: str, show: Show) -> Iterator[Observation]:
    """One observation for each record, one more for each TLS greeting, and one for each HTTP request."""
    for record in report.records:
        kind = {"dns": Kind.NETWORK_DNS, "tcp": Kind.NETWORK_CONNECT}.get(record.kind, Kind.NETWORK_OTHER)
        moment = report.moment(record.at_seconds)
        where = (phase, step, moment)
        yield _made(where, kind, _common(record, show) | _own(record, show))
        if record.hello == "tls":
            yield _made(where, Kind.NETWORK_TLS, _greeting(record, show))
        for request in record.requests:
            heard = (phase, step, report.moment(request.at_seconds))
            yield _made(heard, Kind.NETWORK_HTTP, _request(record, request, show))
        if record.hello == "http" and not record.requests:
            greeting = _greeting(record, show) | {"request": show((record.request_line or "").encode())}
            yield _made(where, Kind.NETWORK_HTTP, greeting)


def collector(report: EgressReport, phase: Phase, mode: Mode) -> Collector:
    """What the engine did in one step; degraded when a part of it could not be set up."""
    lost = sum(report.lost.values())
    seen = LIMITATIONS if mode is not Mode.NONE else ()
    limitations = (*seen, *(_SINKHOLE if mode is Mode.SINKHOLE else ()))
    return Collector(
        name="egress",
        phase=phase,
        state=CollectorState.DEGRADED if report.notes else CollectorState.ACTIVE,
        lost=lost,
        why="; ".join(report.notes),
        limitations=limitations,
        counts={"records": len(report.records)} | {f"lost {key}": n for key, n in sorted(report.lost.items())},
    )


def starved(report: EgressReport, step: str) -> str:
    """What is to be said of a step that failed where names were answered here; empty when none were."""
    names = dict.fromkeys(r.name for r in report.records if r.kind == "tcp" and r.decision == "answered" and r.name)
    if not names:
        return ""
    listed = ", ".join(list(names)[:_STARVED])
    more = f" and {len(names) - _STARVED} more" if len(names) > _STARVED else ""
    return (
        f"{step} failed after {listed}{more} had been answered here: it may need what is really there, "
        "which network_mode ALLOWLIST or OPEN would give it"
    )


def refused_names(report: EgressReport) -> tuple[str, ...]:
    """The names whose connections the policy refused, in order, each once."""
    names = [r.name for r in report.records if r.kind == "tcp" and r.decision == "refused" and r.name]
    return tuple(dict.fromkeys(names))


def _made(where: tuple[Phase, str, float | None], kind: Kind, detail: dict[str, Value]) -> Observation:
    phase, step, moment = where
    return Observation(
        phase=phase,
        step=step,
        kind=kind,
        collector="egress",
        fidelity=Fidelity.OBSERVED,
        detail=_present(detail),
        moment=moment,
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
            "first": _beginning(record.first, show) if record.hello in ("other", "partial") else None,
            "up_bytes": record.up_bytes,
            "down_bytes": record.down_bytes,
            "seconds": None if record.seconds is None else round(record.seconds, 3),
            "end": record.end,
        }
    return {
        "protocol": record.protocol,
        "decision": record.decision,
        "first": _beginning(record.first, show),
    }


def _beginning(data: bytes, show: Show) -> str | None:
    return show(data) if data else None


def _greeting(record: EgressRecord, show: Show) -> dict[str, Value]:
    return {
        "at_seconds": round(record.at_seconds, 3),
        "name": None if record.server_name is None else show(record.server_name.encode("utf-8", "backslashreplace")),
        "port": record.port,
        "decision": record.decision,
        "note": record.note,
    }


def _request(record: EgressRecord, request: EgressRequest, show: Show) -> dict[str, Value]:
    """A request. A header and its value are shown as one text, so that the redaction knows what the value is of."""
    method, target = (show(text.encode("utf-8", "backslashreplace")) for text in (request.method, request.target))
    host = request.host if request.host is not None else record.name
    return {
        "at_seconds": round(request.at_seconds, 3),
        "name": None if host is None else show(host.encode("utf-8", "backslashreplace")),
        "port": record.port,
        "decision": record.decision,
        "request": f"{method} {target}",
        "method": method,
        "target": target,
        "host": None if request.host is None else show(request.host.encode("utf-8", "backslashreplace")),
        "headers": [_header(name, value, show) for name, value in request.headers],
        "headers_lost": request.headers_lost or None,
        "body": _beginning(request.body, show),
        "body_bytes": request.body_bytes,
        "body_sha256": request.body_sha256,
        "complete": request.complete,
        "note": request.note or None,
    }


def _header(name: bytes, value: bytes, show: Show) -> str:
    """Name and value as one text; what is a credential by its name is told by its size only."""
    if name in _CREDENTIALS:
        value = b"[redacted:header] %d bytes" % len(value)
    return show(name + b": " + value)[: limits.HEADER_CHARACTERS]


def _present(detail: dict[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in detail.items() if value is not None}
