"""A log is gone on with behind its last line, and only where nothing but a crash came after it."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audited import call, chained
from fumehood.core import limits
from fumehood.gateway.audit import chain, tail
from fumehood.gateway.audit.chain import Position, Verified, verify
from fumehood.gateway.audit.faults import AuditPlaceError

LINES = chained(call(), call(call=2), call(call=3))


def last(line: bytes) -> Position:
    fields = json.loads(line)
    return Position(sequence=fields["sequence"], digest=fields["digest"])


def test_a_whole_log_is_gone_on_with_behind_its_last_line() -> None:
    assert tail.look(b"".join(LINES), whole=True) == tail.Tail(position=last(LINES[2]), ending=b"", torn=None)


def test_a_part_of_a_file_may_begin_in_the_middle_of_a_line() -> None:
    assert tail.look(b"".join(LINES)[100:], whole=False).position == last(LINES[2])


def test_an_empty_file_has_no_line() -> None:
    assert tail.look(b"", whole=True) == tail.Tail(position=None, ending=b"", torn=None)


@given(st.integers(0, len(LINES[2])))
def test_a_line_cut_anywhere_is_ended_and_stated_and_the_chain_holds(length: int) -> None:
    piece = LINES[2][:length]
    found = tail.look(LINES[0] + LINES[1] + piece, whole=True)
    assert found.position is not None
    line = [] if found.torn is None else chained(found.torn, after=found.position)
    whole = b"".join([*LINES[:2], piece, found.ending, *line])
    verdict = verify(whole.splitlines(keepends=True))
    assert isinstance(verdict, Verified)
    assert (verdict.lines, verdict.torn_bytes) == (2 if length == 0 else 3, 0)


def test_a_recovery_that_was_torn_itself_is_recovered() -> None:
    first = tail.look(LINES[0] + LINES[1][:50], whole=True)
    assert first.torn is not None
    assert first.position is not None
    (stated,) = chained(first.torn, after=first.position)
    torn = LINES[1][:50] + b"\n" + stated[:80]
    second = tail.look(LINES[0] + torn, whole=True)
    assert second.position == last(LINES[0])
    assert second.torn is not None
    assert second.torn.torn_sha256 == hashlib.sha256(torn + b"\n").hexdigest()


def test_zeros_of_a_file_system_are_what_a_crash_leaves() -> None:
    found = tail.look(LINES[0] + b"\0" * 500, whole=True)
    assert found.torn is not None
    assert found.torn.torn_bytes == 501


def test_nothing_is_written_behind_a_line_that_was_changed() -> None:
    changed = LINES[1].replace(b"allowed", b"denied_")
    with pytest.raises(AuditPlaceError, match="its digest is not that of its bytes"):
        tail.look(LINES[0] + changed, whole=True)


def test_nothing_is_written_behind_more_than_a_crash_leaves() -> None:
    lost = b"\0" * limits.AUDIT_LINE_BYTES
    with pytest.raises(AuditPlaceError, match="broken at its end"):
        tail.look(LINES[0] + lost, whole=True)
    with pytest.raises(AuditPlaceError, match="bytes at its end are no line"):
        tail.look(LINES[0] + (b"\0" * 4000 + b"\n") * 5, whole=True)
    with pytest.raises(AuditPlaceError, match="no line in its last part"):
        tail.look(b"\0" * 100, whole=False)


@given(st.binary(max_size=500))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    try:
        found = tail.look(data, whole=True)
    except AuditPlaceError:
        return
    assert found.position is None
    assert isinstance(chain.read(data + found.ending), chain.NoLine)
