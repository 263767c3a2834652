"""Results to be shown: one that has a row of every type, the same with hostile words everywhere, and many rows."""

import enum
import json
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.states import State
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import End, Route

T = TypeVar("T")

DIGEST = "5f" * 32
# Words that end a script, open an element, name a program, reorder text, drive a terminal, or name a key of every
# object; one is long.
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<svg/onload=alert(2)><iframe srcdoc='<script>alert(3)</script>'>",
    '"><a href="javascript:alert(4)" autofocus onfocus=alert(5)>x</a>',
    "javascript:alert(6)",
    "]]></style><style>*{display:none}</style><!-- <script>",
    "\u202egnp.exe\u2066\u200b\u2028\u2029\ufeff",
    "\x1b]0;title\x07\x1b[2J\x00\r\n",
    "__proto__",
    "constructor",
    "{{constructor.constructor('alert(7)')()}}${alert(8)}",
    "\U000e0041\U000e0042 tags",
    "<b>&amp;&lt;" * 3,
)

_DETAILS: dict[Kind, tuple[dict[str, Any], ...]] = {
    Kind.PROCESS_EXEC: (
        {
            "process": 1,
            "parent": None,
            "program": "/opt/node/bin/node",
            "argv": ["node", "index.js"],
            "outcome": "started",
        },
        {"process": 2, "parent": 1, "program": "/bin/sh", "argv": ["sh", "-c", "sudo id"], "outcome": "started"},
        {"process": 2, "parent": 1, "program": "sudo", "argv": ["sudo", "id"], "outcome": "ENOENT"},
    ),
    Kind.PROCESS_EXIT: ({"process": 2, "parent": 1, "program": "/bin/sh", "status": 127, "signal": None},),
    Kind.PROCESS_REFUSED: ({"process": 1, "parent": None, "call": "ptrace", "error": "EPERM", "count": 1},),
    Kind.NETWORK_DNS: ({"at_seconds": 0.5, "name": "mail.example", "address": "198.18.1.0", "query_type": 1},),
    Kind.NETWORK_CONNECT: (
        {"at_seconds": 0.6, "name": "mail.example", "address": "198.18.1.0", "port": 443, "decision": "answered"},
        {
            "process": 1,
            "call": "connect",
            "family": "inet",
            "address": "198.18.1.0",
            "port": 443,
            "outcome": "connected",
        },
        {"process": 1, "call": "connect", "family": "unix", "path": "/run/x", "outcome": "ENOENT"},
    ),
    Kind.NETWORK_TLS: ({"name": "mail.example", "port": 443, "decision": "answered"},),
    Kind.NETWORK_HTTP: (
        {
            "name": "mail.example",
            "port": 80,
            "decision": "answered",
            "method": "POST",
            "target": "/collect",
            "host": "mail.example",
            "headers": [["content-type", "text/plain"]],
            "body": "a=1",
            "body_bytes": 3,
            "body_sha256": DIGEST,
            "complete": True,
        },
    ),
    Kind.NETWORK_OTHER: ({"protocol": "udp", "address": "198.51.100.7", "port": 9, "first": "hello"},),
    Kind.FILE_CREATED: (
        {"path": "/home/user/.ssh/authorized_keys", "kind": "file", "mode": 384, "size": 81, "sha256": DIGEST},
    ),
    Kind.FILE_CHANGED: (
        {"path": "/home/user/.bashrc", "kind": "file", "mode": 420, "size": 9, "before": {"mode": 384, "size": 8}},
    ),
    Kind.FILE_DELETED: ({"path": "/home/user/old", "before": {"kind": "folder"}, "holds": 3},),
    Kind.FILE_READ: ({"process": 1, "path": "/home/user/.npmrc", "how": "read", "outcome": "opened", "count": 2},),
    Kind.FILE_REFUSED: ({"process": 1, "path": "/etc/shadow", "how": "read", "outcome": "EACCES", "count": 1},),
    Kind.PROTOCOL_FRAME: (
        {"direction": "sent", "kind": "request", "method": "initialize", "id": "0", "bytes": 152, "sha256": DIGEST},
        {"direction": "received", "kind": "response", "id": "0", "bytes": 2133, "sha256": DIGEST},
    ),
    Kind.PROTOCOL_NOISE: ({"lines": 1, "first": "a banner"},),
    Kind.PROTOCOL_FACT: (
        {
            "fact": "initialized",
            "protocol_version": "2025-06-18",
            "server_name": "server",
            "server_version": "1.0.0",
            "capabilities": ["tools"],
            "instructions": "First line\\nsecond line",
        },
        {"fact": "listed", "what": "tool", "count": 1, "sha256": DIGEST, "pages": 1, "complete": True},
        {
            "fact": "definition",
            "what": "tool",
            "name": "send_mail",
            "sha256": DIGEST,
            "bytes": 512,
            "invisible_characters": [{"at": "description", "signal": "zero_width", "bytes": 3, "spelled": "\\u200b"}],
            "network_refs": ["https://schema.example/a"],
            "description": "Sends \\u200bmail",
        },
        {"fact": "called", "tool": "send_mail", "call": 1, "outcome": "result", "bytes": 20, "sha256": DIGEST},
        {"fact": "asked", "method": "sampling/createMessage", "answer": "declined"},
        {"fact": "repeat_difference", "what": "definition", "name": "send_mail", "before": DIGEST, "after": "0" * 64},
        {"fact": "era_difference", "what": "tools", "name": "send_mail", "before": {"a": [1, None]}, "after": None},
    ),
    Kind.OUTPUT_TEXT: ({"stream": "stderr", "text": "started\n", "bytes": 8, "lines": 1, "dropped_bytes": 0},),
    Kind.CANARY_READ: ({"canary": "npm token", "path": "/home/user/.npmrc", "count": 1},),
    Kind.CANARY_SENT: (
        {"canary": "npm token", "encoding": "base64", "where": "body", "name": "mail.example", "port": 443},
    ),
}
_COLLECTORS = {
    "process": "strace",
    "network": "egress",
    "filesystem": "layer",
    "protocol": "protocol",
    "output": "output",
}


