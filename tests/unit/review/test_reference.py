"""docs/reference names every field, value and type that the Structs have."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import msgspec
import pytest

from fumehood import fence, review, sandbox
from fumehood.core.errors import FumehoodError, HarnessError, LimitError, RefusedError
from fumehood.observe.model import Kind
from fumehood.review import git, request, result, steps
from fumehood.review.node import npm
from fumehood.review.python import uv

REFERENCE = Path(__file__).parents[3] / "docs/reference"


@pytest.mark.parametrize("kind", Kind)
def test_each_type_of_observation_is_described(kind: Kind) -> None:
    assert f"`{kind.value}`" in (REFERENCE / "result.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", [f.name for f in msgspec.structs.fields(result.ReviewResult)])
def test_each_part_of_a_result_is_described(field: str) -> None:
    assert f"| `{field}` |" in (REFERENCE / "result.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", [1, 2])
def test_each_field_of_a_request_is_described(version: int) -> None:
    text = (REFERENCE / "request.md").read_text(encoding="utf-8")
    assert [name for name in request.schema_of(version)["properties"] if f"`{name}`" not in text] == []


def test_the_request_of_the_page_is_accepted() -> None:
    block = (REFERENCE / "request.md").read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    assert request.parse(block.encode()).schema_version == 1


REVIEW = Path(__file__).parents[3] / "src/fumehood/review"
OURS = tuple(f"fumehood.{name}." for name in ("core", "fence", "review", "sandbox"))
MAKERS = {"ReviewEndedError": 1, "_failed": 0, "_unsupported": 0, "self._failed": 1}  # which argument is the code


# What ends a call of the workspace server, or its start, and never a review: docs/reference/serve.md has them.
SERVING = {"busy", "cancelled", "timed_out", "wall", "threads", "starter_gone"}
RUNNING = {"capabilities"}  # ends the start of a runner of programs: docs/reference/code.md
BATCHED = {"no_results"}  # ends the summary of a batch


def codes() -> set[str]:
    """Every code that ends a review: written where it is raised, in a table, or as that of an error of ours."""
    found = {code for code, _ in (*npm._TARGET.values(), *npm._UNSUPPORTED.values())}
    found |= {steps.HOME_CLOSED}  # told by its name
    found |= {code for _, _, code, _ in (*git._PHRASES, *uv._MEANINGS)}
    for path in REVIEW.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place = MAKERS.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and place is not None and isinstance(node.args[place], ast.Constant):
                found.add(ast.literal_eval(node.args[place]))
    for package in (fence, review, sandbox):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    families: list[type[FumehoodError]] = [HarnessError, LimitError]
    while families:
        family = families.pop()
        families += family.__subclasses__()
        found |= (
            {family.code} - {"limit"}
            if family.__module__.startswith(
                ("fumehood.core.", "fumehood.fence.", "fumehood.review.", "fumehood.sandbox.")
            )
            else set()
        )
    return found


def test_each_code_that_ends_a_review_is_described_and_no_other() -> None:
    table = (REFERENCE / "states.md").read_text(encoding="utf-8").partition("## Codes")[2]
    described = set(re.findall(r"`([a-z_]+)`", table)) - {"code", "initialize"}
    of_the_fence = {
        error.code for error in RefusedError.__subclasses__() if error.__module__ == RefusedError.__module__
    }
    assert codes() - described == SERVING | RUNNING | BATCHED
    assert described - codes() - of_the_fence == set()


@pytest.mark.parametrize(("page", "codes"), [("serve.md", SERVING), ("code.md", RUNNING)])
def test_the_codes_of_other_commands_are_described_there(page: str, codes: set[str]) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    assert {code for code in codes if f"`{code}`" not in text} == set()


def _facts_told() -> set[str]:
    """The names of facts in the code of EXERCISE: the second word of a call of `fact`, or of three that are yielded."""
    found = set()
    for path in sorted(Path(review.__path__[0], "exercise").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="fact" | "_fact") | ast.Attribute(attr="fact" | "_fact"), args=[_, word, *_]
                ):
                    found.add(word)
                case ast.Yield(value=ast.Tuple(elts=[_, word, _])):
                    found.add(word)
                case _:
                    continue
    return {word.value for word in found if isinstance(word, ast.Constant) and isinstance(word.value, str)}


def test_each_fact_of_the_protocol_is_described_and_no_other() -> None:
    page = (REFERENCE / "result.md").read_text(encoding="utf-8")
    table = page.partition("### Facts of the protocol")[2].partition("\n\nA definition's")[0]
    described = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"fact"}
    told = _facts_told()
    words = "\n".join(path.read_text(encoding="utf-8") for path in Path(review.__path__[0], "exercise").glob("*.py"))
    assert "called" in described
    assert told - described == set()
    assert {name for name in described if f'"{name}"' not in words} == set()
