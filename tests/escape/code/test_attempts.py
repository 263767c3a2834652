"""Programs that try to leave their child, to forge, to exhaust: what each gets, with and without the walls."""

import subprocess
from collections import Counter
from pathlib import Path
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
# What programs say of themselves where nothing was given to them: `/` is the folder of a root of a few files.
HARMLESS = ("CANARY/", "CANARY?denied")
OUTSIDE = ("imp-http", "imp-jsr", "imp-npm")  # they would ask servers of others, where nothing stops them
LAYERS = {
    name: states
    for name, *states in (
        line.split("\t") for line in (Path(__file__).parents[2] / "fixtures/code/layers.tsv").read_text().splitlines()
    )
}
HOLDERS = {  # what holds an attempt that is not one to get out; those are in the table of layers
    name: (kind, by.split())
    for name, kind, by in (
        line.split("\t") for line in (Path(__file__).parents[2] / "fixtures/code/holders.tsv").read_text().splitlines()
    )
}
TOLERANCE = 1.1  # of the memory: a page that is counted before the limit is looked at


def filled(attempt: Attempt, canary: Canary) -> str:
    return str(canary.filled(attempt.program, deno.HARNESS, deno.IMPORT_MAP))


def holds(attempt: Attempt, canary: Canary, result: JobResult) -> None:
    """Nothing of the canary is in the result, its listener was not reached, its folder is as it was."""
    assert not canary.given_away(result)
    if isinstance(result.value, str) and attempt.kind == "leak":
        assert not result.value.startswith("CANARY") or result.value in HARMLESS
    assert sorted(path.name for path in canary.folder.iterdir()) == FILES


def within_memory(result: JobResult) -> bool:
    peak = result.usage.peak_memory_bytes if result.usage else None
    return peak is None or peak <= TOLERANCE * CODE_MEMORY_BYTES


def test_all_attempts_are_there(every_attempt: dict[str, Attempt]) -> None:
    kinds = Counter(attempt.kind for attempt in every_attempt.values() if not attempt.name.startswith("own-"))
    assert sum(kinds.values()) == 156
    assert kinds == {"leak": 79, "info": 46, "dos": 18, "forge": 7, "mem": 4, "perm": 1, "after": 1}


def test_the_table_of_layers_names_every_attempt_to_get_out(every_attempt: dict[str, Attempt]) -> None:
    head, *names = LAYERS
    assert (head, LAYERS[head]) == ("attempt", ["none", "deno", "map", "sandbox", "all"])
    wanted = {one.name for one in every_attempt.values() if one.kind in {"leak", "perm"}}
    assert set(names) == wanted - set(OUTSIDE)
    assert {LAYERS[name][-1] for name in names} == {"held"}


def test_the_two_tables_name_every_attempt_once_with_what_holds_it(every_attempt: dict[str, Attempt]) -> None:
    others = {name: kind for name, (kind, _) in HOLDERS.items() if name != "attempt"}
    assert others.keys() & LAYERS.keys() == set()
    assert others.keys() | LAYERS.keys() == {*every_attempt, "attempt"}
    assert others == {name: every_attempt[name].kind for name in others}
    assert {by for _, words in HOLDERS.values() for by in words} == {
        *("held", "by"),  # the head
        *("bridge", "limits", "engine", "itself", "deno", "-"),
    }


def held_by(result: JobResult) -> str:
    """Which part ended a run, as its state tells."""
    words = result.error.message if result.error else ""
    match result.state:
        case State.OK | State.PROTOCOL_VIOLATION | State.CALL_LIMIT:
            return "bridge"  # a value that was forged is a value that could have been returned
        case State.OUTPUT_LIMIT:
            return "limits" if "stderr" in words else "bridge"
        case State.USER_ERROR:
            return "engine"
        case State.CHILD_EXIT:
            return "itself"
        case _:
            return "limits"


