"""review.behaviour.diff and review.reading: what two results record differently, and what could not be compared."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio
from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.review import reading, request, result, source
from fumehood.review.behaviour import diff
from fumehood.review.behaviour.diff import Comparison, SectionDifference
from fumehood.sandbox.spec import End
from fumehood.wire import schema as wire_schema
from recorded import made, rows

SENSORS = ("strace", "egress", "layer", "protocol")


def sensors(**states: CollectorState | int) -> tuple[result.CollectorRecord, ...]:
    """Every sensor of EXERCISE, active unless said otherwise; a number is how many it lost."""
    made_of = {name: states.get(name, CollectorState.ACTIVE) for name in (*SENSORS, *states)}
    return tuple(
        result.CollectorRecord(
            name=name,
            phase=Phase.EXERCISE,
            state=state if isinstance(state, CollectorState) else CollectorState.ACTIVE,
            lost=state if isinstance(state, int) else 0,
        )
        for name, state in made_of.items()
    )


def with_rows(*more: tuple[Kind, dict[str, Any]], drop: Kind | None = None, **changes: Any) -> result.ReviewResult:
    listed = [row for row in rows("max", 5) if row[0] is not drop]
    listed += [(kind, Phase.EXERCISE, "exercise", detail) for kind, detail in more]
    return made(rows=listed, **{"collectors": sensors(), **changes})


def section(found: Comparison, name: str) -> SectionDifference:
    return next(one for one in found.sections if one.section == name)


def swapped(found: Comparison) -> Comparison:
    def changed(one: diff.Changed) -> diff.Changed:
        return diff.Changed(name=one.name, old=one.new, new=one.old)

    def member(one: diff.Member) -> diff.Member:
        return diff.Member(member=one.member, old=one.new, new=one.old, removed=one.added, added=one.removed)

    def of(one: SectionDifference) -> SectionDifference:
        pairs = tuple(diff.ChangedFact(what=c.what, members=tuple(map(member, c.members))) for c in one.changed)
        return msgspec.structs.replace(one, changed=pairs, removed=one.added, added=one.removed, why=())

    tables = ("conditions", "ends", "sensors", "machine", "coverage")
    return msgspec.structs.replace(
        found,
        old=found.new,
        new=found.old,
        limits=(),
        sections=tuple(map(of, found.sections)),
        **{name: tuple(map(changed, getattr(found, name))) for name in tables},
    )


def unordered(found: Comparison) -> Comparison:
    """Without sentences that name old and new, and without an order of changes."""
    plain = [
        msgspec.structs.replace(one, why=(), changed=tuple(sorted(one.changed, key=repr))) for one in found.sections
    ]
    return msgspec.structs.replace(found, limits=(), sections=tuple(plain))


DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a.example", "b.example"]),
        "port": st.sampled_from([80, 443]),
        "path": st.sampled_from(["/etc/x", "/home/max/y"]),
        "mode": st.sampled_from(["0644", "0755"]),
        "fact": st.sampled_from(["definition", "called"]),
        "method": st.sampled_from(["GET", "POST"]),
        "body": st.sampled_from(["a=1", "a=1&b=2", "{}"]),
        "members": st.dictionaries(st.sampled_from("xy"), st.sampled_from(["1" * 64, "2" * 64])),
        "argv": st.lists(st.sampled_from("pq"), max_size=2),
    },
)
RESULTS = st.lists(st.tuples(st.sampled_from(Kind), DETAILS), max_size=8).map(
    lambda listed: made(rows=[(k, Phase.EXERCISE, "exercise", d) for k, d in listed] or None, collectors=sensors())
)


@given(RESULTS)
def test_a_result_compared_with_itself_differs_in_nothing(one: result.ReviewResult) -> None:
    found = diff.compare(one, one)
    assert not found.differs
    assert [s for s in found.sections if s.changed or s.removed or s.added or s.why] == []


@given(RESULTS, RESULTS)
def test_the_other_order_exchanges_old_and_new_and_nothing_else(
    one: result.ReviewResult, two: result.ReviewResult
) -> None:
    there, back = diff.compare(one, two), diff.compare(two, one)
    assert unordered(swapped(there)) == unordered(back)
    assert there.differs == (there.old.behaviour != there.new.behaviour)
    assert wire_schema.problems(diff.schema(), json.loads(jsonio.dump(msgspec.to_builtins(there)))) == []


def test_two_runs_of_one_program_differ_in_nothing() -> None:
    found = diff.compare(with_rows(), made("anna", 99, order=3, collectors=sensors()))
    assert not found.differs
    assert found.machine == (diff.Changed(name="kernel", old="6.5", new="6.99"),)


def test_one_more_field_of_a_posted_body_is_named() -> None:
    posted = {"name": "mail.example", "port": 80, "method": "POST", "target": "/send"}
    old = with_rows((Kind.NETWORK_HTTP, posted | {"body": '{"to":"a","text":"b"}'}))
    new = with_rows((Kind.NETWORK_HTTP, posted | {"body": '{"to":"c","text":"d","bcc":"e"}'}))
    changed = section(diff.compare(old, new), "requests").changed
    assert [m.added for c in changed for m in c.members] == [("bcc: text",)]
    assert changed[0].what["target"] == "/send"


def test_the_changed_member_of_a_definition_is_named() -> None:
    def described(digest: str) -> result.ReviewResult:
        members = {"description": digest * 64, "inputSchema": "1" * 64}
        detail = {"fact": "definition", "what": "tool", "name": "send", "sha256": digest * 64, "members": members}
        return with_rows((Kind.PROTOCOL_FACT, detail))

    changed = section(diff.compare(described("2"), described("3")), "definitions").changed
    assert [[m.member for m in c.members] for c in changed] == [["members.description", "sha256"]]


def test_a_new_program_host_and_file_are_named_each_in_its_section() -> None:
    new = with_rows(
        (Kind.PROCESS_EXEC, {"process": 9, "program": "/usr/bin/curl", "argv": ["curl", "x"], "outcome": "started"}),
        (Kind.NETWORK_CONNECT, {"name": "other.example", "port": 443, "decision": "refused"}),
        (Kind.FILE_CREATED, {"path": "/home/max/.bashrc", "kind": "file", "mode": "0644"}),
    )
    found = diff.compare(with_rows(), new)
    assert {s.section for s in found.sections if s.outcome == "differs"} == {"programs", "hosts", "files"}
    assert section(found, "programs").added[0]["argv"] == ["curl", "x"]
    assert section(found, "hosts").added[0]["host"] == "other.example"
    assert section(found, "files").added[0]["path"] == "<home>/.bashrc"
    assert found.differs


@pytest.mark.parametrize("state", [CollectorState.DEGRADED, CollectorState.UNAVAILABLE, 3])
@pytest.mark.parametrize("sides", ["old", "new", "both"])
def test_a_sensor_that_was_not_whole_makes_its_sections_not_comparable_and_is_named(
    state: CollectorState | int, sides: str
) -> None:
    worse = with_rows(collectors=sensors(strace=state))
    old = worse if sides in {"old", "both"} else with_rows()
    new = worse if sides in {"new", "both"} else with_rows()
    found = diff.compare(old, new)
    programs = section(found, "programs")
    assert programs.outcome == "not_comparable"
    assert "EXERCISE strace" in programs.why[0]
    assert section(found, "requests").outcome == "same"
    assert bool(found.sensors) == (sides != "both")
    assert found.differs


@pytest.mark.threat("R12")
def test_a_missing_sensor_is_never_no_change() -> None:
    without = tuple(one for one in sensors() if one.name != "egress")
    found = diff.compare(with_rows(), with_rows(drop=Kind.NETWORK_HTTP, collectors=without))
    requests = section(found, "requests")
    assert requests.outcome == "not_comparable"
    assert requests.why == ("EXERCISE egress: active in the old result, missing in the new one",)
    assert len(requests.removed) == 1  # what is known is said all the same
    assert found.sensors == (diff.Changed(name="EXERCISE egress", old="active", new=None),)


def test_a_sensor_of_one_start_does_not_stand_for_another_start() -> None:
    def starts(*names: str) -> tuple[result.CollectorRecord, ...]:
        return tuple(msgspec.structs.replace(one, step=name) for name in names for one in sensors())

    again = starts("exercise", "exercise-again")
    less = tuple(one for one in again if (one.step, one.name) != ("exercise-again", "strace"))
    found = diff.compare(with_rows(collectors=again), with_rows(collectors=less))
    assert found.sensors == (diff.Changed(name="EXERCISE exercise-again strace", old="active", new=None),)
    assert section(found, "programs").outcome == "not_comparable"


def test_where_no_sensor_was_that_is_said() -> None:
    bare = made(collectors=(), observations=result.Observations())
    assert {s.outcome for s in diff.compare(bare, bare).sections} == {"not_recorded"}


@pytest.mark.threat("R12")
def test_a_list_that_overflowed_makes_its_section_not_comparable() -> None:
    lost = (result.Lost(phase=Phase.EXERCISE, type=Kind.FILE_READ, count=7),)
    overflowed = made(observations=result.Observations(lost=lost), collectors=sensors())
    found = diff.compare(overflowed, overflowed)
    assert section(found, "reads").why[0] == "EXERCISE filesystem.read: the list of the old result overflowed"
    assert section(found, "files").outcome == "same"


def test_other_conditions_are_named() -> None:
    asked = source.request(source.parse("npm:package@1.2.3"))
    other = request.convert({**asked, "network_mode": "OPEN", "linger_seconds": 7.5})
    found = diff.compare(with_rows(), with_rows(request=other))
    assert {c.name for c in found.conditions} == {"network_mode", "linger_seconds"}
    assert found.differs


def test_limits_that_were_reached_are_named() -> None:
    step = result.StepRecord(name="exercise", phase=Phase.EXERCISE, end=End.DEADLINE)
    base = with_rows()
    cut = msgspec.structs.replace(
        base,
        execution=msgspec.structs.replace(base.execution, steps=(step,)),
        coverage=result.Coverage(bytes_dropped=3),
        stop_condition_triggered=request.StopCondition.OUTPUT_CAPTURE_LIMIT,
    )
    found = diff.compare(base, cut)
    assert [text.partition(":")[0] for text in found.limits] == ["new"] * 3
    assert "EXERCISE exercise ended at its limit (deadline)" in found.limits[0]
    assert [c.name for c in found.ends] == ["stop_condition", "steps"]


def test_counts_that_differ_are_listed_beside_the_behaviour() -> None:
    found = diff.compare(with_rows(), with_rows(coverage=result.Coverage(hooks_run=1)))
    assert [c.name for c in found.coverage] == ["hooks_run"]
    assert not found.differs


def test_a_list_in_another_order_is_a_change_with_both_lists() -> None:
    def called(argv: list[str]) -> result.ReviewResult:
        return with_rows((Kind.PROTOCOL_FACT, {"fact": "initialized", "what": "x", "capabilities": argv}))

    (changed,) = section(diff.compare(called(["a", "b"]), called(["b", "a"])), "protocol").changed
    assert changed.members == (diff.Member(member="capabilities", old=["a", "b"], new=["b", "a"]),)


def test_a_result_is_read_as_it_was_written() -> None:
    one = with_rows()
    assert reading.result(result.encode(one), "r") == one


@pytest.mark.parametrize("data", [b"", b"[]", b'{"schema_version": 2}', b"\xff", b"[" * 10**6, b'{"a": 1e999}'])
def test_what_is_no_result_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises((reading.UnfitResultError, jsonio.JsonError)) as refused:
        reading.result(data, "r\x1b[2J.json")
    assert refused.value.message.isprintable()
    assert refused.value.message.isascii()
