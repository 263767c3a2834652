"""Programs through a real runner and a real WebSocket client: what is allowed, what is denied, what is enforced."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from socket import SHUT_RDWR

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State as SocketState

from e2e.runner import BOUND_SECONDS, Runner, holders, started
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from served.talk import FUMEHOOD

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C5")]
ECHO = {"fake.echo": lambda given: {"text": given["words"], "structured": None}}
BEACON = "amcp.run('fake.echo', {words: 'up'})"


@pytest.fixture(scope="module")
def module_runner(review_host: HostFacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One runner for the tests of this module that do not end it."""
    with started(tmp_path_factory.mktemp("runner"), review_host, runs=2) as runner:
        yield runner
        assert runner.end() == 0, runner.log()
        assert "Traceback" not in runner.log()


@pytest.fixture
def runner(module_runner: Runner) -> Iterator[Runner]:
    yield module_runner
    module_runner.waits(module_runner.is_idle)  # no process and no folder is left of any test
    assert module_runner.health() == (200, {"status": "ok", "running": 0, "warm": 0, "runs": 2})


# --- allowed


def test_allowed_arithmetic(runner: Runner) -> None:
    assert runner.run("return input.reduce((a: number, b: number) => a + b, 0) * 2", input=[1, 20]).value == 42


def test_allowed_amcp_run_over_the_bridge(runner: Runner) -> None:
    told = runner.run("return (await amcp.run('fake.echo', {words: 'hello'})).text + '!'", ECHO)
    assert told.value == "hello!"
    assert [(call["method"], call["args"]) for call in told.calls] == [("run", ["fake.echo", {"words": "hello"}])]
    assert [(call["name"], call["outcome"]) for call in told.result["calls"]] == [("fake.echo", "ok")]


def test_allowed_amcp_search_and_describe_over_the_bridge(runner: Runner) -> None:
    program = "return [await amcp.search('words', {limit: 3}), await amcp.describe(['fake.echo'])]"
    assert runner.run(program, ECHO).value == [["search", "words", {"limit": 3}], ["describe", ["fake.echo"]]]


def test_allowed_many_calls_at_once(runner: Runner) -> None:
    program = "return await Promise.all(Array.from({length: 50}, (_, n) => tools.fake.echo({words: `${n}`})))"
    assert [one["text"] for one in runner.run(program, ECHO).value] == [str(n) for n in range(50)]


def test_allowed_console_is_captured(runner: Runner) -> None:
    told = runner.run("console.log('one', {two: 2}); console.error('three'); return null")
    assert told.result["logs"] == [
        {"level": "log", "message": "one { two: 2 }"},
        {"level": "error", "message": "three"},
    ]


# --- denied


@pytest.mark.threat("C2")
@pytest.mark.parametrize(
    ("program", "thrown"),
    [
        pytest.param("await fetch('http://127.0.0.1:8777/healthz')", "NotCapable", id="fetch"),
        pytest.param("await Deno.readTextFile('/etc/passwd')", "NotCapable", id="Deno.readTextFile"),
        pytest.param("return Deno.env.get('PATH')", "NotCapable", id="Deno.env.get"),
        pytest.param("return new Deno.Command('id').outputSync()", "NotCapable", id="Deno.Command"),
        pytest.param("return Deno.dlopen('libc.so.6', {})", "NotCapable", id="Deno.dlopen"),
        pytest.param(
            "return (await import('file:///etc/passwd', {with: {type: 'text'}})).default", "TypeError", id="import-text"
        ),
        pytest.param(
            "return (await import('file:///harness.json', {with: {type: 'json'}})).default",
            "TypeError",
            id="import-json",
        ),
        pytest.param("return await import('./harness.js')", "TypeError", id="relative-import"),
        pytest.param(
            "return await new Function(\"return import('file:///etc/passwd', {with: {type: 'text'}})\")()",
            "TypeError",
            id="import-via-new-Function",
        ),
        pytest.param("return (await import('node:fs')).readFileSync('/etc/passwd', 'utf8')", "TypeError", id="node:fs"),
        pytest.param(
            "return (await import('node:child_process')).execSync('id')", "TypeError", id="node:child_process"
        ),
        pytest.param("return Deno.readTextFileSync('/proc/self/environ')", "NotCapable", id="proc-self-environ"),
        pytest.param(
            "return (await import('file:///proc/self/environ', {with: {type: 'text'}})).default",
            "TypeError",
            id="proc-self-environ-by-import",
        ),
    ],
)
def test_denied(program: str, thrown: str, runner: Runner) -> None:
    told = runner.run(program)
    assert (told.result["ok"], told.result["state"], told.thrown) == (False, "user_error", thrown), told.result
    assert told.result["value"] is None
    assert "root:" not in json.dumps(told.result)