@pytest.mark.threat("C2")
@pytest.mark.parametrize("mapped", [False, True], ids=["without", "with"])
def test_the_import_map_stops_a_program_that_is_a_file_where_no_permission_does(
    bare: Ground, canary: Canary, tmp_path: Path, *, mapped: bool
) -> None:
    program, import_map = tmp_path / "program.js", tmp_path / "import_map.json"
    program.write_text(f'import x from "file://{canary.folder}/secret.txt" with {{ type: "text" }}; console.log(x)')
    import_map.write_bytes(bare.parts.import_map.replace(deno.HARNESS.encode(), str(program).encode()))
    words = [*deno.DENIED, *deno.LOADER, *([f"--import-map={import_map}"] if mapped else [])]
    ended = subprocess.run(
        [bare.parts.deno, "run", *words, program],
        capture_output=True,
        env={"DENO_DIR": str(tmp_path / "deno")},
        timeout=30,
        check=False,
    )
    assert (canary.mark.encode() in ended.stdout) is not mapped


@pytest.mark.threat("C2")
def test_nothing_leaks_from_behind_the_walls_even_if_a_program_has_all_of_deno(
    leak: Attempt, bare: Ground, canary: Canary, run: Run
) -> None:
    result: JobResult = run(bare, filled(leak, canary), wall_seconds=20, cpu_seconds=2)
    assert result.state in {State.OK, State.USER_ERROR, State.CHILD_EXIT, State.SYNTAX_ERROR}
    holds(leak, canary, result)
    if leak.kind == "perm":
        assert result.value == "CANARY?denied"


@pytest.mark.long
def test_a_permissive_child_gives_it_away(giveaway: Attempt, canary: Canary, alone: Any) -> None:
    result: JobResult = alone(giveaway.program)
    assert canary.given_away(result) or "CANARY" in str(result.value)


@pytest.mark.parametrize("program", ["fetch", "deno-read", "node-getBuiltin", "imp-text", "worker-file"])
def test_what_stops_a_program_are_the_walls(
    program: str, every_attempt: dict[str, Attempt], canary: Canary, alone: Any
) -> None:
    result: JobResult = alone(every_attempt[program].program)
    assert canary.given_away(result)


@pytest.mark.threat("C3")
def test_a_forgery_changes_nothing_but_its_own_result(
    forgery: Attempt, bare: Ground, run: Run, tools: Tools, canary: Canary
) -> None:
    result: JobResult = run(bare, filled(forgery, canary), wall_seconds=3, cpu_seconds=2)
    assert set(tools.called) <= {"x", "slow"}  # none that was not allowed, and none after the end
    assert len(result.calls) <= 1
    if forgery.kind == "after":
        assert (result.state, result.value) == (State.OK, "done")
    assert result.state in forgery.states
    assert held_by(result) in HOLDERS[forgery.name][1]


@pytest.mark.threat("C4")
def test_who_takes_more_than_it_may_is_ended_in_its_state(
    excess: Attempt, bare: Ground, run: Run, canary: Canary
) -> None:
    wall = 4 if "timeout_wall" in excess.states else 60
    result: JobResult = run(bare, filled(excess, canary), wall_seconds=wall, cpu_seconds=1.5)
    assert result.state in excess.states
    assert held_by(result) in HOLDERS[excess.name][1]
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
def test_each_layer_holds_what_the_table_says(  # noqa: PLR0913, PLR0917  # one fixture for each layer
    leak: Attempt, canary: Canary, alone: Any, permitted: Ground, bare: Ground, run: Run
) -> None:
    if leak.name in OUTSIDE:
        return

    def held(result: JobResult) -> str:
        claimed = str(result.value).startswith("CANARY") and result.value not in HARMLESS
        return "given" if canary.given_away(result) or claimed else "held"

    found = [
        held(alone(leak.program)),
        held(alone(leak.program, [*deno.DENIED, *deno.LOADER])),
        held(alone(leak.program, [*deno.DENIED, *deno.LOADER], mapped=True)),
        held(run(permitted, filled(leak, canary), wall_seconds=20, cpu_seconds=2)),
        held(run(bare, filled(leak, canary), wall_seconds=20, cpu_seconds=2)),
    ]
    assert found == LAYERS[leak.name]


@pytest.mark.long
def test_no_attempt_succeeds_as_programs_run(attempt: Attempt, ground: Ground, run: Run, canary: Canary) -> None:
    result: JobResult = run(ground, filled(attempt, canary), wall_seconds=20, cpu_seconds=1.5)
    assert result.state is not State.RUNNER_UNAVAILABLE
    assert within_memory(result)
    holds(attempt, canary, result)
