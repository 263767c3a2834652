"""What may import what, beyond the import contracts of pyproject.toml; how large a module and a function may be."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fumehood"
MODULE_LINES, FUNCTION_LINES = 450, 60
# Layer → the packages from outside that it may import. What is not named here stands on the standard library.
ALLOWED = {
    "cli": {"click", "msgspec"},
    "review": {"msgspec"},
    "review/export/signing.py": {"cryptography"},
    "review/batch/cluster.py": {"distributed"},
    "code": {"msgspec"},
    "code/dialing.py": {"msgspec", "websockets"},
    "code/service/server.py": {"websockets"},
    "code/service/door.py": {"websockets"},
    "gateway": {"msgspec"},
    "gateway/upstreams/remote/channel.py": {"httpcore2"},
    "gateway/upstreams/remote/link.py": {"httpcore2"},
    "core": {"msgspec"},
    "wire/schema.py": {"jsonschema_rs"},
    "wire/sdk": {"mcp", "mcp_types", "anyio", "pydantic"},  # nobody else imports the SDK
    "wire/listener.py": {"uvicorn", "starlette"},
    "wire/oauth.py": {"jwt"},
    "serve": {"msgspec"},
    "serve/symbols/child.py": {"tree_sitter"},
    "content": {"re2", "ahocorasick_rs", "charset_normalizer"},
}
# What makes a module one that does input or output, directly or through others of ours.
IMPURE = {
    "subprocess",
    "socket",
    "asyncio",
    "os",
    "fcntl",
    "ctypes",
    "shutil",
    "tempfile",
    "select",
    "signal",
    "logging",
}


def imported(source: str) -> Iterator[str]:
    """The first word of everything that a module imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def foreign(source: str) -> set[str]:
    return set(imported(source)) - sys.stdlib_module_names - {"fumehood"}


def allowed(place: str) -> set[str]:
    folders = (place.rsplit("/", depth)[0] for depth in range(place.count("/") + 1))
    return next((ALLOWED[one] for one in folders if one in ALLOWED), set())


def modules() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def contracts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    return found


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Each function and how many lines it has."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def pure(graph: grimp.ImportGraph) -> set[str]:
    """The modules that reach nothing impure. Packages are left out: their files are empty."""
    names = {name for name in graph.modules if name.startswith("fumehood.") and not graph.find_children(name)}
    commands = graph.find_descendants("fumehood.cli") | {"fumehood.__main__"}
    return {name for name in names - commands if not graph.find_upstream_modules(name) & IMPURE}


def test_package_init_files_stay_empty() -> None:
    full = [p for p in (ROOT / "src").rglob("__init__.py") if p.read_bytes()]
    assert full == []


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'asyncio','pydantic','mcp','msgspec','jsonschema_rs'}"
    program = (
        "import sys; sys.argv=['fumehood','--help']\n"
        "from fumehood.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stderr.strip() == b"[]"
    assert b"Usage" in done.stdout


def test_each_layer_imports_only_what_it_stands_on() -> None:
    wrong = {place: extra for place, source in modules().items() if (extra := foreign(source) - allowed(place))}
    assert wrong == {}


def test_whatever_is_pure_is_under_the_contract_of_the_pure() -> None:
    listed = next(c["source_modules"] for c in contracts() if c["name"].startswith("Decisions and parsers"))
    graph = grimp.build_graph("fumehood", include_external_packages=True)
    found = pure(graph)
    assert "fumehood.review.plan" in found
    assert "fumehood.sandbox.launch" not in found
    assert sorted(n for n in found if not any(n == entry or n.startswith(f"{entry}.") for entry in listed)) == []


def test_no_contract_is_softened() -> None:
    assert len(contracts()) >= 4
    soft = {"ignore_imports", "allow_indirect_imports", "unmatched_ignore_imports_alerting"}
    assert [c["name"] for c in contracts() if soft & set(c)] == []
    assert contracts()[0]["type"] == "layers"
    assert contracts()[0]["exhaustive"] is True


def test_modules_and_functions_stay_small() -> None:
    every = modules()
    table = "core/limits.py"  # one line a number
    assert [place for place, source in every.items() if source.count("\n") > MODULE_LINES and place != table] == []
    long = [
        f"{place}: {n}" for place, source in every.items() for n, lines in functions(source) if lines > FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import msgspec", {"msgspec"}),
        ("def f():\n    from click.testing import CliRunner", {"click"}),
        ("import os.path, fumehood.core\nfrom fumehood.core import limits", set()),
        ("from . import x", set()),
    ],
)
def test_an_import_is_found_wherever_it_stands(source: str, found: set[str]) -> None:
    assert foreign(source) == found


def test_permission_is_by_place() -> None:
    assert allowed("wire/schema.py") == {"jsonschema_rs"}
    assert allowed("wire/stdio.py") == allowed("sandbox/launch.py") == allowed("observe/strace.py") == set()
    assert allowed("cli/main.py") == {"click", "msgspec"}


def test_the_length_of_a_function_is_counted() -> None:
    assert list(functions("async def f():\n    a = 1\n    return a\n")) == [("f", 3)]


def test_each_limit_has_its_reason_and_somebody_who_keeps_it() -> None:
    lines = modules()["core/limits.py"].splitlines()
    every = [match[1] for line in lines if (match := re.match(r"([A-Z][A-Z_]+) = ", line))]
    assert [name for name, count in Counter(every).items() if count > 1] == []  # the later one would win, unseen
    limits = {match[1]: line for line in lines if (match := re.match(r"([A-Z][A-Z_]+) = ", line))}
    units = {"KIB", "MIB", "GIB"}
    assert len(limits) > 50
    assert [name for name, line in limits.items() if "  # " not in line and name not in units] == []
    users = "\n".join(source for place, source in modules().items() if place != "core/limits.py")
    assert [name for name in limits if not re.search(rf"\b{name}\b", users) and name not in units] == []


# A silenced finding, and behind it a reason of at least two words or one of six letters.
SILENCED = re.compile(r"# (?:noqa|type: ignore)\b(.*)$")
REASONED = re.compile(r"^(?:: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|\[[a-z-]+(?:, ?[a-z-]+)*\]) *(?:-|#) *(?:\S+ \S|\w{6})")


def test_each_finding_that_is_silenced_has_its_reason_beside_it() -> None:
    files = [path for folder in ("src", "tests", "scripts", "bench") for path in (ROOT / folder).rglob("*.py")]
    silenced = {
        f"{path.relative_to(ROOT)}:{number}": match[1]
        for path in files
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := SILENCED.search(line))
    }
    assert len(silenced) > 10
    assert [place for place, said in silenced.items() if not REASONED.match(said)] == []


@pytest.mark.parametrize(
    ("line", "reasoned"),
    [
        ("x = 1  # noqa: S108 - inside", True),
        ("x = 1  # noqa: PTH115, PTH208  # names are wanted", True),
        ("x = 1  # type: ignore[arg-type]  # a table of keyword arguments", True),
        ("x = 1  # noqa: S108", False),
        ("x = 1  # noqa", False),
        ("x = 1  # type: ignore", False),
    ],
)
def test_a_reason_is_told_from_its_absence(line: str, *, reasoned: bool) -> None:
    match = SILENCED.search(line)
    assert match
    assert bool(REASONED.match(match[1])) is reasoned
