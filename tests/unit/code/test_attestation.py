"""A record counts for the very things that it names, for a bounded time, and what is no record is none."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fumehood.code import attestation
from fumehood.code.attestation import Attestation, Facts, encode, fits, parse
from fumehood.core import limits

DIGESTS = {"sources", "deno", "libraries", "harness", "import_map", "programs", "bubblewrap", "setpriv"}
FIELDS = sorted(Facts.__struct_fields__)
words = st.text(min_size=1, max_size=20)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
kinds = {name: digests if name in DIGESTS else words for name in FIELDS} | {"uid": st.integers(0, 2**31)}
SOME = msgspec.convert({name: "0" * 64 if name in DIGESTS else "x" for name in FIELDS} | {"uid": 0}, Facts)
facts = st.builds(Facts, **kinds)
moments = st.integers(0, limits.CODE_LAST_MOMENT - limits.CODE_ATTESTED_SECONDS)


def record(of: Facts, moment: int) -> Attestation:
    return Attestation(passed_at=moment, trials=28, facts=of)


@given(facts, moments, st.integers(0, limits.CODE_ATTESTED_SECONDS))
def test_a_record_of_the_same_things_counts_for_its_time(one: Facts, moment: int, age: int) -> None:
    assert fits(record(one, moment), one, moment + age) == ()


@given(facts, moments, st.data())
def test_each_thing_that_changed_is_a_reason_of_its_own(one: Facts, moment: int, data: st.DataObject) -> None:
    changed = data.draw(st.sets(st.sampled_from(FIELDS), min_size=1))
    others = {name: data.draw(kinds[name]) for name in changed}
    assume(all(value != getattr(one, name) for name, value in others.items()))
    reasons = fits(record(one, moment), msgspec.structs.replace(one, **others), moment)
    assert len(reasons) == len(changed)
    assert len(set(reasons)) == len(reasons)


@given(facts, moments, st.integers(1, 10**9))
def test_a_record_that_is_too_old_or_of_the_future_counts_for_nothing(one: Facts, moment: int, more: int) -> None:
    assert fits(record(one, moment), one, moment - more) == ("its time is still to come",)
    assert fits(record(one, moment), one, moment + limits.CODE_ATTESTED_SECONDS + more) == ("it is older than 30 days",)


def test_every_fact_has_words() -> None:
    assert sorted(attestation._NAMES) == FIELDS


@given(facts, moments)
def test_what_is_written_is_read_again(one: Facts, moment: int) -> None:
    assert parse(encode(record(one, moment))) == record(one, moment)


@given(facts, moments, st.data())
def test_a_torn_record_is_none(one: Facts, moment: int, data: st.DataObject) -> None:
    whole = encode(record(one, moment)).rstrip()
    assert parse(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(st.binary(max_size=2000) | st.recursive(st.none() | st.integers() | words, st.lists).map(msgspec.json.encode))
def test_whatever_else_a_file_holds_is_no_record(data: bytes) -> None:
    assert parse(data) is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"trials": 0},
        {"passed_at": -1},
        {"passed_at": limits.CODE_LAST_MOMENT + 1},
        {"passed_at": 1.5},
        {"facts": {}},
        {"ok": True},
    ],
    ids=str,
)
def test_a_record_of_another_form_is_none(change: dict[str, Any]) -> None:
    tree = json.loads(encode(record(SOME, 1)))
    assert parse(json.dumps(tree).encode()) is not None
    assert parse(json.dumps(tree | change).encode()) is None


def test_its_moment_is_told_in_utc() -> None:
    assert record(SOME, 0).moment == "1970-01-01T00:00:00Z"
    assert record(SOME, limits.CODE_LAST_MOMENT).moment == "9999-12-31T23:59:59Z"
