"""Results of runs that did the same and drew something else each: users, numbers, ports, times."""

import random
from typing import Any

from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.states import State
from fumehood.sandbox.spec import End, Route

BODY = '{"to": "a", "deep": {"list": [1, {"x": null}]}, "flag": true}'


def rows(user: str, salt: int) -> list[tuple[Kind, Phase, str, dict[str, Any]]]:
    """A run's observations, with everything that a run draws drawn from `user` and `salt`."""
    home, work = f"/home/{user}", f"/home/{user}/{user}-app"
    made: list[tuple[Kind, dict[str, Any]]] = [
        (
            Kind.PROCESS_EXEC,
            {"process": 1, "parent": None, "program": "/opt/node/bin/node", "argv": ["node", f"{work}/a.js"]},
        ),
        (Kind.PROCESS_EXEC, {"process": salt, "parent": 1, "program": "/bin/sh", "argv": ["sh", "-c", f"ls {home}"]}),
        (Kind.PROCESS_EXIT, {"process": 1, "status": salt}),
        (
            Kind.PROCESS_REFUSED,
            {"process": salt, "call": "clone3", "error": "ENOSYS", "arguments": hex(salt), "count": salt},
        ),
        (
            Kind.NETWORK_DNS,
            {"at_seconds": salt / 7, "name": "mail.example", "address": f"198.18.{salt % 250}.1", "query_type": 1},
        ),
        (
            Kind.NETWORK_CONNECT,
            {"name": "mail.example", "port": 443, "decision": "relayed", "up_bytes": salt, "peer": "x"},
        ),
        (Kind.NETWORK_CONNECT, {"process": 1, "family": "inet", "address": f"198.18.{salt % 250}.1", "port": 443}),
        (Kind.NETWORK_CONNECT, {"process": 1, "family": "inet", "address": "127.0.0.1", "port": 33000 + salt % 20000}),
        (Kind.NETWORK_TLS, {"name": "mail.example", "port": 443, "decision": "relayed"}),
        (
            Kind.NETWORK_HTTP,
            {"name": "mail.example", "port": 80, "method": "POST", "target": f"/s?t={10**9 + salt}", "body": BODY},
        ),
        (Kind.NETWORK_OTHER, {"protocol": "udp", "address": "192.0.2.1", "port": 53, "first": str(salt)}),
        (
            Kind.FILE_CREATED,
            {"path": f"{home}/.x", "kind": "file", "mode": "0644", "size": salt, "sha256": f"{salt:064x}"},
        ),
        (Kind.FILE_CHANGED, {"path": f"{work}/a.js", "kind": "file", "mode": "0644", "sha256": "a" * 64}),
        (
            Kind.FILE_READ,
            {"process": 1, "path": f"{home}/.ssh/id_rsa", "how": "read", "outcome": "ENOENT", "count": salt},
        ),
        (Kind.PROTOCOL_FRAME, {"direction": "received", "kind": "response", "bytes": salt, "sha256": f"{salt:064x}"}),
        (Kind.PROTOCOL_FRAME, {"direction": "sent", "kind": "request", "method": f"m{salt}"}),
        (
            Kind.PROTOCOL_FACT,
            {"fact": "initialized", "server_name": "s", "server_version": "1", "capabilities": ["tools"]},
        ),
        (Kind.PROTOCOL_FACT, {"fact": "definition", "what": "tool", "name": "post", "sha256": "b" * 64, "bytes": salt}),
        (Kind.PROTOCOL_FACT, {"fact": "called", "tool": "post", "outcome": "result", "sha256": f"{salt:064x}"}),
        (Kind.OUTPUT_TEXT, {"stream": "stderr", "text": f"started in {salt} ms"}),
        (Kind.CANARY_READ, {"canary": "npm", "path": f"{home}/.npmrc", "process": 1}),
    ]
    return [(kind, Phase.EXERCISE, f"exercise/tools/call:{salt}", detail) for kind, detail in made]


def made(user: str = "max", salt: int = 5, *, order: int = 0, **changes: Any) -> result.ReviewResult:
    listed = changes.pop("rows", None) or rows(user, salt)
    random.Random(order).shuffle(listed)
    items = tuple(
        result.Row(
            sequence=n, phase=phase, step=step, type=kind, collector="x", fidelity=Fidelity.OBSERVED, detail=detail
        )
        for n, (kind, phase, step, detail) in enumerate(listed, start=1)
    )
    step = result.StepRecord(name="exercise", phase=Phase.EXERCISE, end=End.STOPPED, wall_seconds=float(salt))
    fields = {
        "request": request.convert(source.request(source.parse("npm:package@1.2.3"))),
        "environment": result.Environment(
            harness_version="0.1.0",
            system="Linux",
            machine="x86_64",
            kernel=f"6.{salt}",
            route=Route.USER,
            target_user=user,
            target_host=f"{user}-pc",
            workspace=f"/home/{user}/{user}-app",
            registry=f"https://r{salt}.example/",
        ),
        "provenance": result.Provenance(
            kind="npm", pinned=True, preparation=result.Preparation(profile="NONE", status="not_requested")
        ),
        "execution": result.Execution(status=State.COMPLETED, started_at=str(salt), ended_at=str(salt), steps=(step,)),
        "collectors": (result.CollectorRecord(name="strace", phase=Phase.EXERCISE, state=CollectorState.ACTIVE),),
        "observations": result.Observations(items=items, total=len(items)),
        "containment": (),
        "limitations": (result.FIRST_LIMITATION,),
        "coverage": result.Coverage(events_written=salt),
        **changes,
    }
    return result.ReviewResult(**fields)
