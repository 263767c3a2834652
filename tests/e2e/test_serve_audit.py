"""The calls of a served workspace in the audit log, whoever makes them and whatever is killed or full."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.gateway.audit import files
from fumehood.gateway.audit.chain import Verified, verify
from fumehood.gateway.audit.faults import AuditHeldError
from loopback.speaking import ERAS, Speaker, wait_until
from served.talk import FUMEHOOD

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G1")]
ROUNDS, CALLS = 6, 12
# $1 where a small disk is mounted; then the command. The mount ends with its namespace.
SMALL = 'mount -t tmpfs -o size=64k,mode=0700 tmpfs "$1" || exit 99; shift; exec "$@"'
FULL = ("No space left on device", "no space is left for a whole line")
Serve = Callable[..., Speaker]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "a.txt").write_text("planted\n")
    (made / ".env").write_text("x\n")
    return made


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "log"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("FUMEHOOD_LOG__AUDIT_FILE", str(place / "audit.jsonl"))
    monkeypatch.setenv("HOME", "/nonexistent")
    return place / "audit.jsonl"


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Start a server and open a conversation in an era; `before` is written before its command."""
    begun: list[Speaker] = []

    def begin(era: str = "legacy", *before: str) -> Speaker:
        begun.append(Speaker([*before, FUMEHOOD, "serve", "--workspace", str(folder)], era))
        return begun[-1]

    yield begin
    for speaker in begun:
        speaker.__exit__()


def held(log: Path) -> Verified:
    verdict = verify(line for _, lines in files.lines(log) for line in lines)
    assert isinstance(verdict, Verified), verdict
    return verdict


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in log.read_bytes().splitlines()]


def is_let_go(log: Path) -> bool:
    """Whether nobody writes it any more."""
    with contextlib.suppress(AuditHeldError), files.locked(log):
        return True
    return False


def writer_of(server: Speaker) -> int:
    """The child of a server that writes its log."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text("ascii").split()
    return next(int(one) for one in children if b"gateway.audit" in Path(f"/proc/{one}/cmdline").read_bytes())


@pytest.mark.parametrize("era", ERAS)
def test_each_call_is_one_record_with_its_decision_and_without_its_content(serve: Serve, log: Path, era: str) -> None:
    server = serve(era)
    said = server.open()
    assert set(said["_meta"]["fumehood/walls"]["audit"].values()) == {"enforced"}
    asked = [
        server.call("read_file", {"path": "a.txt"}),
        server.call("read_file", {"path": "../planted"}),
        server.call("read_file", {"path": ".env"}),
        server.call("read_file", {"planted": 1}),
        server.call("planted", {}),
    ]
    for one in asked:
        server.answer(one)
    assert server.finish()[0] == 0
    assert held(log).lines == len(asked)
    found = {(one["tool"], one["decision"], one["outcome"], one["error"]) for one in events(log)}
    assert found == {
        ("read_file", "allowed", "ok", ""),
        ("read_file", "outside_workspace", "refused", "outside_workspace"),
        ("read_file", "denied_path", "refused", "denied_path"),
        ("read_file", "arguments", "refused", "invalid_arguments"),
        ("planted", "not_allowed", "refused", "unknown_tool"),
    }
    assert {(one["source"], one["who"], one["writes"]) for one in events(log)} == {
        ("serve", f"uid:{os.getuid()}", False)
    }
    assert len({one["run"] for one in events(log)}) == 1
    assert b"planted" not in log.read_bytes().replace(b'"tool":"planted"', b"")


def test_a_server_killed_in_the_middle_of_calls_leaves_a_chain_with_every_call_that_it_answered(
    serve: Serve, log: Path
) -> None:
    answered = 0
    for number in range(ROUNDS):
        server = serve(ERAS[number % 2])
        server.open()
        asked = [server.call("read_file", {"path": "a.txt"}) for _ in range(CALLS)]
        server.answer(asked[number * 2])
        server.process.send_signal(signal.SIGKILL)
        server.finish()
        answered += sum("result" in one for one in server.answers.values()) - 1  # the opening is no call
        wait_until(lambda: is_let_go(log))
        assert held(log).lines >= answered
    assert answered >= ROUNDS


def test_a_server_whose_writer_was_killed_answers_nothing_more(serve: Serve, log: Path) -> None:
    server = serve()
    server.open()
    assert "error" not in server.result("tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}})
    os.kill(writer_of(server), signal.SIGKILL)
    for _ in range(2):
        refused = server.result("tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}})
        assert (refused["isError"], refused["structuredContent"]["error"]) == (True, "audit")
        assert "planted" not in json.dumps(refused)
    status, _, words = server.finish()
    assert status == 5
    assert "did not end well" in words
    assert held(log).lines == 1


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_refuses_each_call(serve: Serve, log: Path) -> None:
    server = serve("legacy", "/usr/bin/unshare", "--mount", "/bin/sh", "-c", SMALL, "sh", str(log.parent))
    server.open()
    answers = [
        server.result("tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}})["structuredContent"]
        for _ in range(150)
    ]
    assert "error" not in answers[0]
    refused = [one for one in answers if one.get("error") == "audit"]
    assert len(refused) > 20
    assert {one["message"] for one in refused} <= {f"the audit log failed: it cannot be written: {why}" for why in FULL}
    assert server.finish()[0] == 0


def test_a_log_in_the_served_folder_and_one_that_another_server_writes_are_refused(
    serve: Serve, folder: Path, log: Path
) -> None:
    command = [FUMEHOOD, "serve", "--workspace", str(folder)]
    inside = os.environ | {"FUMEHOOD_LOG__AUDIT_FILE": str(folder / "audit.jsonl")}
    done = subprocess.run(command, env=inside, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, b"it lies in the workspace" in done.stderr) == (2, True)
    server = serve()
    server.open()
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, b"another process writes it" in done.stderr) == (2, True)
    audited = [*command, "--audited-by-caller"]
    done = subprocess.run(audited, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert server.finish()[0] == 0
    assert log.read_bytes() == b""


def test_one_call_from_the_shell_is_recorded_too(folder: Path, log: Path) -> None:
    command = [FUMEHOOD, "call", "read_file", '{"path": "a.txt"}', "--workspace", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, b"planted" in done.stdout) == (0, True)
    assert [one["tool"] for one in events(log)] == ["read_file"]


def test_over_http_a_record_names_the_key_of_the_token(
    folder: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {token: hashlib.sha256(token.encode()).hexdigest() for token in ("first", "second")}
    tokens = log.parent / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("".join(f"{one}\n" for one in keys.values()))
    monkeypatch.setenv("FUMEHOOD_HTTP__TOKEN_FILE", str(tokens))
    with listening(folder) as url:
        assert [status_of(url, token) for token in ("first", "second", "second", "third")] == [200, 200, 200, 401]
    assert held(log).lines == 3
    assert [one["who"] for one in events(log)] == [f"token:{keys[one][:12]}" for one in ("first", "second", "second")]


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[str]:
    """Where a server over HTTP answers; it is ended by a signal, and well."""
    command = [FUMEHOOD, "serve", "--workspace", str(folder), "--transport", "http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as server:
        assert server.stderr
        try:
            yield next(line for line in server.stderr if "serving at " in line).split("serving at ")[1].strip()
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


def status_of(url: str, token: str) -> int:
    """The status of one call with a token."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = json.dumps({**call, "params": {"name": "read_file", "arguments": {"path": "a.txt"}}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2025-06-18"}
    asked = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