def rows() -> tuple[result.Row, ...]:
    """At least one row of each type, in EXERCISE; connections of the trace are the tracer's."""
    kinds = [(kind, detail) for kind, details in _DETAILS.items() for detail in details]
    return tuple(
        result.Row(
            sequence=number,
            phase=Phase.EXERCISE,
            step="exercise/initialize",
            type=kind,
            collector="strace" if "call" in detail else _COLLECTORS.get(kind.value.partition(".")[0], "canary"),
            fidelity=Fidelity.OBSERVED,
            detail=detail,
        )
        for number, (kind, detail) in enumerate(kinds, 1)
    )


def sample(**changes: object) -> result.ReviewResult:
    """A result in which every part has something."""
    items = rows()
    walls = (
        result.WallRecord(name="seccomp", state=WallState.ENFORCED, how="profile review"),
        result.WallRecord(name="memory", state=WallState.UNAVAILABLE, why="no cgroup", remedy="use cgroup v2"),
        result.WallRecord(name="cpu_time", state=WallState.NOT_REQUESTED),
    )
    fields: dict[str, Any] = {
        "request": request.convert(source.request(source.parse("npm:@scope/server@1.2.3"))),
        "environment": result.Environment(
            harness_version="0.1.0",
            system="Linux",
            machine="x86_64",
            kernel="6.18",
            route=Route.USER,
            tools=(result.ToolRecord(name="node", path="/usr/bin/node", version="24", sha256=DIGEST, origin="system"),),
            target_user="user",
            assumptions=("the kernel enforces its namespaces",),
        ),
        "provenance": result.Provenance(
            kind="npm",
            pinned=True,
            preparation=result.Preparation(profile="NONE", status="not_requested"),
            name="@scope/server",
            version="1.2.3",
            lockfile=result.Lockfile(path="package-lock.json", sha256=DIGEST, version=3, packages=12),
        ),
        "execution": result.Execution(
            status=State.COMPLETED,
            started_at="2026-11-29T12:00:00.000Z",
            ended_at="2026-11-29T12:00:09.000Z",
            steps=(
                result.StepRecord(name="fetch", phase=Phase.FETCH, end=End.EXITED, status=0, wall_seconds=7.5),
                result.StepRecord(name="exercise", phase=Phase.EXERCISE, end=End.STOPPED, wall_seconds=2.5, signal=9),
            ),
        ),
        "collectors": tuple(
            result.CollectorRecord(
                name=name, phase=Phase.EXERCISE, state=state, lost=lost, why=why, limitations=("a limit",)
            )
            for name, state, lost, why in (
                ("strace", CollectorState.ACTIVE, 3, ""),
                ("egress", CollectorState.ACTIVE, 0, ""),
                ("layer", CollectorState.DEGRADED, 0, "a folder could not be read"),
                ("protocol", CollectorState.ACTIVE, 0, ""),
                ("output", CollectorState.UNAVAILABLE, 0, "closed"),
            )
        ),
        "observations": result.Observations(
            items=items,
            total=len(items) + 2,
            lost=(result.Lost(phase=Phase.EXERCISE, type=Kind.NETWORK_HTTP, count=2),),
        ),
        "errors": (result.ErrorRecord(code="deadline", message="exercise: no answer within 60 s", step="exercise"),),
        "containment": (result.ContainmentRecord(step="exercise", route="user", walls=walls),),
        "limitations": (result.FIRST_LIMITATION, "the trace was cut"),
        "coverage": result.Coverage(hooks_declared=2, hooks_run=1, tools_listed=1, tools_called=1, bytes_dropped=5),
        **changes,
    }
    return result.ReviewResult(**fields)


