"""A result as an in-toto Statement v1 whose predicate is runtime-trace v0.2, and its DSSE envelope. Pure.

The statement is about what was reviewed, by the digest that the review verified. Its members are those of the public
predicate (in-toto/attestation, spec/predicates/runtime-trace.md); what the predicate has no member for stands in
`fumehood`: limitations, state, sensors, behaviour digest. It is written as RFC 8785 without floats.

Invariants: without a digest of what was reviewed there is no statement; every list says how many were lost; an envelope
has a signature, for DSSE knows none without one.
Not promised: that whoever signs saw the run: a signature says who stands for the statement.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from fumehood.core import jcs
from fumehood.core.errors import RefusedError
from fumehood.observe.model import Kind
from fumehood.review.behaviour import canonical
from fumehood.review.behaviour.noise import is_pooled
from fumehood.review.evidence.ledger import inert
from fumehood.review.request import to_value
from fumehood.review.result import Provenance, ReviewResult, Row

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/runtime-trace/v0.2"
PAYLOAD = "application/vnd.in-toto+json"

Object: TypeAlias = dict[str, Any]

_PORTS = range(1, 65536)
_ACTS = {
    Kind.FILE_CREATED: "created",
    Kind.FILE_CHANGED: "changed",
    Kind.FILE_DELETED: "deleted",
    Kind.FILE_READ: "read",
    Kind.FILE_REFUSED: "refused",
}


class NoSubjectError(RefusedError):
    """A result names no content that a statement could be about."""

    code = "no_subject"


def statement(result: ReviewResult) -> bytes:
    """The canonical bytes of the statement. Errors: `NoSubjectError`."""
    return jcs.encode(jcs.exact(_inert(_statement(result))))


def pae(payload: bytes, kind: str = PAYLOAD) -> bytes:
    """What is signed: the pre-authentication encoding of DSSE v1."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def envelope(payload: bytes, keyid: str, signature: bytes) -> bytes:
    """The DSSE envelope of a payload with one signature over its `pae`."""
    return jcs.encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD,
            "signatures": [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}],
        }
    )


def _statement(result: ReviewResult) -> Object:
    execution, coverage = result.execution, msgspec.to_builtins(result.coverage)
    rows = result.observations.items
    request = to_value(result.request)
    return {
        "_type": STATEMENT,
        "subject": [_subject(result)],
        "predicateType": PREDICATE,
        "predicate": {
            "monitor": {
                "type": "urn:fumehood:review",
                "tracePolicy": {
                    "version": result.environment.harness_version,
                    "conditions": canonical.conditions(result),
                    "sensors": [
                        {"phase": c.phase, "name": c.name, "state": c.state, "lost": c.lost, "cannotSee": c.limitations}
                        for c in result.collectors
                    ],
                },
            },
            "monitoredProcess": {
                "hostID": "urn:fumehood:sandbox",
                "type": f"urn:fumehood:review:{result.request.adapter}:{result.request.action_profile}",
                "event": f"{hashlib.sha256(jcs.encode(jcs.exact(request))).hexdigest()}@{execution.started_at}",
            },
            "monitorLog": {
                "process": [*_processes(rows)],
                "network": [*_network(rows)],
                "fileAccess": [*_files(rows)],
            },
            "metadata": {"buildStartedOn": execution.started_at, "buildFinishedOn": execution.ended_at},
            "fumehood": {
                "status": execution.status,
                "limitations": result.limitations,
                "lost": [
                    {"phase": one.phase, "type": one.type, "count": one.count} for one in result.observations.lost
                ],
                "behaviour": msgspec.to_builtins(canonical.behaviour(result)),
                "coverage": coverage,
            },
        },
    }


def _subject(result: ReviewResult) -> Object:
    found, target = result.provenance, to_value(result.request)["target"]
    digest = dict(_digests(found))
    if not digest:
        raise NoSubjectError(
            "the result has no digest of what was reviewed: it ended before that was known",
            remedy="export a result that has provenance.integrity, commit or digest",
        )
    name = found.repository or found.name or (target.get("path") if isinstance(target, dict) else None) or found.kind
    version = f"@{found.version}" if found.version else ""
    return {"name": f"{found.kind}:{name}{version}", "digest": digest}


def _digests(found: Provenance) -> Iterator[tuple[str, str]]:
    """As in-toto's DigestSet names them, in hex digits."""
    if found.commit:
        yield "gitCommit", found.commit
    if found.digest:
        yield "sha256", found.digest
    for word in (found.integrity or "").split():
        algorithm, _, encoded = word.partition("-")
        if algorithm in {"sha256", "sha384", "sha512"}:
            try:
                yield algorithm, base64.b64decode(encoded, validate=True).hex()
            except (binascii.Error, ValueError):
                continue


def _processes(rows: tuple[Row, ...]) -> Iterator[Object]:
    for row in rows:
        if row.type in {Kind.PROCESS_EXEC, Kind.PROCESS_REFUSED}:
            detail = row.detail
            yield _present(
                {
                    "eventType": row.type.value,
                    "processBinary": detail.get("program"),
                    "arguments": detail.get("argv"),
                    "call": detail.get("call"),
                    "outcome": detail.get("outcome") or detail.get("error"),
                    **_invoking(row),
                    **_place(row),
                }
            )


def _network(rows: tuple[Row, ...]) -> Iterator[Object]:
    for row in rows:
        if row.type not in {Kind.NETWORK_CONNECT, Kind.NETWORK_OTHER} or row.collector != "egress":
            continue
        detail, port = row.detail, row.detail.get("port")
        address = detail.get("peer") or detail.get("address")
        made = {
            "hostname": detail.get("name"),
            "ip": None if is_pooled(address) else address,
            "port": port if isinstance(port, int) and port in _PORTS else None,
            "protocol": str(detail.get("protocol") or "tcp").lower(),
            "decision": detail.get("decision"),
            **_place(row),
        }
        if made["hostname"] or made["ip"]:
            yield _present(made)


def _files(rows: tuple[Row, ...]) -> Iterator[Object]:
    """As ResourceDescriptors; of reads no digest is known."""
    for row in rows:
        act = _ACTS.get(row.type)
        if act is None or not isinstance(row.detail.get("path"), str):
            continue
        sha256 = row.detail.get("sha256")
        yield _present(
            {
                "name": row.detail["path"],
                "digest": {"sha256": sha256} if isinstance(sha256, str) else None,
                "annotations": _present({"act": act, "outcome": row.detail.get("outcome"), **_place(row)}),
            }
        )


def _invoking(row: Row) -> Object:
    return {"process": row.detail.get("process"), "parent": row.detail.get("parent")}


def _place(row: Row) -> Object:
    return {"phase": row.phase, "step": row.step, "fidelity": row.fidelity}


def _present(made: Object) -> Object:
    return {key: value for key, value in made.items() if value is not None}


def _inert(value: Any) -> Any:  # noqa: ANN401 - any JSON value, and the same one back
    """A value whose texts nothing acts on, so that what is printed is what is signed."""
    if isinstance(value, dict):
        return {inert(key): _inert(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_inert(entry) for entry in value]
    return inert(str(value)) if isinstance(value, str) else value
