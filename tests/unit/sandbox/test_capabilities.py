"""What a supervisor keeps of root's rights, and that the rest is gone for good."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.sandbox import capabilities, confine, launch
from fumehood.sandbox.capabilities import NUMBERS, CapabilityError, Kept, Needs, needed
from fumehood.sandbox.confine import ThreadsError
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.spec import Route

ALWAYS = {"CHOWN", "KILL", "SETGID", "SETUID", "SETPCAP"}
# What a process does before and after it gave up everything but CAP_KILL, and what a program does that it starts.
SCRIPT = """
import json, os, subprocess, sys
sys.path.insert(0, {source!r})
from fumehood.sandbox import capabilities
def tries(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return "done"
def acts():
    os.kill(int(sys.argv[1]), 0)
    return {{"chown": tries(lambda: os.chown(sys.argv[2], 1, 1)), "kill": "done"}}
before = acts()
kept = capabilities.keep(json.loads(sys.argv[3]))
after = acts()
lines = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True).stdout.splitlines()
sets = {{line[:6]: line.split()[1] for line in lines if line.startswith("Cap")}}
print(json.dumps([before, after, sets, list(kept.names), kept.given_up, kept.bounded, str(kept)]))
"""

routes = st.sampled_from([Route.USER, Route.DROPPED, Route.ROOT])
wants = st.builds(Needs, route=routes, closed_cgroups=st.booleans(), counted=st.booleans())


@given(wants)
def test_each_right_has_a_reason(asked: Needs) -> None:
    found = needed(asked)
    assert found <= set(NUMBERS)
    if asked.route is Route.USER:
        assert found == set()
        return
    assert found >= ALWAYS
    assert ("SYS_ADMIN" in found, "NET_ADMIN" in found) == (asked.route is Route.ROOT,) * 2
    assert ("DAC_OVERRIDE" in found) is asked.closed_cgroups
    assert ("SYS_PTRACE" in found) is not asked.counted


def host(roots: dict[str, Path], route: Route = Route.DROPPED) -> HostFacts:
    return HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=0,
        routes=(route,),
        tools={},
        cgroups=CgroupFacts(version=1 if roots else None, roots=roots),
        landlock_abi=7,
        run_root=Path("/r"),
        probes=(),
    )


def test_a_host_says_what_it_makes_necessary(tmp_path: Path) -> None:
    asked = capabilities.needs(host({"memory": tmp_path}))
    assert asked == Needs(route=Route.DROPPED, closed_cgroups=False, counted=True)
    tmp_path.chmod(0o555)
    assert capabilities.needs(host({"unified": tmp_path})).closed_cgroups
    tmp_path.chmod(0o755)
    assert capabilities.needs(host({"memory": tmp_path / "none"})).closed_cgroups
    assert not capabilities.needs(host({"pids": tmp_path})).counted
    assert not capabilities.needs(host({})).counted


def run(tmp_path: Path, wanted: list[str]) -> list[object]:
    """What a process of its own told; the process that it may signal is ours."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(source=str(Path(launch.__file__).parents[2])))
    file = tmp_path / "file"
    file.touch()
    words = [sys.executable, "-B", str(script), str(os.getpid()), str(file), json.dumps(wanted)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    told: list[object] = json.loads(done.stdout)
    return told


@pytest.mark.threat("C9")
@pytest.mark.root
def test_what_is_given_up_is_gone_for_this_process_and_for_those_that_it_starts(tmp_path: Path) -> None:
    before, after, sets, names, given_up, bounded, words = run(tmp_path, ["KILL"])
    assert before == {"chown": "done", "kill": "done"}
    assert after == {"chown": 1, "kill": "done"}  # EPERM
    kill = f"{1 << NUMBERS['KILL']:016x}"
    assert sets == dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), kill) | dict.fromkeys(("CapInh", "CapAmb"), "0" * 16)
    assert (names, bounded) == (["KILL"], True)
    assert isinstance(given_up, int)
    assert given_up > 0
    assert words == f"capabilities kept: KILL; given up: {given_up}"


@pytest.mark.root
def test_what_is_kept_still_works(tmp_path: Path) -> None:
    _, after, *_ = run(tmp_path, ["KILL", "CHOWN"])
    assert after == {"chown": "done", "kill": "done"}


def test_a_second_thread_is_waited_for_and_one_that_stays_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "THREADS_SECONDS", 0.01)
    over = threading.Event()
    stays = threading.Thread(target=over.wait)
    stays.start()
    try:
        with pytest.raises(ThreadsError):
            capabilities.keep([])
    finally:
        over.set()
        stays.join()


def test_a_kernel_that_leaves_more_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "require_one_thread", lambda: None)
    monkeypatch.setattr(capabilities, "_prctl", lambda *_: None)
    monkeypatch.setattr(capabilities, "_set", lambda _: None)
    monkeypatch.setattr(capabilities, "_permitted", lambda: {0, 8, 21})
    monkeypatch.setattr(capabilities, "_bounding", set)
    with pytest.raises(CapabilityError, match=r"\[0, 8\]"):
        capabilities.keep(["SYS_ADMIN"])
    monkeypatch.setattr(capabilities, "_permitted", lambda: {8})
    monkeypatch.setattr(capabilities, "_bounding", lambda: {8, 9})
    with pytest.raises(CapabilityError):
        capabilities.keep(["SETPCAP"])


def test_a_call_that_the_kernel_refuses_is_an_error() -> None:
    with pytest.raises(CapabilityError, match="prctl 24: "):
        capabilities._prctl(24, 63)  # no such capability


def test_where_the_bounding_set_stays_it_is_told() -> None:
    kept = Kept(names=(), given_up=0, bounded=False)
    assert str(kept) == "capabilities kept: none; given up: 0; bounding set as it was"


def test_an_ordinary_user_has_nothing_to_give_up(tmp_path: Path) -> None:
    setpriv = ["/usr/bin/setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"] if os.geteuid() == 0 else []
    program = (
        f"import sys; sys.path.insert(0, {str(Path(launch.__file__).parents[2])!r})\n"
        "from fumehood.sandbox import capabilities\nprint(capabilities.keep([]))"
    )
    words = [*setpriv, os.path.realpath(sys.executable), "-B", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    if "Permission denied" in done.stderr or "No module named" in done.stderr:
        pytest.skip("the checkout lies where another user may not read")
    assert done.stdout == "capabilities kept: none; given up: 0; bounding set as it was\n", done.stderr
