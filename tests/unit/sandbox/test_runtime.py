import base64
import hashlib
import os
import sys
from pathlib import Path

import pytest

from fumehood.sandbox.probe import runtime


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Deno as its wheel installs one, which is this Python."""
    content = Path(os.path.realpath("/usr/bin/env")).read_bytes()
    program = tmp_path / "bin" / "deno"
    program.parent.mkdir()
    program.write_bytes(content)
    program.chmod(0o755)
    info = tmp_path / "site" / "deno-2.9.8.dist-info"
    info.mkdir(parents=True)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    info.joinpath("RECORD").write_text(f"../bin/deno,sha256={digest},{len(content)}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    return program


def test_the_wheels_deno_comes_with_what_it_needs(wheel: Path) -> None:
    found = runtime.find({}).runtime
    assert found is not None
    assert (found.tool.path, found.tool.origin, found.tool.version) == (wheel, "wheel", "2.9.8")
    assert found.tool.sha256 == found.tool.recorded
    assert "libc.so.6" in found.libraries


def test_an_altered_one_is_not_taken(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"x")
    found = runtime.find({})
    assert found.runtime is None
    assert found.problem is not None
    assert "not the file that the wheel's RECORD names" in found.problem.detail


def test_without_a_wheel_there_is_none_and_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = runtime.find({})
    assert found.runtime is None
    assert found.problem is not None
    assert "fumehood[code]" in found.problem.remedy


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("chosen", ["deno", "/nowhere/deno"])
def test_an_operators_choice_is_never_replaced(chosen: str) -> None:
    found = runtime.find({"deno": Path(chosen)})
    assert found.runtime is None
    assert found.problem is not None
    assert found.problem.name == "deno (operator)"


def test_a_program_whose_libraries_are_missing_is_told(tmp_path: Path) -> None:
    script = tmp_path / "deno"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    found = runtime.find({"deno": script})
    assert found.runtime is None
    assert found.problem is not None
    assert "no program of this machine" in found.problem.detail


def test_an_operators_program_that_is_another_one_is_told() -> None:
    found = runtime.find({"deno": Path("/usr/bin/env")})
    assert found.runtime is None
    assert found.problem is not None
    assert "does not say that it is Deno" in found.problem.detail
    assert "sandbox.deno" in found.problem.remedy


def test_an_operators_deno_is_taken() -> None:
    own = runtime.find({}).runtime
    assert own is not None
    found = runtime.find({"deno": own.tool.path}).runtime
    assert found is not None
    assert (found.tool.version, found.tool.origin) == (own.tool.version, "operator")
