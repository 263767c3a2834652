"""What a real child says of an error, as the author of the program gets to see it."""

import re
from collections.abc import Callable

import pytest

from fumehood.code.job import JobResult, State
from fumehood.code.positions import PREAMBLE_LINES
from fumehood.code.run import Ground

pytestmark = pytest.mark.sandbox
RunProgram = Callable[..., JobResult]
TYPED = """\
interface Row {
  name: string;
}

const rows: Row[] = [{ name: "a" }];
function fail(row: Row): never {
  throw new TypeError("é " + row.name);
}
await Promise.resolve();
rows.map((row) => fail(row));
"""
THROWN = {
    "in the first line": ("null.x", "TypeError", (1, 6)),
    "in a later line": ("const a = 1;\n\nnull.x;\nreturn a", "TypeError", (3, 6)),
    "in TypeScript": (TYPED, "TypeError", (7, 9)),
    "after a wait": ("await new Promise((done) => setTimeout(done, 1));\n  undefinedName", "ReferenceError", (2, 3)),
    "in code of its own": ("\neval('null.y')", "TypeError", (2, 1)),
    "by parsing": ("\n  JSON.parse('{')", "SyntaxError", (2, 8)),
    "by a tool": ("\nawait amcp.run('y', {})", "ToolError", (2, 12)),
    "no error at all": ("throw 5", "Error", (None, None)),
    "with a long message": ("throw new Error('x'.repeat(100000))", "Error", (1, 7)),
    "with a message of its own later": (
        "const e = new Error('m');\ne.message = 'x'.repeat(1e5);\nthrow e",
        "Error",
        (1, 11),
    ),
    "nested, in TypeScript": (
        "namespace N {\n  export const f = (n: number): never => { throw new Error(`${n}`); };\n}\nN.f(1)",
        "Error",
        (2, 50),
    ),
    "in a promise that nobody awaits": (
        "const f = async () => {\n  await null;\n  throw new Error('x');\n};\nf();\nawait new Promise(() => {})",
        "Error",
        (3, 9),
    ),
    "with getters that throw": (
        "throw { get name() { throw 1 }, get message() { throw 2 }, get stack() { throw 3 } }",
        "Error",
        (None, None),
    ),
    "by a proxy of an error": ("throw new Proxy(new Error('x'), { get() { return 5 } })", "Error", (None, None)),
    "with an error in it": ("throw { e: new Error('x') }", "Error", (None, None)),
    "by an import": ("\nawait import('node:fs')", "TypeError", (2, 1)),
    "by an import of no kind": ("\nawait import('x')", "TypeError", (2, 14)),
}
UNREAD = {
    "an expression that lacks": ("const a = ;", (1, 11)),
    "a name twice": ("let x = 1;\nlet x = 2;", (2, 5)),
    "no end": ("for(;;", (1, 7)),
}


def shown(result: JobResult) -> str:
    assert result.error is not None
    return f"{result.error.name} {result.error.message} {result.error.stack}"


@pytest.mark.parametrize(("program", "name", "place"), THROWN.values(), ids=THROWN)
def test_what_a_program_throws_stands_at_its_place(
    ground: Ground, run: RunProgram, program: str, name: str, place: tuple[int | None, int | None]
) -> None:
    result = run(ground, program)
    assert result.state is State.USER_ERROR
    assert result.error is not None
    assert (result.error.name, result.error.line, result.error.column) == (name, *place)
    assert not re.search(r"base64|file:|harness|ext:", shown(result))


def test_a_logged_error_has_its_place_too(ground: Ground, run: RunProgram) -> None:
    program = "const long = '" + "é" * 9000 + "';\ntry { null.x } catch (error) { console.error('failed', error) }"
    (line,) = run(ground, program).logs
    assert line.message.endswith("\n    at Module.default (program.ts:2:12)")
    assert not re.search(r"base64|file:|harness|ext:", line.message)


@pytest.mark.parametrize(("program", "place"), UNREAD.values(), ids=UNREAD)
def test_a_program_that_cannot_be_read_says_where(
    ground: Ground, run: RunProgram, program: str, place: tuple[int, int]
) -> None:
    result = run(ground, program)
    assert result.state is State.SYNTAX_ERROR
    assert result.error is not None
    assert (result.error.name, result.error.line, result.error.column) == ("SyntaxError", *place)
    assert "\n" not in result.error.message
    assert not re.search(r"base64|file:|harness|ext:", shown(result))


def test_the_lines_before_a_program_are_those_that_the_harness_writes(ground: Ground) -> None:
    (head,) = re.findall(rb'^const HEAD = "(.*)";', ground.parts.harness, re.MULTILINE)
    assert head.count(rb"\n") == PREAMBLE_LINES


def test_fifty_calls_at_once_are_all_answered(ground: Ground, run: RunProgram) -> None:
    result = run(ground, "return await Promise.all(Array.from({ length: 50 }, (_, n) => amcp.run('x', { n })))")
    assert result.ok
    assert result.value == [{"echo": {"n": number}} for number in range(50)]
    assert [call.outcome for call in result.calls] == ["ok"] * 50


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("return 1e20", 1e20),
        ("return [2 ** 64, -(2 ** 63), 2 ** 53]", [2.0**64, -(2**63), 2**53]),
        ("return '\\ud800 \\u{1f600}'", "\ufffd \U0001f600"),
        ("return undefined", None),
        ("return { a: undefined, b: NaN, c: new Date(0) }", {"b": None, "c": "1970-01-01T00:00:00.000Z"}),
    ],
    ids=["1e20", "wide integers", "half a pair", "nothing", "what JSON has not"],
)
def test_what_javascript_calls_json_passes_the_strict_reader(
    ground: Ground, run: RunProgram, program: str, value: object
) -> None:
    result = run(ground, program)
    assert (result.state, result.value) == (State.OK, value)


def test_a_value_that_nests_too_deep_is_the_programs_error(ground: Ground, run: RunProgram) -> None:
    result = run(ground, "let a = []; for (let i = 0; i < 99; i++) a = [a];\nreturn a")
    assert result.state is State.USER_ERROR
    assert "deeper" in shown(result)
