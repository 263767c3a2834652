"""code.service.standing: who may begin a run, and how a runner is."""

import json

import pytest

from fumehood.code.job import JobResult, ProgramError, State
from fumehood.code.service.link import BusyMessage, RefusedMessage
from fumehood.code.service.standing import Children, Standing

pytestmark = pytest.mark.threat("C5")
OK = JobResult(state=State.OK, ok=True)


def ended(state: State) -> JobResult:
    return JobResult(state=state, ok=False, error=ProgramError(name="x", message="y"))


@pytest.fixture
def standing() -> Standing:
    return Standing(lambda token: token == "right", runs=2, stock=lambda: Children(warm=3))


def code(answer: BusyMessage | RefusedMessage | None) -> str:
    assert isinstance(answer, RefusedMessage)
    return answer.code


def test_a_right_token_begins_a_run_and_the_next_beyond_the_bound_is_busy(standing: Standing) -> None:
    for _ in range(2):
        assert standing.admit("right") is None
        standing.begin()
    assert isinstance(standing.admit("right"), BusyMessage)
    standing.end(OK)
    assert standing.admit("right") is None


def test_nothing_is_told_to_a_wrong_token_but_that_it_is_wrong(standing: Standing) -> None:
    assert code(standing.admit("wrong")) == "bad_token"
    standing.begin()
    standing.begin()
    assert code(standing.admit("wrong")) == "bad_token"
    standing.drain()
    assert code(standing.admit("wrong")) == "bad_token"
    assert code(standing.admit("right")) == "draining"


def test_health_is_numbers_and_one_word(standing: Standing) -> None:
    health = standing.health()
    assert health.status == 200
    assert json.loads(health.body) == {"status": "ok", "running": 0, "warm": 3, "runs": 2}


def test_a_run_without_a_child_is_not_well_until_there_is_one_again(standing: Standing) -> None:
    standing.begin()
    standing.end(ended(State.RUNNER_UNAVAILABLE))
    assert (standing.health().status, json.loads(standing.health().body)["status"]) == (503, "no_child")
    for result in (ended(State.CANCELLED), None):  # neither says how the runner is
        standing.begin()
        standing.end(result)
        assert standing.health().status == 503
    standing.begin()
    standing.end(ended(State.TIMEOUT_WALL))
    assert standing.health().status == 200


def test_a_runner_whose_children_do_not_start_is_not_well() -> None:
    standing = Standing(lambda _: True, runs=1, stock=lambda: Children(failing=True))
    assert (standing.health().status, json.loads(standing.health().body)["status"]) == (503, "no_child")


def test_a_draining_runner_is_not_to_be_sent_to(standing: Standing) -> None:
    standing.drain()
    assert (standing.health().status, json.loads(standing.health().body)["status"]) == (503, "draining")
