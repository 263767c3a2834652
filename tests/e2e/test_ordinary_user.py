"""The same reviews and programs for an ordinary user, from a process without root's rights, by the route `user`.

`setpriv` alone would give a false green: its first exec still has root's rights. So a shell stands between.
"""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Command, Ran, request_for
from e2e.guarded import PYTHON, SERVER
from fumehood.core.limits import MIB
from loopback.packages import from_folder
from loopback.registry import LoopbackRegistry

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the same tests directly"),
]
UID = 54322
Review = Callable[..., Ran]


@pytest.fixture
def user() -> Iterator[Command]:
    """The command as another user, with a home and run folders of that user's own."""
    with pytest.raises(KeyError):
        pwd.getpwuid(UID)
    place = Path(tempfile.mkdtemp(prefix="fumehood-user-", dir="/var/tmp"))
    os.chown(place, UID, UID)
    runs = place / "runs"
    runs.mkdir(mode=0o711)
    os.chown(runs, UID, UID)
    command = Command(place=place, run_root=runs, uid=UID)
    reachable = subprocess.run(command.argv("--version"), env=command.environment(), capture_output=True, check=False)
    if b"Permission denied" in reachable.stderr:
        pytest.skip("this checkout lies where another user may not read")
    yield command
    assert list(runs.iterdir()) == []
    shutil.rmtree(place)


@pytest.fixture
def review(user: Command, server_folder: Callable[[str], Path]) -> Review:
    """Review a fixture server as that user."""

    def run(name: str, *, environment: dict[str, str] | None = None, **changes: Any) -> Ran:
        folder = shutil.copytree(server_folder(name), user.place / name)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID)
        request = user.request(request_for({"kind": "dir", "path": name}, **changes))
        ran = user.run(request, environment=environment)
        assert ran.result["environment"]["route"] == "user", ran.stderr
        assert ran.result["environment"]["target_uid"] == UID
        return ran

    return run


def rows(ran: Ran, kind: str, phase: str, collector: str) -> list[dict[str, Any]]:
    """What the rows of one type, phase and collector say."""
    return [
        row["detail"]
        for row in ran.result["observations"]["items"]
        if (row["type"], row["phase"], row["collector"]) == (kind, phase, collector)
    ]


@pytest.mark.threat("R4")
def test_what_a_hook_does_is_recorded(review: Review) -> None:
    ran = review("hook-writer")
    assert ran.status == 0, ran.stderr
    created = {d["path"].rpartition("/")[2]: d for d in rows(ran, "filesystem.created", "INSTALL", "layer")}
    assert created["authorized_keys"]["mode"] == "0600"
    assert len(created) == 5
    failed = [d for d in rows(ran, "process.exec", "INSTALL", "strace") if d["outcome"] != "started"]
    assert [d["argv"][0] for d in failed] == ["sudo"]
    refused = rows(ran, "filesystem.refused", "INSTALL", "strace")
    assert [d["path"] for d in refused] == ["/usr/share/planted-by-hook-writer.txt"]
    walls = {wall["state"] for record in ran.result["containment"] for wall in record["walls"]}
    assert walls <= {"enforced", "not_requested"}


@pytest.mark.threat("R5")
def test_a_child_that_outlives_its_parent_is_recorded_and_ended(review: Review) -> None:
    ran = review("forking", argv=["0.3"], linger_seconds=3)
    assert ran.status == 0, ran.stderr
    assert [d["path"].rpartition("/")[2] for d in rows(ran, "filesystem.created", "EXERCISE", "layer")] == ["late.json"]


@pytest.mark.long
@pytest.mark.threat("R4")
def test_what_slips_past_some_tracers_is_recorded_or_refused(review: Review) -> None:
    ran = review("untraced")
    refused = {(d["call"], d["error"]) for d in rows(ran, "process.refused", "EXERCISE", "strace") if "usual" not in d}
    assert refused == {("clone", "EPERM"), ("io_uring_setup", "ENOSYS")}
    names = {d["path"].rpartition("/")[2] for d in rows(ran, "filesystem.created", "EXERCISE", "layer")}
    assert {"raw-openat.txt", "static-wrote.txt"} <= names
    assert "untraced-child.txt" not in names


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("link-swapping", (1, "not_a_file")),
        pytest.param("failing-hook", (1, "npm_failed"), marks=pytest.mark.long),
        pytest.param("modern-only", (3, "other_era"), marks=pytest.mark.long),
    ],
)
def test_reviews_end_as_roots_do(review: Review, name: str, ends: tuple[int, str]) -> None:
    ran = review(name)
    assert (ran.status, ran.result["errors"][0]["code"]) == ends


@pytest.mark.threat("R10")
def test_an_operators_limit_of_time_is_kept(review: Review) -> None:
    ran = review("silent", environment={"FUMEHOOD_REVIEW__EXERCISE_SECONDS": "0.5"})
    assert (ran.status, ran.result["errors"][0]["code"]) == (4, "no_answer")


