"""What a program says arrives as JSON says it, made tidy where readers differ; calls made at once go out at once."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fumehood.code.job import JobResult, State
from fumehood.code.run import Ground
from fumehood.core import limits

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C3")]
Run = Any
Tools = Any

# What the harness looks for before it goes through a line: halves of pairs, long numbers, and many brackets.
_PIECES = [
    "a",
    "é",
    "\U0001f600",
    "\ud800",
    "\udfff",
    "\\",
    "\\ud800",
    '"',
    "{[",
    "9" * 19,
    "1",
    "\n",
    "\u2028",
    "\x7f",
]
_words = st.lists(st.sampled_from(_PIECES), max_size=5).map("".join)
# V8 15.0 reads a key with an escape as a backslash once it has seen the key that is one (docs/limits/code.md).
_keys = st.lists(st.sampled_from([piece for piece in _PIECES if "\\" not in piece]), max_size=5).map("".join)
_integers = st.sampled_from(
    [0, -1, 10**17, 10**18, -(10**18), 2**63, 2**64 - 1, 2**64, 10**20, -(10**20), 10**21, 2**53]
)
_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | _integers | _words,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


def tidied(value: Any) -> Any:
    """A value as JavaScript has it and the harness says it: every number a float, and U+FFFD for half of a pair."""
    match value:
        case bool() | None:
            return value
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case int() | float():
            return float(value)
        case list():
            return [tidied(one) for one in value]
        case _:
            return {tidied(key): tidied(one) for key, one in value.items()}


@settings(
    max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_values, min_size=30, max_size=60))
def test_a_value_arrives_as_json_says_it_by_each_way(ground: Ground, run: Run, values: list[Any]) -> None:
    kept = [value for value in values if not _collides(value)]
    program = f"""
        const values = JSON.parse({json.dumps(json.dumps(kept))});
        const echoed = await Promise.all(values.map((value) => amcp.run("x", {{ value }})));
        for (const value of values) echoed.push(await amcp.run("x", {{ value }}));
        return [values, echoed.map((one) => one.echo.value)]"""
    result: JobResult = run(ground, program)
    assert result.state is State.OK, result
    wanted = [tidied(value) for value in kept]
    assert isinstance(result.value, list)
    for arrived in (result.value[0], result.value[1][: len(kept)], result.value[1][len(kept) :]):
        for value, one, other in zip(kept, wanted, arrived, strict=True):
            assert tidied(other) == one, ascii(value)


def _collides(value: Any) -> bool:
    """Whether two keys of an object become one: then a strict reader refuses what JavaScript holds."""
    if isinstance(value, list):
        return any(map(_collides, value))
    if not isinstance(value, dict):
        return False
    return len({tidied(key) for key in value}) < len(value) or any(map(_collides, value.values()))


@pytest.mark.parametrize("marks", ["[{", "\\ud", "9" * 40, '"'])
def test_a_text_full_of_what_is_looked_for_arrives_as_it_is(ground: Ground, run: Run, marks: str) -> None:
    words = marks * 200
    result: JobResult = run(ground, f"return await amcp.run('x', {{ words: {json.dumps(words)} }})")
    assert result.value == {"echo": {"words": words}}


@pytest.mark.parametrize("levels", [limits.CODE_DEPTH - 3, limits.CODE_DEPTH - 2, 1000])
def test_a_call_that_nests_too_deep_is_the_programs_error_and_the_others_of_its_turn_are_made(
    ground: Ground, run: Run, tools: Tools, levels: int
) -> None:
    program = f"""
        let deep = 1;
        for (let i = 0; i < {levels}; i++) deep = [deep];
        const asked = [amcp.run("x", {{}}), amcp.run("x", {{ deep }}), amcp.run("x", {{}})];
        return (await Promise.allSettled(asked)).map((one) => one.reason?.name ?? one.status)"""
    result: JobResult = run(ground, program)
    fits = levels <= limits.CODE_DEPTH - 3
    assert result.value == ["fulfilled", "fulfilled" if fits else "RangeError", "fulfilled"]
    assert tools.called == ["x"] * (3 if fits else 2)


def test_calls_logs_and_the_result_go_out_in_the_order_of_the_program(ground: Ground, run: Run, tools: Tools) -> None:
    result: JobResult = run(ground, "amcp.run('x'); console.log('one'); amcp.run('x', {a: 1}); return 2")
    assert result.value == 2
    assert [line.message for line in result.logs] == ["one"]
    assert [call.outcome for call in result.calls] == ["cancelled", "cancelled"] or tools.called


def test_a_log_is_written_even_if_the_program_never_waits(ground: Ground, run: Run) -> None:
    result: JobResult = run(ground, "console.log('seen'); for (;;) {}", cpu_seconds=0.5)
    assert result.state is State.TIMEOUT_CPU
    assert [line.message for line in result.logs] == ["seen"]


@pytest.mark.parametrize("thing", ["1n", "(() => { const a = {}; a.a = a; return a })()", "{toJSON() { throw 1 }}"])
def test_an_argument_that_json_cannot_say_rejects_the_call_and_sends_nothing(
    ground: Ground, run: Run, tools: Tools, thing: str
) -> None:
    program = f"const call = amcp.run('x', {{a: {thing}}}); return await call.then(() => 'made', () => 'refused')"
    assert run(ground, program).value == "refused"
    assert tools.called == []


def test_a_program_that_takes_the_prototypes_away_can_still_call(ground: Ground, run: Run) -> None:
    program = """
        for (const name of ["exec", "test"]) RegExp.prototype[name] = () => { throw 1 };
        for (const name of ["indexOf", "slice", "isWellFormed"]) String.prototype[name] = () => { throw 1 };
        return await amcp.run("x", { n: 2 ** 70 })"""
    assert run(ground, program).value == {"echo": {"n": 2.0**70}}