def test_denied_is_a_tool_that_the_job_does_not_name(runner: Runner) -> None:
    told = runner.run("return amcp.run('fake.other', {}).catch((error) => error.code)", ECHO)
    assert (told.value, told.calls) == ("unknown_tool", [])


# --- enforced


@pytest.mark.threat("C4")
def test_enforced_an_endless_loop_is_killed_at_the_deadline(runner: Runner) -> None:
    told = runner.run("while (true) {}", limits={"wall_seconds": 0.7, "cpu_seconds": 30})
    assert (told.result["state"], told.thrown) == ("timeout_wall", "WallTimeExceeded")
    told = runner.run("while (true) {}", limits={"wall_seconds": 60, "cpu_seconds": 1})
    assert (told.result["state"], told.thrown) == ("timeout_cpu", "CpuTimeExceeded")


def test_enforced_what_is_thrown_is_a_result(runner: Runner) -> None:
    told = runner.run("const a = 1;\nthrow new RangeError('no')")
    error = told.result["error"]
    assert (told.result["state"], error["name"], error["message"], error["line"]) == (
        "user_error",
        "RangeError",
        "no",
        2,
    )
    assert str(runner.host.run_root) not in json.dumps(told.result)


def test_enforced_a_syntax_error_is_a_result(runner: Runner) -> None:
    told = runner.run("const a = 1;\nconst b = ;")
    assert (told.result["state"], told.result["error"]["line"]) == ("syntax_error", 2)


@pytest.mark.threat("C4")
def test_enforced_calls_output_and_memory(runner: Runner) -> None:
    assert runner.run(f"for (;;) await {BEACON}", ECHO, limits={"calls": 3}).result["state"] == "call_limit"
    assert runner.run("for (;;) console.log('x'.repeat(9999))").result["state"] == "output_limit"
    program = "const kept = []; for (;;) kept.push(new Uint8Array(2 ** 20).fill(1))"
    assert runner.run(program, limits={"memory_bytes": 2**27}).result["state"] == "out_of_memory"


def test_enforced_a_program_whose_process_is_killed_is_a_result(runner: Runner) -> None:
    with runner.socket() as socket:
        socket.send(runner.job(f"await {BEACON}; await new Promise(() => {{}})", tools=["fake.echo"]))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        (child,) = (pid for pid in lineage.tree(runner.pid) if _is_deno(pid))
        os.kill(child, signal.SIGKILL)
        told = runner.heard(socket, ECHO)
    assert (told.result["state"], told.thrown) == ("child_exit", "ChildExit")
    assert "SIGKILL" in told.result["error"]["message"]