@pytest.mark.long
@pytest.mark.threat("R10")
def test_a_layer_that_grows_beyond_its_bound_ends_the_review(user: Command, target: Callable[..., Path]) -> None:
    grows = 'for (let n = 0; ; n++) require("node:fs").writeFileSync(`${n}.bin`, Buffer.alloc(1 << 20, n));\n'
    shutil.copytree(target({"hook.js": grows}), user.place / "target")
    request = user.request(request_for({"kind": "dir", "path": "target"}))
    ran = user.run(request, environment={"FUMEHOOD_SANDBOX__LAYER_BYTES": str(16 * MIB)})
    assert (ran.status, ran.result["errors"][0]["code"]) == (1, "layer_size")


def test_a_package_of_a_registry_is_reviewed_to_its_end(
    user: Command, registry: LoopbackRegistry, server_folder: Callable[[str], Path]
) -> None:
    registry.publish(from_folder(server_folder("hook-writer")))
    target = {"kind": "npm", "name": "fixture-hook-writer", "version": "1.0.0"}
    settings = {"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url}
    ran = user.run(user.request(request_for(target)), environment=settings)
    assert ran.status == 0, ran.stderr
    assert ran.result["environment"]["route"] == "user"
    assert "authorized_keys" in json.dumps(rows(ran, "filesystem.created", "INSTALL", "layer"))


@pytest.mark.parametrize(
    ("program", "status", "state", "value"),
    [
        pytest.param("return 1", 0, "ok", 1, id="honest"),
        pytest.param(
            """
            const told = [];
            for (const act of [() => Deno.readTextFileSync(input), () => fetch(`file://${input}`)]) {
              try { told.push(await act()) } catch (error) { told.push(error.name) }
            }
            return told;
            """,
            0,
            "ok",
            ["NotCapable", "NotCapable"],
            id="leak",
        ),
        *(
            pytest.param(f"const kept = []; for (;;) kept.push({more})", 4, "out_of_memory", None, id=name)
            for name, more in (
                ("arrays", "new Array(1e5).fill(0.5)"),
                ("buffers", "new Uint8Array(1e6).fill(1)"),
                ("shared-buffers", "new Uint8Array(new SharedArrayBuffer(1e6)).fill(1)"),
                ("blobs", "new Blob([new Uint8Array(1e6).fill(1)])"),
            )
        ),
    ],
)
def test_programs_end_as_roots_do(user: Command, program: str, status: int, state: str, value: object) -> None:
    secret = user.place / "secret.txt"
    secret.write_text("planted")  # which that user may read: the program may not
    secret.chmod(0o644)
    (user.place / "program.js").write_text(program)
    words = ("code", "run", str(user.place / "program.js"), "--input", json.dumps(str(secret)), "--json")
    done = subprocess.run(
        user.argv(*words), env=user.environment(), cwd="/", capture_output=True, timeout=120, check=False
    )
    document = json.loads(done.stdout)
    assert (done.returncode, document["state"], document["value"]) == (status, state, value), done.stderr
    assert b"planted" not in done.stdout + done.stderr
    peak = document["usage"]["peak_memory_bytes"]  # without a cgroup nobody has looked at a run that took no time
    assert peak <= 1.1 * 256 * MIB if state == "out_of_memory" or peak is not None else status == 0
    assert set(document["containment"].values()) <= {"enforced", "not_requested"}


@pytest.mark.threat("G2")
def test_a_server_is_guarded_and_writes_what_only_that_user_may(user: Command) -> None:
    server = user.place / "server.py"
    shutil.copy(SERVER, server)
    own = user.place / "own"
    own.mkdir(mode=0o700)
    (user.place / "canary.txt").write_text("canary", encoding="utf-8")
    for path in (server, own, user.place / "canary.txt"):
        os.chown(path, UID, UID)
    calls = [("write", f"{own}/a.txt"), ("read", f"{user.place}/canary.txt"), ("environment", "")]
    asked: list[dict[str, Any]] = [{"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}]
    for number, (what, argument) in enumerate(calls, start=1):
        params = {"name": "attempt", "arguments": {"what": what, "argument": argument}}
        asked.append({"id": number, "method": "tools/call", "params": params})
    flags = ["--allow-read", str(server), "--allow-write", str(own), "--", PYTHON, str(server)]
    done = subprocess.run(
        user.argv("guard", *flags),
        input="".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked),
        env=user.environment(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    texts = [answers[number]["result"]["structuredContent"]["text"] for number in (1, 2, 3)]
    assert texts[0] == "wrote 14"
    assert texts[1].startswith("refused")
    assert "HOME" in json.loads(texts[2])
    assert (own / "a.txt").stat().st_uid == UID
