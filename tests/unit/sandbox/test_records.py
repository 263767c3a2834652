import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.egress import EgressRecord
from fumehood.sandbox.relay.records import Records


def record(
    at: float = 0.0, *, kind: str = "tcp", name: str = "a", decision: str = "refused", why: str = "x"
) -> EgressRecord:
    return EgressRecord(kind=kind, at_seconds=at, name=name, decision=decision, why=why)


@pytest.mark.threat("R3")
def test_a_flood_of_one_thing_hides_neither_another_kind_nor_another_decision_nor_another_name() -> None:
    records = Records(quota=10)
    for _ in range(1000):
        records.add(record())
    later = [record(1.0, kind="dns"), record(1.0, decision="relayed"), record(1.0, name="b"), record(1.0, why="y")]
    for one in later:
        records.add(one)
    assert all(one in records.kept for one in later)
    assert records.lost == {"tcp refused": 990}


def test_records_come_in_the_order_in_which_things_began() -> None:
    records = Records()
    for at in (3.0, 1.0, 2.0):
        records.add(record(at))
    assert [one.at_seconds for one in records.kept] == [1.0, 2.0, 3.0]


@pytest.mark.threat("R3")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y"]), st.integers(0, 50)), max_size=200))
def test_what_is_kept_is_bounded_and_the_rest_is_counted(items: list[tuple[str, str, int]]) -> None:
    records = Records(quota=5)
    for kind, decision, name in items:
        records.add(record(kind=kind, decision=decision, name=str(name)))
    assert len(records.kept) + sum(records.lost.values()) == len(items)
    assert len(records.kept) <= 4 * 10


def test_nothing_lost_is_no_entry() -> None:
    records = Records()
    records.lose("packet dropped", 0)
    assert records.lost == {}


@pytest.mark.threat("R20")
def test_ever_new_names_below_one_domain_hide_no_other_domain() -> None:
    records = Records(quota=10, zones=5)
    for n in range(1000):
        records.add(record(name=f"x{n}.evil.example"))
    late = [record(1.0, name=f"a.late{n}.example") for n in range(10)]
    for one in late:
        records.add(one)
    assert [one.name for one in late if one in records.kept] == [f"a.late{n}.example" for n in range(4)]
    assert len(records.kept) + records.lost["tcp refused"] == 1010
