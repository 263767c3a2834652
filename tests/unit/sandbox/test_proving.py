import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.containment import WALLS
from fumehood.sandbox.programs.prove import ACTS
from fumehood.sandbox.proof.proving import (
    HELD,
    NOT_HELD,
    NOT_PROVEN,
    Outcome,
    Planted,
    Proven,
    Trial,
    joined,
    judge,
    read_outcomes,
    trials,
    unprovable,
)
from fumehood.sandbox.proof.weakened import REMOVABLE, Weakened
from fumehood.sandbox.spec import Route

PLANTED = Planted(
    secret="/s",
    open_folder="/o",
    process=77,
    abstract="name",
    port=99,
    host_name="here",
    queue=5,
    others_file="/opt/other",
)
TRIAL = Trial(wall="seccomp", acts={"mount": "/tmp", "use_keyring": 0})
REFUSED = {"mount": (False, "EPERM"), "use_keyring": (False, "EPERM")}
WORKED = {"mount": (True, "mounted"), "use_keyring": (True, "looked up")}


@pytest.mark.parametrize("route", Route)
def test_each_wall_has_a_trial_or_a_reason_why_not(route: Route) -> None:
    tried = {trial.wall for trial in trials(route, PLANTED)}
    explained = set(unprovable(route))
    assert tried | explained | {"parent_death"} == set(WALLS)
    assert not tried & explained


@pytest.mark.parametrize("route", Route)
def test_each_trial_takes_away_exactly_its_wall(route: Route) -> None:
    for trial in trials(route, PLANTED):
        assert trial.acts.keys() <= ACTS.keys()
        removed = trial.without_wall.without - trial.with_wall.without
        if trial.wall in REMOVABLE:
            assert removed == {trial.wall}
            Weakened(without=trial.without_wall.without)
        else:  # a number: the same walls, another bound
            assert removed == frozenset()
            assert trial.with_wall != trial.without_wall


def test_a_wall_held_when_the_same_act_works_without_it() -> None:
    proven = judge(TRIAL, Outcome(acts=REFUSED), Outcome(acts=WORKED))
    assert (proven.result, proven.why) == (HELD, "")
    assert proven.with_wall["mount"] == "EPERM"
    assert proven.without_wall["mount"] == "mounted"


def test_an_act_that_works_in_spite_of_the_wall_speaks_against_it() -> None:
    proven = judge(TRIAL, Outcome(acts=REFUSED | {"mount": (True, "mounted")}), Outcome(acts=WORKED))
    assert proven.result == NOT_HELD
    assert "mount" in proven.why


def test_what_is_refused_on_both_sides_is_no_proof() -> None:
    proven = judge(TRIAL, Outcome(acts=REFUSED), Outcome(acts=REFUSED))
    assert proven.result == NOT_PROVEN
    half = judge(TRIAL, Outcome(acts=REFUSED), Outcome(acts=REFUSED | {"mount": (True, "mounted")}))
    assert half.result == HELD
    assert "use_keyring" in half.why


def test_a_run_that_did_not_start_is_no_proof() -> None:
    proven = judge(TRIAL, Outcome(acts={}, problem="bwrap: no"), Outcome(acts=WORKED))
    assert (proven.result, proven.why) == (NOT_PROVEN, "with the wall: bwrap: no")
    assert judge(TRIAL, Outcome(acts=REFUSED), Outcome(acts={}, problem="x")).why == "x"


def test_a_bound_that_cut_the_act_off_has_stopped_it() -> None:
    trial = next(trial for trial in trials(Route.USER, PLANTED) if trial.wall == "deadline")
    cut, done = Outcome(acts={}, ended="deadline"), Outcome(acts={"outlast": (True, "2 s stayed")})
    assert judge(trial, cut, done).result == HELD
    assert judge(trial, Outcome(acts={}, ended="signalled"), done).result == NOT_PROVEN


def test_trials_of_one_wall_are_joined_by_the_worst_that_is_known() -> None:
    def part(result: str) -> Proven:
        return Proven(wall="seccomp", result=result, why=result, with_wall={result: "a"}, without_wall={})

    assert joined([part(HELD), part(NOT_PROVEN)]).result == HELD
    assert joined([part(HELD), part(NOT_HELD)]).result == NOT_HELD
    assert joined([part(NOT_PROVEN)]).result == NOT_PROVEN
    assert set(joined([part(HELD), part(NOT_PROVEN)]).with_wall) == {HELD, NOT_PROVEN}


@given(st.dictionaries(st.sampled_from(sorted(TRIAL.acts)), st.tuples(st.booleans(), st.text(max_size=5))))
def test_held_needs_every_act_refused_with_the_wall(acts: dict[str, tuple[bool, str]]) -> None:
    proven = judge(TRIAL, Outcome(acts=acts), Outcome(acts=WORKED))
    all_refused = set(acts) == set(TRIAL.acts) and not any(did for did, _ in acts.values())
    assert (proven.result == HELD) == all_refused


@given(st.binary(max_size=200))
def test_lines_of_another_form_are_passed_over(said: bytes) -> None:
    row = b'{"act": "mount", "worked": false, "detail": "EPERM"}'
    assert read_outcomes(said.replace(b"\n", b" ") + b"\n" + row)["mount"] == (False, "EPERM")


@pytest.mark.parametrize("row", [b"[]", b'{"act": 1}', b'{"act": "mount", "worked": 1, "detail": ""}', b"[" * 5000])
def test_a_line_of_another_form_says_nothing(row: bytes) -> None:
    assert read_outcomes(row) == {}
