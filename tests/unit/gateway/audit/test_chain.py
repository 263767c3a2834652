"""A chain of lines holds as it was written, and in no other way."""

import hashlib
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audited import TIME, call, chained
from fumehood.core import limits
from fumehood.gateway.audit import chain, record
from fumehood.gateway.audit.chain import Broken, NoLine, Position, Verified, verify
from fumehood.gateway.audit.record import NOTHING, Call, Line, Recovered

NAMES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=256)
CALLS = st.builds(
    call,
    tool=NAMES,
    writes=st.booleans(),
    decision=st.sampled_from(["allowed", "scope", "not_allowed"]),
    answer_bytes=st.integers(0, 2**53 - 1),
)


def of(verdict: Verified | Broken) -> Verified:
    assert isinstance(verdict, Verified)
    return verdict


def torn(data: bytes) -> Recovered:
    return Recovered(torn_bytes=len(data), torn_sha256=hashlib.sha256(data).hexdigest())


def resealed(line: bytes, **more: Any) -> bytes:
    """A line with other values and the digest that fits them."""
    fields = json.loads(line) | more
    del fields["digest"]
    plain = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return b'{"digest":"' + hashlib.sha256(plain.encode()).hexdigest().encode() + b'",' + plain[1:].encode() + b"\n"


def test_a_chain_holds_and_tells_where_it_begins_and_ends() -> None:
    lines = chained(call(), call(call=2), call(call=3))
    found = of(verify(lines))
    assert (found.lines, found.recovered, found.torn_bytes) == (3, 0, 0)
    assert found.first is not None
    assert found.last is not None
    assert (found.first.sequence, found.first.previous, found.last.sequence) == (1, NOTHING, 3)
    assert found.digest == found.last.digest == json.loads(lines[-1])["digest"]


def test_nothing_is_a_chain_without_a_line() -> None:
    found = of(verify([]))
    assert (found.lines, found.first, found.digest) == (0, None, NOTHING)


@given(CALLS)
def test_a_line_is_what_any_json_library_writes_with_sorted_keys(event: Call) -> None:
    (line,) = chained(event)
    fields = json.loads(line)
    assert json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n" == line
    assert resealed(line) == line


@given(st.lists(CALLS, max_size=6))
def test_what_is_written_is_read_back_and_holds(events: list[Call]) -> None:
    lines = chained(*events)
    assert [found.event for found in map(chain.read, lines) if isinstance(found, Line)] == events
    assert of(verify(lines)).lines == len(events)


@pytest.mark.threat("G1")
@given(st.data())
def test_no_byte_can_be_changed_taken_out_or_put_in(data: st.DataObject) -> None:
    whole = b"".join(chained(call(), call(call=2), call(call=3), call(call=4)))
    place = data.draw(st.integers(0, len(whole) - 2))  # but the last line end: without it the line is unfinished
    byte = bytes([data.draw(st.integers(0, 255))])
    changed = data.draw(
        st.sampled_from(
            [
                whole[:place] + byte + whole[place + 1 :],
                whole[:place] + whole[place + 1 :],
                whole[:place] + byte + whole[place:],
            ]
        )
    )
    kept = json.loads(whole.splitlines()[-1])["digest"]
    verdict = verify(changed.splitlines(keepends=True), kept=kept)
    assert changed == whole or isinstance(verdict, Broken) or not verdict.kept


@pytest.mark.threat("G1")
@given(st.permutations(range(5)), st.integers(0, 5))
def test_lines_cannot_be_left_out_or_change_places(order: list[int], count: int) -> None:
    lines = chained(*(call(call=number) for number in range(1, 6)))
    kept = json.loads(lines[-1])["digest"]
    wanted = order[:count]
    verdict = verify([lines[place] for place in wanted], kept=kept)
    holds = isinstance(verdict, Verified) and verdict.kept
    # Older files may be away, so a chain may begin anywhere; what it was seen to end with must be there.
    assert holds == (wanted != [] and wanted == list(range(wanted[0], 5)))


@pytest.mark.threat("G1")
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sequence": 5}, "it is number 5, after number 1"),
        ({"previous": "ab" * 32}, "it does not name the digest of the line before"),
        ({"version": 2}, "it is no record"),
        ({"time": "today"}, "it is no record"),
        ({"extra": 1}, "it is no record"),
        ({"sequence": 1.5}, "it is no record"),
        ({"event": {"kind": "other"}}, "it is no record"),
    ],
)
def test_a_line_that_was_sealed_anew_is_refused_for_what_is_wrong_with_it(more: dict[str, Any], reason: str) -> None:
    first, second = chained(call(), call(call=2))
    verdict = verify([first, resealed(second, **more)])
    assert isinstance(verdict, Broken)
    assert verdict.line == 2
    assert reason in verdict.reason


@pytest.mark.threat("G1")
def test_the_first_line_names_nothing_before_it() -> None:
    (line,) = chained(call())
    assert verify([resealed(line, previous="ab" * 32)]) == Broken(
        line=1, reason="it is the first, and names a line before it"
    )


