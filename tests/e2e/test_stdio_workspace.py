"""`fumehood serve` itself over standard input and output: lines, limits, ends and children, in both eras."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback.speaking import ERAS, Speaker, wait_until
from served.talk import FUMEHOOD

pytestmark = pytest.mark.sandbox
Serve = Callable[[str], Speaker]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, one of them with a credential, and a repository whose configuration names a program that prints."""
    root = tmp_path_factory.mktemp("served")
    (root / "main.py").write_text("def main():\n    return 1\n", encoding="ascii")
    (root / ".env").write_text("PASSWORD=" + "hunter2" * 3, encoding="ascii")
    for number in range(300):
        (root / f"data{number}.txt").write_text("a line of text\n" * 2000, encoding="ascii")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.test"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "main.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run([*git, "config", "core.fsmonitor", "echo forged >&2; echo forged"], check=True)
    subprocess.run([*git, "config", "core.pager", "echo forged"], check=True)
    return root


@pytest.fixture
def serve(workspace: Path) -> Iterator[Serve]:
    begun: list[Speaker] = []

    def begin(era: str) -> Speaker:
        begun.append(Speaker([FUMEHOOD, "serve", "--workspace", str(workspace)], era))
        begun[-1].open()
        return begun[-1]

    yield begin
    for speaker in begun:
        speaker.__exit__()


def descendants(pid: int) -> set[int]:
    """Every process below one that still runs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text("ascii").rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in {"Z", "X"}:
            parents[int(entry.name)] = int(parent)
    found, grown = {pid}, True
    while grown:
        below = {child for child, parent in parents.items() if parent in found} - found
        found |= below
        grown = bool(below)
    return found - {pid}


def structured(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found


@pytest.mark.threat("T13")
@pytest.mark.parametrize("era", ERAS)
def test_each_answer_is_one_line_and_nothing_else_is(serve: Serve, era: str) -> None:
    server = serve(era)
    wanted = [
        server.call("read_file", {"path": "main.py"}),
        server.call("git_log"),
        server.call("git_diff"),
        server.call("search_code", {"pattern": "return"}),
        server.call("read_file", {"path": ".env"}),
        server.call("no_such_tool"),
    ]
    server.raw(b"nonsense\n")
    status, messages, _ = server.finish()
    assert status == 0
    assert sorted(str(one["id"]) for one in messages) == sorted(map(str, [1, *wanted, None]))
    assert b"forged" not in b"".join(server.lines)
    assert b"hunter2" not in b"".join(server.lines)
    assert structured(server.answer(wanted[4]))["error"] == "denied_path"
    assert "main()" in server.answer(wanted[0])["result"]["content"][0]["text"]


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_the_list_of_tools_is_small_and_the_same_each_time(serve: Serve, era: str) -> None:
    server = serve(era)
    first, second = (server.result("tools/list")["tools"] for _ in range(2))
    assert first == second
    assert len(json.dumps(first, separators=(",", ":"))) <= 8 * 1024


@pytest.mark.threat("T8")
@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_search_leaves_no_program_and_the_next_call_is_answered(serve: Serve, era: str) -> None:
    server = serve(era)
    structured(server.answer(server.call("read_file", {"path": "main.py"})))
    resting = descendants(server.process.pid)
    wanted = [server.call("search_code", {"pattern": "line", "context_lines": 5}) for _ in range(16)]
    for ident in wanted:
        server.tell("notifications/cancelled", {"requestId": ident})
    assert structured(server.answer(server.call("read_file", {"path": "main.py"})))["path"] == "main.py"
    wait_until(lambda: descendants(server.process.pid) <= resting)


@pytest.mark.threat("T8")
@pytest.mark.parametrize("how", ["gone", "killed", "terminated", "end of input"])
def test_no_process_outlives_the_server(serve: Serve, how: str) -> None:
    server = serve("legacy")
    structured(server.answer(server.call("read_file", {"path": "main.py"})))
    for _ in range(8):
        server.call("search_code", {"pattern": "line"})
    below = descendants(server.process.pid)
    if how == "killed":
        server.process.kill()
    elif how == "terminated":
        server.process.terminate()
    elif how == "gone":
        server.process.stdout.close()  # type: ignore[union-attr]  # Popen was given a pipe
        server.process.stdin.close()  # type: ignore[union-attr]  # the same
    else:
        assert server.finish()[0] == 0
    status = server.process.wait(timeout=60)
    assert status == (-signal.SIGKILL if how == "killed" else 0)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_an_interrupt_is_told_by_the_status(serve: Serve) -> None:
    server = serve("legacy")
    server.process.send_signal(signal.SIGINT)
    assert server.finish()[0] == 130
