"""Write the last column of each row of docs/threat-model.md that is built: the files that have a test marked for it.

python scripts/threat_rows.py
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "docs/threat-model.md"
ROW = re.compile(r"^(\| ([A-Z]\d+) \|.*\| built \|).*\|$", re.MULTILINE)


def marked(root: Path = ROOT) -> dict[str, list[str]]:
    """Threat id → the test files with a mark for it, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (root / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.threat":
                for argument in node.args:
                    found[ast.literal_eval(argument)].add(path.relative_to(root).as_posix())
    return {name: sorted(files) for name, files in found.items()}


def written(text: str, files: dict[str, list[str]]) -> str:
    """The page with the column of each built row as it has to be."""
    return ROW.sub(lambda row: f"{row[1]} {', '.join(files.get(row[2], []))} |", text)


if __name__ == "__main__":
    MODEL.write_text(written(MODEL.read_text(encoding="utf-8"), marked()), encoding="utf-8")
