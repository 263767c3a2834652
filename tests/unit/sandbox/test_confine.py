import ctypes
import json
import os
import platform
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.errors import UnsupportedError
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.confine import ThreadsError, WallError, Walls
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import Profile


class Kernel:
    """Takes calls in the place of the real one, and keeps them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failing: set[int] = set()
        self.made: list[int] = []

    def call(self, number: int, *arguments: Any) -> int:
        self.calls.append((number, *arguments))
        if number in self.failing:
            raise WallError(f"call {number}: no")
        if number == 444:
            self.made.append(os.open("/dev/null", os.O_RDONLY))
            return self.made[-1]
        return 0

    def prctl(self, number: int, *_: Any) -> None:
        self.calls.append(("prctl", number))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    fake = Kernel()
    monkeypatch.setattr(confine, "_call", fake.call)
    monkeypatch.setattr(confine, "_prctl", fake.prctl)
    monkeypatch.setattr(confine, "landlock_abi", lambda: 7)
    monkeypatch.setattr(confine, "require_one_thread", lambda: None)
    monkeypatch.setattr(confine, "limit", lambda pairs: fake.calls.append(("limit", *pairs)))
    return fake


def test_one_thread_is_required(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    confine.require_one_thread(str(tmp_path))
    (tmp_path / "2").touch()
    with pytest.raises(ThreadsError, match="2 threads"):
        confine.require_one_thread(str(tmp_path))


def test_where_threads_cannot_be_counted_nothing_is_put_up(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="how many threads"):
        confine.require_one_thread(str(tmp_path / "none"))


def test_a_ruleset_is_made_with_a_rule_for_each_place_that_is_there(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with tmp_path.open("rb") if tmp_path.is_file() else file.open("rb") as opened:
        wanted = landlock.Ruleset(readable=(str(tmp_path), str(tmp_path / "none"), opened.fileno()))
        os.close(confine.ruleset_descriptor(wanted, 7))
    assert [call[0] for call in kernel.calls] == [444, 445, 445]
    rights = [struct.unpack("<Qi", call[3])[0] for call in kernel.calls[1:]]
    assert rights == [landlock.READ_FILE | landlock.READ_DIR, landlock.READ_FILE]


def test_a_ruleset_that_cannot_be_completed_is_closed(kernel: Kernel) -> None:
    kernel.failing = {445}
    with pytest.raises(WallError):
        confine.ruleset_descriptor(landlock.Ruleset(readable=("/",)), 7)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kernel.made[0])


def test_everything_is_put_up_in_an_order_that_lets_it_stand(kernel: Kernel) -> None:
    walls = Walls(ruleset=landlock.NOTHING, profile=Profile.SERVE_STDIO, limits=((resource.RLIMIT_NOFILE, 256),))
    stood = confine.confine(walls)
    order = [call[:2] for call in kernel.calls]
    assert order.index(("prctl", 38)) < next(at for at, call in enumerate(order) if call[0] == 446)
    assert order[-1][0] in {317, 277}
    assert ("prctl", 4) in order
    assert [wall.name for wall in stood] == ["no_new_privileges", "core_dumps", *landlock.WALLS, "seccomp"]
    assert {wall.state for wall in stood} == {WallState.ENFORCED}


def test_a_host_without_landlock_is_told_wall_by_wall(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "landlock_abi", lambda: 0)
    assert {wall.state for wall in confine.restrict(landlock.NOTHING)} == {WallState.UNAVAILABLE}
    assert kernel.calls == []


def test_a_machine_without_a_program_and_a_kernel_without_filters_are_told(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.failing = {317, 277}
    wall = confine.filter_calls(Profile.WORKER)
    assert (wall.state, wall.remedy) == (WallState.UNAVAILABLE, "use a kernel with seccomp filters")
    monkeypatch.setattr(platform, "machine", lambda: "m68k")
    wall = confine.filter_calls(Profile.WORKER)
    assert (wall.state, "m68k" in wall.why) == (WallState.UNAVAILABLE, True)


def test_another_system_has_no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert confine.landlock_abi() == 0


def test_a_call_that_the_kernel_refuses_is_named() -> None:
    with pytest.raises(WallError, match=r"call 446: .*\(EB?A?D?.*"):
        confine._call(446, 2**20, 0)
    with pytest.raises(WallError, match=r"prctl 38: .*EINVAL"):
        confine._prctl(38, 2, 0, 0, 0)


def apart(program: str, *arguments: str) -> Any:
    """Run a program in a process of its own, which is gone with its walls afterwards; what it printed as JSON."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


LIMITING = """
import json, resource
from fumehood.sandbox import confine
confine.limit([(resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_CORE, 0)])
confine.limit([(resource.RLIMIT_NOFILE, 128)])
print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)]))
"""


def test_limits_are_lowered_for_good_and_a_lower_one_stays() -> None:
    assert apart(LIMITING) == [[64, 64], [0, 0]]


def test_a_limit_that_is_kept_already_changes_nothing() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        confine.limit([(resource.RLIMIT_CORE, 0)])
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
    else:
        assert apart(LIMITING)[1] == [0, 0]


def test_no_argument_leaves_half_a_word_behind() -> None:
    words = confine._words([1, b"x", ctypes.c_int(3)])
    assert isinstance(words[0], ctypes.c_ulong)
    assert words[1:][0] == b"x"
