"""A result as SARIF 2.1.0 (OASIS): every observation is informational, of level none, at a logical place. Pure.

Rules are the types of observation, in words of ours. SARIF is made for findings; what stands here are facts, and no
word or level of it says what to think of them.

Invariants: each result is `informational` and `none`; a text of the target's is data of a message, never a placeholder
or a link of it (SARIF, 3.11).
Not promised: that a viewer shows what lies at no line of a file: code scanning on forges wants one.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from fumehood.observe.model import Kind
from fumehood.review.behaviour import canonical
from fumehood.review.result import ReviewResult, Row
from fumehood.review.states import State

Object: TypeAlias = dict[str, Any]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SHOWN = 200  # characters of one value in a message; `properties` has the whole
_ESCAPED = str.maketrans({"{": "{{", "}": "}}", "[": r"\[", "]": r"\]", "\\": "\\\\"})

RULES: Mapping[Kind, str] = {
    Kind.PROCESS_EXEC: "A program was started, or its start was tried.",
    Kind.PROCESS_EXIT: "A process ended.",
    Kind.PROCESS_REFUSED: "A system call was refused.",
    Kind.NETWORK_DNS: "A name was asked for.",
    Kind.NETWORK_CONNECT: "A connection was tried.",
    Kind.NETWORK_TLS: "A TLS client said which server it wants.",
    Kind.NETWORK_HTTP: "An HTTP request was made.",
    Kind.NETWORK_OTHER: "Another packet was sent, or a port was opened.",
    Kind.FILE_CREATED: "A file was created.",
    Kind.FILE_CHANGED: "A file was changed.",
    Kind.FILE_DELETED: "A file was deleted.",
    Kind.FILE_READ: "A file outside the workspace was read or looked at.",
    Kind.FILE_REFUSED: "Access to a file was refused.",
    Kind.PROTOCOL_FRAME: "A frame of the protocol came or went.",
    Kind.PROTOCOL_NOISE: "Lines that are no frames stood on standard output.",
    Kind.PROTOCOL_FACT: "The server said something of itself, or answered.",
    Kind.OUTPUT_TEXT: "Text was written to a stream.",
    Kind.CANARY_READ: "A planted credential was read.",
    Kind.CANARY_SENT: "A planted credential was found in what was given away.",
}
_FIRST = (
    *("program", "argv", "name", "method", "target", "address", "port", "decision"),
    *("path", "fact", "canary", "call", "outcome"),
)


def log(result: ReviewResult) -> Object:
    """The SARIF log of a result."""
    kinds = list(RULES)
    behaviour = canonical.behaviour(result)
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "fumehood",
                        "version": result.environment.harness_version,
                        "rules": [*map(_rule, kinds)],
                    }
                },
                "invocations": [_invocation(result)],
                "results": [*(_result(row, kinds.index(row.type)) for row in result.observations.items)],
                "columnKind": "unicodeCodePoints",
                "properties": {
                    "status": result.execution.status.value,
                    "behaviour": msgspec.to_builtins(behaviour),
                    "conditions": canonical.conditions(result),
                    "limitations": [*result.limitations],
                    "lost": msgspec.to_builtins(result.observations.lost),
                    "coverage": msgspec.to_builtins(result.coverage),
                    "sensors": msgspec.to_builtins(result.collectors),
                },
            }
        ],
    }


def _rule(kind: Kind) -> Object:
    return {
        "id": kind.value,
        "shortDescription": {"text": RULES[kind]},
        "defaultConfiguration": {"level": "none"},
    }


def _invocation(result: ReviewResult) -> Object:
    """How the review ended; what it could not see are notifications of the tool's own."""
    execution = result.execution
    made: Object = {
        "executionSuccessful": execution.status is not State.HARNESS_ERROR,
        "toolExecutionNotifications": [{"level": "none", "message": _message(text)} for text in result.limitations],
    }
    for key, moment in (("startTimeUtc", execution.started_at), ("endTimeUtc", execution.ended_at)):
        if moment:
            made[key] = moment
    return made


def _result(row: Row, rule: int) -> Object:
    return {
        "ruleId": row.type.value,
        "ruleIndex": rule,
        "kind": "informational",
        "level": "none",
        "message": _message(f"{RULES[row.type]} {' '.join(_words(row.detail))}".strip()),
        "locations": [
            {
                "logicalLocations": [
                    {"name": row.step or row.phase.value, "fullyQualifiedName": f"{row.phase.value}/{row.step}"}
                ]
            }
        ],
        "properties": {
            "sequence": row.sequence,
            "collector": row.collector,
            "fidelity": row.fidelity.value,
            "cut": row.cut,
            "detail": row.detail,
        },
    }


def _place(row: Row) -> Object:
    return {"name": row.step or row.phase.value, "fullyQualifiedName": f"{row.phase.value}/{row.step}"}


def _words(detail: Mapping[str, Any]) -> Iterator[str]:
    for key in _FIRST:
        if detail.get(key) is not None:
            yield f"{key}={json.dumps(detail[key])[:_SHOWN]}"


def _message(text: str) -> Object:
    return {"text": text.translate(_ESCAPED)}
