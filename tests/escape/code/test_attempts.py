"""Programs that try to leave their child, to forge, to exhaust: what each gets, with and without the walls."""

from collections import Counter
from typing import Any

import pytest

from fumehood.code.child import deno
from fumehood.code.job import JobResult, State
from fumehood.code.run import Ground
from fumehood.core.limits import CODE_MEMORY_BYTES

pytestmark = pytest.mark.sandbox
Attempt = Any
Canary = Any
Run = Any
Tools = Any

FILES = sorted(f"secret.{kind}" for kind in ("txt", "json", "js", "ts", "cjs", "wasm"))
# Not marks of the canary: what every Deno says of itself. `/` is the folder of a root that has nothing else to tell.
HARMLESS = {"deno-cwd": "CANARY/"}
TOLERANCE = 1.1  # of the memory: a page that is counted before the limit is looked at


def filled(attempt: Attempt, canary: Canary) -> str:
    return str(canary.filled(attempt.program, deno.HARNESS, deno.IMPORT_MAP))


def holds(attempt: Attempt, canary: Canary, result: JobResult) -> None:
    """Nothing of the canary is in the result, its listener was not reached, its folder is as it was."""
    assert not canary.given_away(result)
    if isinstance(result.value, str) and attempt.kind == "leak":
        assert not result.value.startswith("CANARY") or result.value == HARMLESS.get(attempt.name)
    assert sorted(path.name for path in canary.folder.iterdir()) == FILES


def within_memory(result: JobResult) -> bool:
    peak = result.usage.peak_memory_bytes if result.usage else None
    return peak is None or peak <= TOLERANCE * CODE_MEMORY_BYTES


def test_all_attempts_are_there(every_attempt: dict[str, Attempt]) -> None:
    kinds = Counter(attempt.kind for attempt in every_attempt.values())
    assert kinds == {"leak": 79, "info": 46, "dos": 18, "forge": 7, "mem": 4, "perm": 1, "after": 1}


def test_nothing_leaks_from_behind_the_walls_even_if_a_program_has_all_of_deno(
    leak: Attempt, bare: Ground, canary: Canary, run: Run
) -> None:
    result: JobResult = run(bare, filled(leak, canary), wall_seconds=20, cpu_seconds=2)
    assert result.state in {State.OK, State.USER_ERROR, State.CHILD_EXIT}
    holds(leak, canary, result)
    if leak.kind == "perm":
        assert result.value == "CANARY?denied"


@pytest.mark.long
def test_a_permissive_child_gives_it_away(giveaway: Attempt, canary: Canary, permissive: Any) -> None:
    result: JobResult = permissive(giveaway.program)
    assert canary.given_away(result) or "CANARY" in str(result.value)


@pytest.mark.parametrize("program", ["fetch", "deno-read", "node-getBuiltin", "imp-text", "worker-file"])
def test_what_stops_a_program_are_the_walls(
    program: str, every_attempt: dict[str, Attempt], canary: Canary, permissive: Any
) -> None:
    result: JobResult = permissive(every_attempt[program].program)
    assert canary.given_away(result)


def test_a_forgery_changes_nothing_but_its_own_result(
    forgery: Attempt, bare: Ground, run: Run, tools: Tools, canary: Canary
) -> None:
    result: JobResult = run(bare, filled(forgery, canary), wall_seconds=3, cpu_seconds=2)
    assert set(tools.called) <= {"x", "slow"}  # none that was not allowed, and none after the end
    assert len(result.calls) <= 1
    if forgery.kind == "after":
        assert (result.state, result.value) == (State.OK, "done")
    assert result.state in {State.OK, State.PROTOCOL_VIOLATION, State.TIMEOUT_WALL}


def test_who_takes_more_than_it_may_is_ended_in_its_state(
    excess: Attempt, bare: Ground, run: Run, canary: Canary
) -> None:
    wall = 4 if "timeout_wall" in excess.states else 60
    result: JobResult = run(bare, filled(excess, canary), wall_seconds=wall, cpu_seconds=1.5)
    assert result.state in excess.states
    assert within_memory(result)


@pytest.mark.long
def test_an_oddity_gives_a_result_and_learns_nothing_of_the_canary(
    oddity: Attempt, bare: Ground, run: Run, canary: Canary
) -> None:
    result: JobResult = run(bare, filled(oddity, canary), wall_seconds=20, cpu_seconds=2)
    assert result.state is not State.RUNNER_UNAVAILABLE
    assert within_memory(result)
    holds(oddity, canary, result)


@pytest.mark.long
def test_no_attempt_succeeds_as_programs_run(attempt: Attempt, ground: Ground, run: Run, canary: Canary) -> None:
    result: JobResult = run(ground, filled(attempt, canary), wall_seconds=20, cpu_seconds=1.5)
    assert result.state is not State.RUNNER_UNAVAILABLE
    assert within_memory(result)
    holds(attempt, canary, result)
