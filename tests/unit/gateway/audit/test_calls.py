"""A call at the gate becomes an event that says who made it, and nothing of what it was about."""

import pytest

from fumehood.code.gate import AuditRecord
from fumehood.gateway.audit import calls, chain
from fumehood.gateway.audit.chain import Position
from fumehood.serve.records import Record

FOUND = AuditRecord(
    sequence=3,
    tool="fake.erase",
    decision="scope",
    outcome="refused",
    error="read_only",
    arguments_sha256="ab" * 32,
    arguments_bytes=3,
    answer_bytes=0,
    milliseconds=1.2345,
    writes=True,
)


@pytest.mark.parametrize("who", [calls.user(0), calls.user(4294967294), calls.token("token 0123456789ab")])
def test_a_record_becomes_an_event_that_can_be_written(who: str) -> None:
    event = calls.event(FOUND, calls.Caller(source="code", who=who, run="ab" * 8))
    assert (event.who, event.call, event.tool, event.writes) == (who, 3, "fake.erase", True)
    assert (event.decision, event.outcome, event.error, event.microseconds) == ("scope", "refused", "read_only", 1234)
    chain.written(event, Position(), "2026-11-30T00:00:00.000Z")


def test_a_token_is_named_by_its_key() -> None:
    assert calls.token("token aaaabbbbcccc") == "token:aaaabbbbcccc"


@pytest.mark.parametrize(
    ("principal", "who"),
    [
        ("local", "uid:7"),
        ("token aaaabbbbcccc", "token:aaaabbbbcccc"),
        ("oauth aaaabbbbccccdddd", "token:oauth:aaaabbbbccccdddd"),
        ("local 127.0.0.1", "address:127.0.0.1"),
        ("local ::1", "address:::1"),
        ("local socket", "address:socket"),
    ],
)
def test_whoever_calls_a_server_is_named_as_far_as_is_known(principal: str, who: str) -> None:
    assert calls.who(principal, 7) == who
    event = calls.event(FOUND, calls.Caller(source="serve", who=who, run="ab" * 8))
    chain.written(event, Position(), "2026-11-30T00:00:00.000Z")


def test_a_record_of_a_server_becomes_an_event_that_only_reads() -> None:
    record = Record(
        number=2,
        principal="local",
        tool="read_file",
        decision="denied_path",
        outcome="refused",
        error="denied_path",
        arguments_sha256="ab" * 32,
        arguments_bytes=3,
        answer_bytes=40,
        microseconds=12,
    )
    event = calls.served(record, calls.Caller(source="serve", who="uid:7", run="ab" * 8))
    assert (event.source, event.call, event.writes, event.decision) == ("serve", 2, False, "denied_path")
    chain.written(event, Position(), "2026-11-30T00:00:00.000Z")