def _is_deno(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/deno\0")


# --- the token, and who may come


def test_a_wrong_token_is_told_so_and_nothing_else(runner: Runner) -> None:
    for token in ("wrong" * 8, runner.token[:-1], runner.token + "x", " "):
        told = runner.run("return 1", token=token)
        assert (told.result["type"], told.result["code"]) == ("refused", "bad_token")
        assert runner.token not in json.dumps(told.result)


def test_a_job_that_is_none_is_told_so_to_who_has_a_token(runner: Runner) -> None:
    assert runner.run("x" * 70_000).result["code"] == "bad_job"
    assert runner.run("return 1", more=1).result["code"] == "bad_job"


def test_the_next_run_beyond_the_bound_is_busy_and_may_try_again(runner: Runner) -> None:
    with runner.socket() as one, runner.socket() as two:
        for socket in (one, two):
            socket.send(runner.job(f"return {BEACON}", tools=["fake.echo"]))
            assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        assert runner.health()[1]["running"] == 2
        told = runner.run("return 1")
        assert told.result["type"] == "busy"
        assert 0 < told.result["retry_after_seconds"] < 10
        assert runner.run("return 1", token="wrong" * 8).result["code"] == "bad_token"
        for socket in (one, two):
            socket.send(json.dumps({"type": "callResult", "id": 1, "ok": True, "value": 7}))
            assert json.loads(socket.recv(timeout=BOUND_SECONDS))["result"]["value"] == 7
    runner.waits(lambda: runner.health()[1]["running"] == 0)
    assert runner.run("return 1").value == 1


def test_a_run_ends_with_its_socket(runner: Runner) -> None:
    with runner.socket() as socket:
        socket.send(runner.job(f"await {BEACON}; while (true) {{}}", tools=["fake.echo"], limits={"cpu_seconds": 60}))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        assert len(list(lineage.tree(runner.pid))) > 1  # the control: its processes are seen
        socket.socket.shutdown(SHUT_RDWR)
    runner.waits(runner.is_idle)


def test_a_cancelled_run_still_has_its_result(runner: Runner) -> None:
    with runner.socket() as socket:
        socket.send(runner.job(f"await {BEACON}; while (true) {{}}", tools=["fake.echo"]))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        socket.send('{"type":"cancel"}')
        told = runner.heard(socket, ECHO)
    assert (told.result["state"], told.result["calls"][0]["outcome"]) == ("cancelled", "cancelled")


@pytest.mark.parametrize("second", ["job", "binary", "junk", "unasked"])
def test_what_is_not_the_protocol_ends_the_run_and_the_socket(second: str, runner: Runner) -> None:
    words: dict[str, str | bytes] = {
        "job": runner.job("return 2"),
        "binary": b'{"type":"cancel"}',
        "junk": "{",
        "unasked": '{"type":"callResult","id":9,"ok":true,"value":1}',
    }
    with runner.socket() as socket:
        socket.send(runner.job(f"await {BEACON}; return 1", tools=["fake.echo"]))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        socket.send(words[second])
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=BOUND_SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert socket.state is SocketState.CLOSED


# --- where a token is not


def test_the_token_stands_nowhere_that_another_process_could_look(runner: Runner, tmp_path: Path) -> None:
    secret = runner.token.encode()
    with runner.socket() as socket:
        socket.send(runner.job(f"return {BEACON}", tools=["fake.echo"]))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        below = list(lineage.tree(runner.pid))
        assert len(below) > 1
        folders = [runner.host.run_root, runner.place]
        assert holders(secret, below, folders) == []
        # The control: the same look finds one that was planted, in each of the places.
        (tmp_path / runner.token).write_text("a name")
        (tmp_path / "file").write_text(runner.token)
        with (tmp_path / "file").open("rb") as opened:
            planted = subprocess.Popen(
                [sys.executable, "-c", "input()", runner.token],
                env={"X": runner.token},
                stdin=subprocess.PIPE,
                stdout=opened,
            )
        try:
            runner.waits(lambda: len(holders(secret, [planted.pid], [])) == 3)
            assert len(holders(secret, [], [tmp_path])) == 2
        finally:
            planted.kill()
            planted.communicate()
    assert runner.token not in runner.log()


def test_no_word_of_a_program_is_logged(runner: Runner) -> None:
    assert runner.run("const planted = 'a-very-rare-word'; console.log(planted); return planted").value
    assert '"level": "info"' in runner.log()
    assert "a-very-rare-word" not in runner.log()


# --- the command, both sides


def test_code_run_sends_its_program_there(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(runner.token)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "program.ts").write_text(
        "return (await tools.workspace.read_file({path: 'a.txt'})).structured.total_lines ?? 1"
    )
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("words\n")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "FUMEHOOD_CODE__RUNNER_URL": runner.url,
        "FUMEHOOD_CODE__RUNNER_TOKEN_FILE": str(tmp_path / "token"),
        "FUMEHOOD_SANDBOX__DENO": "/nonexistent/deno",  # nothing is run on this side
        "all_proxy": "http://127.0.0.1:9",
    }
    argv = [FUMEHOOD, "code", "run", str(tmp_path / "program.ts"), "--workspace", str(tmp_path / "workspace"), "--json"]
    done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=120)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "ok"), done.stderr
    assert "what the runner said" in json.loads(done.stdout)["limitations"][-1]


