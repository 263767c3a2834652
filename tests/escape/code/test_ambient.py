"""What a program finds in its global scope: what computes, and in the place of all else a word on what to use."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fumehood.code.job import JobResult
from fumehood.code.run import Ground

pytestmark = pytest.mark.sandbox
Run = Any
KEPT = Path(__file__).parents[2] / "fixtures/code/globals.txt"
ASKED = [
    "Deno",
    "process",
    "Worker",
    "fetch",
    "WebSocket",
    "localStorage",
    "sessionStorage",
    "caches",
    "navigator",
    "WebAssembly",
]
USES = """
    const uses = {
        call: (it) => it(), construct: (it) => new it(), get: (it) => it.x, set: (it) => { it.x = 1 },
        has: (it) => "x" in it, keys: (it) => Object.keys(it), define: (it) => Object.defineProperty(it, "x", {}),
        delete: (it) => delete it.x, describe: (it) => Object.getOwnPropertyDescriptor(it, "x"),
    };
    const said = {};
    for (const name of NAMES) for (const [how, use] of Object.entries(uses))
        try { use(globalThis[name]); said[`${name} ${how}`] = null }
        catch (error) { said[`${name} ${how}`] = [error.name, error.message] }
    return said"""


def replaced(ground: Ground) -> list[str]:
    """The names that the harness takes away."""
    (table,) = re.findall(r"^const ABSENT = \[\n(.*?)^\];", ground.parts.harness.decode(), re.MULTILINE | re.DOTALL)
    # Of each pair, the last text: a hint may be a constant, and stands first.
    return [name for names in re.findall(r"\"([A-Za-z ]+)\",?\s*\]", table) for name in names.split()]


def found(result: JobResult) -> set[str]:
    assert isinstance(result.value, list), result
    return {str(name) for name in result.value}


def test_each_global_of_deno_is_taken_away_or_is_listed_as_one_that_only_computes(
    bare: Ground, ground: Ground, run: Run
) -> None:
    program = "return Object.getOwnPropertyNames(globalThis)"
    lists = KEPT.read_text(encoding="ascii").splitlines()
    kept = {name for line in lists if not line.startswith("#") for name in line.split()}
    there = found(run(bare, program))
    assert there - set(replaced(ground)) == kept  # another one is a decision to take: a new release has brought it
    assert found(run(ground, program)) == kept | set(replaced(ground))


def test_whatever_is_done_with_a_capability_that_is_none_says_what_to_use(ground: Ground, run: Run) -> None:
    names = replaced(ground)
    assert set(ASKED) < set(names)
    result = run(ground, USES.replace("NAMES", json.dumps(names)))
    assert isinstance(result.value, dict), result
    assert len(result.value) == 9 * len(names)
    for use, told in result.value.items():
        assert told, use
        name, words = told
        assert name == "NotCapable", use
        assert re.fullmatch(rf"{use.split()[0]} is not available to a program; .{{20,}}", words), use


def test_without_the_hygiene_the_same_uses_do_something_else(bare: Ground, run: Run) -> None:
    result = run(bare, USES.replace("NAMES", json.dumps(["fetch", "Deno"])))
    assert isinstance(result.value, dict), result
    assert result.value["Deno get"] is None
    assert "is not available to a program" not in str(result.value)