def lines(shown: result.ReviewResult) -> list[bytes]:
    """The result's rows as `events.ndjson` has them."""
    return [msgspec.json.encode(item) + b"\n" for item in shown.observations.items]


def poisoned(value: T, word: str) -> T:
    """`value` with `word` in place of every text that is free, and as a further key and value of every detail."""
    made: Any = value
    if isinstance(value, enum.Enum) or value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        made = word
    elif isinstance(value, tuple):
        made = tuple(poisoned(entry, word) for entry in value)
    elif isinstance(value, list):
        made = [poisoned(entry, word) for entry in value]
    elif isinstance(value, dict):
        counts = all(isinstance(entry, int) for entry in value.values())  # of a sensor, not a detail
        made = {key: entry if key == "fact" else poisoned(entry, word) for key, entry in value.items()}
        made[word] = 1 if counts else [word]
    elif isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        kept = {"profile", "adapter", "kind"} if not isinstance(value, result.WallRecord | result.ToolRecord) else set()
        made = msgspec.structs.replace(
            value, **{name: entry if name in kept else poisoned(entry, word) for name, entry in fields.items()}
        )
    return made  # type: ignore[no-any-return]  # of the type that was given


def hostile() -> result.ReviewResult:
    """A result whose every free text is hostile: each word in rows of its own, all of them together elsewhere."""
    whole = poisoned(sample(), "".join(HOSTILE))
    items = [row for word in HOSTILE for row in poisoned(rows(), word)]
    long = HOSTILE[0] + "a" * 1_000_000 + HOSTILE[0]
    items += [
        msgspec.structs.replace(row, detail={**row.detail, "text": long, "description": long, "name": long})
        for row in rows()
        if row.type in {Kind.OUTPUT_TEXT, Kind.PROTOCOL_FACT, Kind.NETWORK_HTTP}
    ]
    numbered = tuple(msgspec.structs.replace(row, sequence=number) for number, row in enumerate(items, 1))
    return msgspec.structs.replace(
        whole,
        observations=result.Observations(items=numbered, total=len(numbered)),
        limitations=(*whole.limitations, long),
    )


def many(number: int) -> Iterator[bytes]:
    """So many lines of `events.ndjson`, over all phases, of the length that they have on average."""
    phases = list(Phase)
    for sequence in range(1, number + 1):
        phase = phases[sequence % len(phases)]
        yield (
            json.dumps(
                {
                    "sequence": sequence,
                    "phase": phase.value,
                    "step": f"{phase.value.lower()}/tools/call:{sequence % 7}",
                    "type": "filesystem.read" if sequence % 3 else "process.exec",
                    "collector": "strace",
                    "fidelity": "observed",
                    "detail": {
                        "at_seconds": sequence / 1000,
                        "process": sequence % 500,
                        "parent": (sequence % 500) // 2 or None,
                        "path": f"/home/user/project/node_modules/package-{sequence}/lib/{sequence * 7919 % 10007}.js",
                        "program": "/opt/node/bin/node",
                        "argv": ["node", "--eval", f"work({sequence})", "x" * 80],
                        "how": "read",
                        "outcome": "started",
                        "count": 1,
                    },
                    "cut": False,
                }
            ).encode()
            + b"\n"
        )
