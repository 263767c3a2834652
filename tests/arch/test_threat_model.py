"""The threat model and the tests marked for it agree in both directions."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "docs/threat-model.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \|")


def rows(text: str) -> dict[str, tuple[bool, list[str]]]:
    """Threat id → whether it is built, and the test files that its row names."""
    found = {}
    for line in text.splitlines():
        match = ROW.match(line)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if match and len(cells) == 7:
            assert cells[5] in {"built", "not built"}, match[1]
            found[match[1]] = (cells[5] == "built", re.findall(r"tests/[\w/]+\.py", cells[6]))
    return found


def marks(source: str) -> set[str]:
    """The ids in `@pytest.mark.threat("…")` of one file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.threat":
            found |= {ast.literal_eval(argument) for argument in node.args}
    return found


def disagreements(model: dict[str, tuple[bool, list[str]]], tests: dict[str, set[str]]) -> list[str]:
    """What the table says and the tests do not, and the other way round."""
    marked = set().union(*tests.values())
    wrong = [
        f"{name} is built and no test is marked" for name, (built, _) in model.items() if built and name not in marked
    ]
    wrong += [f"{name} is marked and not built" for name in marked if not model.get(name, (False, []))[0]]
    for name, (built, files) in model.items():
        wrong += [f"{name}: {file} holds no test for it" for file in files if name not in tests.get(file, set())]
        unlisted = [file for file, marked_for in tests.items() if name in marked_for and file not in files]
        wrong += [f"{name}: {file} is not in its row" for file in unlisted if built]
    return sorted(wrong)


def test_every_built_threat_has_its_tests_and_every_marked_test_its_threat() -> None:
    tests = {path.relative_to(ROOT).as_posix(): marks(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")}
    model = rows(MODEL.read_text(encoding="utf-8"))
    assert len(model) >= 15
    assert disagreements(model, tests) == []


def test_a_built_threat_names_its_test_files() -> None:
    assert [
        name for name, (built, files) in rows(MODEL.read_text(encoding="utf-8")).items() if built and not files
    ] == []


def test_a_disagreement_is_found_in_each_direction() -> None:
    model = {"R1": (True, ["tests/a.py"]), "R2": (False, []), "R3": (True, ["tests/b.py"])}
    tests = {"tests/a.py": {"R3"}, "tests/b.py": {"R2", "R3"}, "tests/c.py": {"R9"}}
    assert disagreements(model, tests) == [
        "R1 is built and no test is marked",
        "R1: tests/a.py holds no test for it",
        "R2 is marked and not built",
        "R3: tests/a.py is not in its row",
        "R9 is marked and not built",
    ]


def test_marks_are_read_from_calls_and_not_from_text() -> None:
    source = (
        '@pytest.mark.threat("R1")\ndef test_a(): ...\n# pytest.mark.threat("R2")\nx = \'pytest.mark.threat("R3")\'\n'
    )
    assert marks(source) == {"R1"}
