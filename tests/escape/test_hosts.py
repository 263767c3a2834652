"""Hosts that refuse: `doctor` in a user namespace where a kind of namespace is switched off, or /proc is masked."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a namespace with every uid in it"),
]
USER = 61777
# In namespaces of its own, with the same ids: apply limits and masks, become a user, run a program.
ELSEWHERE = """
import ctypes, json, os, sys
limits, mask, uid, argv, over = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
ready, told = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    assert libc.unshare(0x10000000 | 0x00020000) == 0
    os.write(ready[1], b"x")
    os.read(told[0], 1)
    for name, value in limits.items():
        open(f"/proc/sys/user/{name}", "w").write(str(value))
    if over:
        for name in ("lower", "upper", "work"):
            os.mkdir(f"{over}-{name}")
        os.makedirs(over)
        layers = f"lowerdir={over}-lower,upperdir={over}-upper,workdir={over}-work,userxattr".encode()
        assert libc.mount(b"overlay", over.encode(), b"overlay", 0, layers) == 0, ctypes.get_errno()
        os.chmod(over, 0o777)
    if mask:
        assert libc.mount(b"none", mask.encode(), b"tmpfs", 0, None) == 0
    if uid:
        os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
    os.execv(argv[0], argv)
os.read(ready[0], 1)
for name in ("uid_map", "gid_map"):
    open(f"/proc/{pid}/{name}", "w").write("0 0 65536")
os.write(told[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def elsewhere(place: Path, argv: list[str], settings: list[Any], over: str = "") -> bytes:
    """Run fumehood there; `settings` are limits, mask and uid, `over` is where an overlay lies."""
    environment = {
        "FUMEHOOD_SANDBOX__RUN_ROOT": str(place / "runs"),
        "FUMEHOOD_REVIEW__NPM_REGISTRY": "http://127.0.0.1:9/",  # nobody is asked: npm has no home here to say whom
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "-m", "fumehood", *argv]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, json.dumps([*settings, words, over])],
        capture_output=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def doctor(place: Path, *, uid: int, limits: dict[str, int] | None = None, mask: str = "") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(elsewhere(place, ["doctor", "--json"], [limits or {}, mask, uid]))
    return document


def check(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(check for check in document["checks"] if check["name"].startswith(name))


def test_an_ordinary_host_of_this_kind_has_its_routes(place: Path) -> None:
    """Control: nothing is switched off."""
    assert doctor(place, uid=USER)["routes"] == ["user"]
    (place / "runs").rmdir()
    assert doctor(place, uid=0)["routes"] == ["dropped", "root"]


@pytest.mark.threat("R9")
@pytest.mark.parametrize("kind", ["user", "mnt", "pid", "net"])
def test_namespaces_that_are_switched_off_are_explained(place: Path, kind: str) -> None:
    document = doctor(place, uid=USER, limits={f"max_{kind}_namespaces": 0})
    assert (document["route"], document["full"]) == (None, False)
    assert "ENOSPC" in check(document, "route user")["detail"]
    assert f"user.max_{kind}_namespaces" in check(document, "route user")["remedy"]
    assert {wall["state"] for wall in document["walls"]} == {"unavailable"}


@pytest.mark.threat("R9")
def test_root_takes_the_route_without_a_user_namespace_where_there_are_none(place: Path) -> None:
    document = doctor(place, uid=0, limits={"max_user_namespaces": 0})
    assert document["routes"] == ["root"]
    assert not check(document, "route dropped")["ok"]
    wall = next(wall for wall in document["walls"] if wall["name"] == "user_namespace")
    assert wall["state"] == "not_requested"


@pytest.mark.threat("R9")
def test_a_masked_proc_is_explained(place: Path) -> None:
    document = doctor(place, uid=USER, mask="/proc/irq")
    assert document["route"] is None
    assert "mask" in check(document, "route user")["detail"]
    assert "systempaths=unconfined" in check(document, "route user")["remedy"]


@pytest.mark.threat("R9")
@pytest.mark.parametrize("uid", [0, USER])
def test_a_place_for_runs_that_is_an_overlay_itself_is_told_and_a_review_works_on_copies(place: Path, uid: int) -> None:
    """As in a container whose /var/tmp is the engine's overlay."""
    over = place / "over"
    settings: list[Any] = [{}, "", uid]
    document = json.loads(elsewhere(over, ["doctor", "--json"], settings, str(over)))
    assert document["routes"]
    assert not check(document, "overlay")["ok"]
    assert "sandbox.run_root" in check(document, "overlay")["remedy"]
    for path in place.iterdir():
        subprocess.run(["rm", "-rf", str(path)], check=True)
    out = place / "out"
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    elsewhere(over, ["demo", "--out", str(out / "demo")], settings, str(over))
    result = json.loads((out / "demo/result.json").read_text())
    assert result["execution"]["status"] == "COMPLETED"
    assert {c["state"] for c in result["collectors"] if c["name"] == "snapshot"} == {"active"}
    assert any("no overlay can be mounted" in text for text in result["limitations"])