# --- children that wait

LEAVE = """
for (const place of [globalThis, Object.prototype, Array.prototype, amcp.constructor ?? {}]) {
  try { place.left = input } catch {}
}
const kept = [];
for (const name of ["localStorage", "sessionStorage", "caches"]) {
  try { globalThis[name].left = input; kept.push(name) } catch {}
}
const found = [globalThis.left, Object.prototype.left, [].left, globalThis.earlier].filter((one) => one !== undefined);
return { found, kept };
"""
LOOK = """
const found = [];
for (const place of [globalThis, Object.prototype, Array.prototype]) if ("left" in place) found.push(place.left);
for (const name of Object.getOwnPropertyNames(globalThis)) {
  try { if (`${globalThis[name]}`.includes(input)) found.push(name) } catch {}
}
return found.filter((name) => name !== "input");
"""


@pytest.mark.threat("C6")
def test_a_run_finds_nothing_of_the_one_before_it_also_where_children_wait(
    review_host: HostFacts, tmp_path: Path
) -> None:
    with started(tmp_path, review_host, warm=1, runs=1) as runner:
        for turn in range(3):
            runner.waits(lambda: runner.health()[1]["warm"] == 1)
            left = runner.run(LEAVE, input=f"planted-{turn}").value
            assert left["found"] == [f"planted-{turn}"] * 3  # the control: the same look finds what is there
            assert left["kept"] == []
            runner.waits(lambda: runner.health()[1]["warm"] == 1)
            assert runner.run(LOOK, input=f"planted-{turn}").value == []
        assert runner.end() == 0
        assert "Traceback" not in runner.log()


# --- its own end


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_drains(number: int, status: int, review_host: HostFacts, tmp_path: Path) -> None:
    with started(tmp_path, review_host) as runner, runner.socket() as socket:
        socket.send(runner.job(f"return {BEACON}", tools=["fake.echo"]))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        runner.process.send_signal(number)
        runner.waits(lambda: runner.health()[0] == 503)
        assert runner.health()[1] == {"status": "draining", "running": 1, "warm": 0, "runs": 8}
        assert runner.run("return 1").result["code"] == "draining"
        assert runner.run("return 1", token="wrong" * 8).result["code"] == "bad_token"
        socket.send(json.dumps({"type": "callResult", "id": 1, "ok": True, "value": 7}))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["result"]["value"] == 7
        assert runner.process.wait(BOUND_SECONDS) == status
        assert "Traceback" not in runner.log()


def test_a_second_signal_cancels_what_runs(review_host: HostFacts, tmp_path: Path) -> None:
    with started(tmp_path, review_host) as runner, runner.socket() as socket:
        socket.send(runner.job(f"await {BEACON}; for (;;);", tools=["fake.echo"], limits={"cpu_seconds": 60}))
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["type"] == "call"
        os.kill(runner.pid, signal.SIGTERM)
        runner.waits(lambda: runner.health()[0] == 503)
        os.kill(runner.pid, signal.SIGTERM)
        assert json.loads(socket.recv(timeout=BOUND_SECONDS))["result"]["state"] == "cancelled"
        assert runner.process.wait(BOUND_SECONDS) == 0


def test_a_runner_without_a_token_file_does_not_start(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    argv = [FUMEHOOD, "code", "runner", "--listen", "127.0.0.1:0"]
    done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"code.token_file" in done.stderr
    assert b"Traceback" not in done.stderr
