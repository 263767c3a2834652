"""A sandbox with a wall missing is started by doctor's proof and by tests, and by nobody else."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "fumehood"
MAY_IMPORT = {"sandbox/proof/matrix.py", "sandbox/proof/proving.py"}
MAY_RESHAPE = {"sandbox/proof/matrix.py", "sandbox/supervise.py"}


def importers(module: str) -> set[str]:
    """The files of ours that import `module`, in whichever form."""
    found = set()
    parent, _, name = module.rpartition(".")
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            whole = isinstance(node, ast.Import) and any(alias.name == module for alias in node.names)
            from_it = isinstance(node, ast.ImportFrom) and node.module == module
            from_parent = (
                isinstance(node, ast.ImportFrom) and node.module == parent and name in {a.name for a in node.names}
            )
            if whole or from_it or from_parent:
                found.add(path.relative_to(SOURCE).as_posix())
    return found


def test_only_the_proof_takes_walls_away() -> None:
    assert importers("fumehood.sandbox.proof.weakened") == MAY_IMPORT
    assert importers("fumehood.sandbox.proof.matrix") == {"cli/doctor.py"}


def test_only_the_self_test_runs_a_program_without_walls() -> None:
    assert importers("fumehood.code.unconfined") == {"code/selftest.py"}
    assert importers("fumehood.code.selftest") == {"code/attest.py"}
    assert importers("fumehood.code.attest") == {
        "cli/coding.py",
        "cli/doctor.py",
        "cli/gatewaying.py",
        "cli/running.py",
        "gateway/codemode/place.py",
        "gateway/run.py",
    }


def test_only_the_proof_reshapes_a_start() -> None:
    naming = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "unsafe_reshape" in path.read_text(encoding="utf-8")
    }
    assert naming == MAY_RESHAPE


def test_the_search_finds_an_import_of_each_form() -> None:
    assert "sandbox/proof/matrix.py" in importers("fumehood.sandbox.start")
    assert "sandbox/proof/matrix.py" in importers("fumehood.sandbox.launch")