@pytest.mark.threat("G1")
@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"event"', b' "event"'),
        lambda line: line.replace(b"fake.echo", b"fake.ech\\u006f"),
        lambda line: line.replace(b'"call":1', b'"call":1.0'),
        lambda line: line.replace(b'"version":1', b'"version":1,"version":1'),
        lambda line: line.replace(b"\n", b"\r\n"),
    ],
)
def test_another_spelling_of_the_same_line_is_refused(change: Any) -> None:
    (line,) = chained(call())
    verdict = verify([change(line)])
    assert isinstance(verdict, Broken)
    assert "canonical" in verdict.reason or "no record" in verdict.reason


@pytest.mark.parametrize("tool", ["a\n", "\x7f", "é", "\x00", "x" * 257, "\ud800"])
def test_an_event_that_a_reader_would_refuse_is_not_written(tool: str) -> None:
    with pytest.raises(ValueError, match=r"it is|surrogate"):
        chained(call(tool=tool))


def test_a_line_of_the_longest_names_fits() -> None:
    (line,) = chained(call(tool="\\" * 256, who="token:" + "x" * 128, decision="d" * 64, error="e" * 64))
    assert len(line) < limits.AUDIT_LINE_BYTES


def test_a_digest_that_was_kept_is_found_or_not() -> None:
    lines = chained(call(), call(call=2))
    digest = json.loads(lines[0])["digest"]
    assert of(verify(lines, kept=digest)).kept
    assert of(verify(lines, kept=NOTHING)).kept
    assert not of(verify(lines[1:], kept=digest)).kept
    assert not of(verify(lines)).kept


def test_a_chain_may_begin_in_the_middle() -> None:
    lines = chained(call(), call(call=2), call(call=3))
    found = of(verify(lines[1:]))
    assert found.first is not None
    assert found.first.sequence == 2


def test_an_unfinished_last_line_is_told_and_breaks_nothing() -> None:
    lines = chained(call(), call(call=2))
    found = of(verify([lines[0], lines[1][:100]]))
    assert (found.lines, found.torn_bytes) == (1, 100)
    assert of(verify([lines[0], lines[1][:-1]])).torn_bytes == len(lines[1]) - 1


def test_a_torn_line_that_is_stated_is_part_of_the_chain() -> None:
    first, second = chained(call(), call(call=2))
    piece = second[:100] + b"\n"
    after = chain.read(first)
    assert isinstance(after, Line)
    position = Position(sequence=1, digest=after.digest)
    found = of(verify([first, piece, *chained(torn(piece), call(call=2), after=position)]))
    assert (found.lines, found.recovered, found.torn_bytes) == (3, 1, 0)


@pytest.mark.threat("G1")
def test_bytes_that_are_no_line_need_the_statement_of_exactly_these_bytes() -> None:
    first, second = chained(call(), call(call=2))
    piece = second[:100] + b"\n"
    position = Position(sequence=1, digest=json.loads(first)["digest"])
    silent, other = (chained(event, after=position) for event in (call(call=2), torn(piece + b"x")))
    assert verify([first, piece, *silent]) == Broken(
        line=3, reason="the bytes before it are no line, and it does not say so"
    )
    assert verify([first, piece, *other]) == Broken(
        line=3, reason="the bytes before it are not those that it says were torn"
    )
    assert verify([first, *other]) == Broken(line=2, reason="it says that the line before it was torn, and none was")
    assert verify([first, piece[:-1], second]) == Broken(line=3, reason="the bytes before it are an unfinished line")


@pytest.mark.threat("G1")
def test_a_line_that_was_changed_cannot_be_passed_off_as_torn() -> None:
    first, second = chained(call(), call(call=2))
    changed = second.replace(b"allowed", b"denied_")
    position = Position(sequence=1, digest=json.loads(first)["digest"])
    verdict = verify([first, changed, *chained(torn(changed), after=position)])
    assert verdict == Broken(line=2, reason="its digest is not that of its bytes")


def test_what_is_passed_over_is_bounded() -> None:
    piece = b"\0" * 4000 + b"\n"
    assert isinstance(verify([piece] * 4), Verified)
    assert verify([piece] * 5) == Broken(line=5, reason=f"more than {limits.AUDIT_TORN_BYTES} bytes are no line")
    assert isinstance(found := verify([b"x" * 4097]), Broken)
    assert "more than 4096 bytes" in found.reason


@given(st.lists(st.binary(max_size=200)))
def test_no_bytes_make_a_reader_fail(pieces: list[bytes]) -> None:
    assert isinstance(verify(piece + b"\n" for piece in pieces), Verified | Broken)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_line_have_a_reason(data: bytes) -> None:
    found = chain.read(data)
    assert isinstance(found, NoLine)
    assert found.reason


def test_what_writes_or_is_not_allowed_is_durable_and_what_was_read_is_not() -> None:
    assert not record.is_durable(call())
    assert record.is_durable(call(writes=True))
    assert record.is_durable(call(decision="scope", outcome="refused"))
    assert record.is_durable(torn(b"x"))


def test_lines_fit_the_published_schema() -> None:
    checker = jsonschema_rs.validator_for(record.schema())
    lines = chained(call(), torn(b"x"), call(who="token:aaaabbbbcccc", decision="scope", outcome="refused"))
    assert [checker.is_valid(json.loads(line)) for line in lines] == [True] * 3
    assert not checker.is_valid(json.loads(lines[0]) | {"time": TIME[:-1]})
    assert not checker.is_valid(json.loads(lines[0]) | {"arguments": {}})
