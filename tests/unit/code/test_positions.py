"""code.positions: places in the user's program, and nothing of ours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code import positions
from fumehood.code.messages import Thrown
from fumehood.core import limits

URL = "data:application/typescript;base64,ZXhwb3J0IGRlZmF1bHQg......bWFwKCgpPT5mKCkpCn0="
CODE = "const a = 1;\nnull.x;\nreturn 1"


def test_the_first_frame_of_the_program_is_the_place() -> None:
    stack = (
        "TypeError: é\n"
        f"    at f ({URL}:4:21)\n"
        f"    at {URL}:3:22\n"
        "    at Array.map (<anonymous>)\n"
        "    at async file:///opt/runner/harness.js:4:92\n"
        "    at ext:core/01_core.js:1:1\n"
        "    at run (/opt/runner/harness.js:4:92)\n"
        "    at node:internal/x:1:1"
    )
    error = positions.read(Thrown(name="TypeError", message="é", stack=stack), CODE)
    assert (error.name, error.message, error.line, error.column) == ("TypeError", "é", 3, 21)
    assert error.stack == "at f (program.ts:3:21)\nat program.ts:2:22\nat Array.map (<anonymous>)"


def test_code_that_the_program_made_stands_where_it_made_it() -> None:
    stack = f"x\n    at eval (eval at default ({URL}:2:40), <anonymous>:3:6)\n    at Module.default ({URL}:2:53)"
    error = positions.read(Thrown(name="E", message="m", stack=stack), CODE)
    assert (error.line, error.column) == (1, 40)
    assert error.stack.startswith("at eval (eval at default (program.ts:1:40), <anonymous>:3:6)")


DECLARED = "Identifier 'x' has already been declared"


@pytest.mark.parametrize(
    ("message", "words", "place"),
    [
        (
            f"SyntaxError: Expression expected\n  |\n3 | a = ;\n  |     ~\n    at {URL}:3:11",
            "Expression expected",
            (2, 11),
        ),
        (f"{DECLARED} at {URL}:3:5", DECLARED, (2, 5)),
        ("cannot be read", "cannot be read", (None, None)),
    ],
    ids=["deno", "v8", "neither"],
)
def test_a_program_that_cannot_be_read_has_one_sentence_and_its_place(
    message: str, words: str, place: tuple[int | None, int | None]
) -> None:
    stack = f"TypeError: {message}\n    at async file:///opt/runner/harness.js:4:16"
    error = positions.read(Thrown(name="TypeError", message=message, stack=stack, phase="load"), CODE)
    assert (error.name, error.message) == ("SyntaxError", words)
    assert (error.line, error.column) == place
    assert "/opt" not in error.stack


@pytest.mark.parametrize(
    ("line", "column", "place"),
    [(1, 40, (1, 1)), (2, 3, (1, 3)), (4, 8, (3, 8)), (5, 1, (3, 9)), (9_999_999, 5, (3, 9)), (3, 0, (2, 1))],
)
def test_a_place_lies_in_the_program(line: int, column: int, place: tuple[int, int]) -> None:
    error = positions.read(Thrown(name="E", message="m", stack=f" at {URL}:{line}:{column}"), CODE)
    assert (error.line, error.column) == place


def test_the_module_of_the_program_has_a_short_name_in_messages() -> None:
    message = f'Module not found "file:///x.js" at {URL}:3:11, imported by {URL}'
    error = positions.read(Thrown(name="TypeError", message=message), CODE)
    assert error.message == 'Module not found "file:///x.js" at program.ts:2:11, imported by program.ts'
    assert (error.line, error.column) == (None, None)


@pytest.mark.parametrize(
    "message",
    [
        'Requires import access to "blocked.invalid:443", run again with the --allow-import flag',
        "npm specifiers were requested; but --no-npm is specified",
        f'Import "x" not a dependency and not in import map from "{URL}"\n    at {URL}:2:14',
        "SyntaxError: 'import', and 'export' cannot be used outside of module code\n  |",
    ],
)
@pytest.mark.parametrize("phase", ["load", "run"])
def test_who_imports_is_told_what_there_is_instead(message: str, phase: Any) -> None:
    error = positions.read(Thrown(name="TypeError", message=message, phase=phase), CODE)
    assert (
        error.message
        == "a program imports and exports no module: it has `input`, `tools`, `amcp`, and JavaScript's own"
    )


def test_an_address_in_quotes_ends_with_them() -> None:
    error = positions.read(Thrown(name="E", message=f'from "{URL}" and ({URL}:3:4)'), CODE)
    assert error.message == 'from "program.ts" and (program.ts:2:4)'


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"E\n    at a ({URL}:2:1)\n    at run (file:///harness.js:1:2)", "E\n    at a (program.ts:1:1)"),
        (f"{URL}\n    at ext:core/01_core.js:1:2\nx", "program.ts\nx"),
        ("E\n    at run (file:///harness.js:1:2)", None),
        (f"{URL}\n    at run (file:///other.js:1:2)", "program.ts\n    at run (file:///other.js:1:2)"),
    ],
)
def test_a_logged_error_has_the_places_of_the_program(line: str, shown: str | None) -> None:
    assert positions.logged(line, CODE) == (line if shown is None else shown)


def test_name_message_and_stack_are_cut() -> None:
    stack = f"    at {'f' * 5000} ({URL}:2:1)\n" * 500
    error = positions.read(Thrown(name="n" * 5000, message="m" * 5000, stack=stack), CODE)
    assert len(error.name) == limits.CODE_NAME_CHARACTERS
    assert len(error.message) == limits.CODE_ERROR_CHARACTERS
    assert len(error.stack) == limits.CODE_ERROR_CHARACTERS
    many = positions.read(Thrown(name="n", message="m", stack=f"    at {URL}:2:1\n" * 500), CODE)
    assert many.stack.count("\n") == 31


@pytest.mark.parametrize(
    "text",
    [
        "data:application/typescript;base64," * 15_000,
        "data:application/typescript;base64," + ":1" * 250_000,
        " at " * 130_000,
        "\n at " * 100_000,
        "\t" * 500_000,
        "aError: " * 60_000,
        "\n at (file:///harness.js:1:" * 20_000,
        "\n at " + "(ext:" * 100_000,
    ],
    ids=["urls", "colons", "frames", "lines", "tabs", "names", "ours", "exts"],
)
def test_hostile_texts_cost_linear_work(text: str) -> None:
    """A quadratic pattern would take minutes over half a megabyte."""
    positions.logged(f"{URL}{text}", "x" * 60_000)
    error = positions.read(Thrown(name="E", message=text, stack=text, phase="load"), "x" * 60_000)
    assert len(error.stack) <= limits.CODE_ERROR_CHARACTERS


_pieces = st.sampled_from(
    [URL, ":1:1", ":99:7", "\n", "    at ", "(", ")", "/x", "file:///y", "SyntaxError: ", "é", " "]
)


@given(st.lists(_pieces, max_size=20), st.text(max_size=20), st.sampled_from(["load", "run"]))
def test_whatever_is_thrown_has_a_place_in_the_program_or_none(pieces: list[str], code: str, phase: str) -> None:
    text = " ".join(pieces)
    thrown = Thrown(name=text, message=text, stack=text, phase="load" if phase == "load" else "run")
    error = positions.read(thrown, code)
    assert "base64" not in error.message + error.stack
    lines = code.split("\n")
    if error.line is None:
        assert error.column is None
    else:
        assert 1 <= error.line <= len(lines)
        assert error.column is not None
        assert error.column >= 1
