"""`fumehood code`: statuses and streams, with a run that is only pretended."""

import asyncio
import contextlib
import io
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faketools import ECHO, FakeTools
from fumehood.cli import coding, extras
from fumehood.cli import main as cli
from fumehood.code import attest, dialing
from fumehood.code.attestation import Facts
from fumehood.code.backend import Answer, ToolBackend
from fumehood.code.gate import Gate
from fumehood.code.gated import Gated
from fumehood.code.job import Job, JobResult, LogLine, ProgramError, State
from fumehood.code.trials import Kind, Outcome, Report, Tried
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnknownToolError, UnsupportedError
from fumehood.gateway import backend
from fumehood.gateway.upstreams.served import ServedFolder
from fumehood.sandbox.hostfacts import Probe, Tool
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.probe import runtime

Run = Callable[..., tuple[int, str, str]]
FACTS = Facts(
    **dict.fromkeys(("sources", "deno", "libraries", "harness", "import_map"), "0" * 64),
    **dict.fromkeys(("programs", "bubblewrap", "setpriv"), "1" * 64),
    **dict.fromkeys(("fumehood", "kernel", "machine", "route", "memory"), "x"),
    uid=0,
)
THROWN = ProgramError(name="TypeError", message="no \x1b[2J", line=3, column=7, stack="at program.ts:3:7")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line with these words: its status, stdout and stderr."""

    def words(*argv: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fumehood", *argv])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return words


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let every run end with `result`, whatever the host; `job` is the last one that was asked for."""
    kept: dict[str, Any] = {"result": JobResult(state=State.OK, ok=True, value={"a": 1})}

    async def pretended(job: Job, backend: ToolBackend, ground: Any) -> JobResult:
        del ground
        kept["job"], kept["found"] = job, await backend.search("", 10)
        result: JobResult = kept["result"]
        return result

    monkeypatch.setattr(coding, "run_job", pretended)
    monkeypatch.setattr(coding, "ground_of", lambda _: (None, None))
    return kept


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "program.ts"
    file.write_text("return 1")
    return str(file)


def test_the_value_is_on_stdout_and_the_words_on_stderr(run: Run, jobs: dict[str, Any], program: str) -> None:
    logs = (LogLine(level="warn", message="look"),)
    jobs["result"] = JobResult(state=State.OK, ok=True, value={"a": 1}, logs=logs)
    status, out, err = run("code", "run", program, "--input", '{"q": 1}')
    assert (status, json.loads(out), err) == (0, {"a": 1}, "warn: look\n")
    assert jobs["job"] == Job(code="return 1", input={"q": 1})
    assert jobs["found"] == []


@pytest.mark.parametrize("state", list(State))
def test_each_state_has_its_exit_status(state: State, run: Run, jobs: dict[str, Any], program: str) -> None:
    ok = state is State.OK
    jobs["result"] = JobResult(state=state, ok=ok, value=1 if ok else None, error=None if ok else THROWN)
    status, out, err = run("code", "run", program)
    assert status == coding.EXIT_STATUS[state]
    assert bool(out) is ok
    assert (state.value in err) is not ok


def test_an_error_is_told_with_its_place_and_inert(run: Run, jobs: dict[str, Any], program: str) -> None:
    jobs["result"] = JobResult(state=State.USER_ERROR, ok=False, error=THROWN)
    status, out, err = run("code", "run", program)
    assert (status, out) == (1, "")
    assert err == "user_error: TypeError: no \\x1b[2J (line 3, column 7)\nat program.ts:3:7\n"


def test_with_json_the_whole_result_is_one_document(run: Run, jobs: dict[str, Any], program: str) -> None:
    jobs["result"] = JobResult(state=State.USER_ERROR, ok=False, error=THROWN, containment={"seccomp": "enforced"})
    status, out, err = run("code", "run", program, "--json")
    document = json.loads(out)
    assert (status, err) == (1, "")
    assert document["state"] == "user_error"
    assert document["error"]["line"] == 3
    assert document["containment"] == {"seccomp": "enforced"}


def test_the_input_may_come_from_stdin(run: Run, jobs: dict[str, Any], program: str) -> None:
    run("code", "run", program, "--input", "-", stdin=b"[1, 2]")
    assert jobs["job"].input == [1, 2]


@pytest.mark.parametrize("given", ["{", "nothing", "NaN", "[" * 60 + "]" * 60])
def test_an_input_that_is_no_json_is_refused(given: str, run: Run, jobs: dict[str, Any], program: str) -> None:
    status, out, err = run("code", "run", program, "--input", given)
    assert (status, out) == (2, "")
    assert "the input is not JSON" in err
    assert "job" not in jobs


def test_an_input_larger_than_a_message_is_refused(run: Run, jobs: dict[str, Any], program: str) -> None:
    data = b'"' + b"x" * limits.CODE_MESSAGE_BYTES + b'"'
    status, out, err = run("code", "run", program, "--input", "-", stdin=data)
    assert (status, out) == (2, "")
    assert f"more than {limits.CODE_INPUT_BYTES} bytes (give the program a tool" in err
    assert "job" not in jobs


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\xff", "UTF-8"), (b" \n", "empty"), (b"/" * (limits.CODE_BYTES + 1), "bytes"), (None, "cannot be read")],
)
def test_a_file_that_is_no_program_is_refused(
    data: bytes | None, words: str, run: Run, jobs: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "x.js"
    if data is not None:
        file.write_bytes(data)
    status, out, err = run("code", "run", str(file))
    assert (status, out) == (2, "")
    assert words in err
    assert "job" not in jobs


def test_a_host_that_cannot_is_a_result_too(
    run: Run, jobs: dict[str, Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(settings: Any) -> None:
        del settings
        raise UnsupportedError("no Deno", remedy="install it")

    monkeypatch.setattr(coding, "ground_of", cannot)
    status, out, _ = run("code", "run", program, "--json")
    assert status == 3
    assert json.loads(out)["error"]["message"] == "no Deno (install it)"
    assert "job" not in jobs


@pytest.mark.parametrize(("outcome", "status"), [(Outcome.HELD, 0), (Outcome.NOT_HELD, 3), (Outcome.NOT_PROVEN, 3)])
def test_the_self_test_ends_with_three_unless_everything_held(
    outcome: Outcome, status: int, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = Tried(name="a-read", kind=Kind.LEAK, outcome=outcome, with_walls="x", without_walls="y")

    async def pretended(ground: Any, sha256: str, progress: Callable[[Tried], None]) -> Report:
        del ground
        progress(one)
        return Report(ok=outcome is Outcome.HELD, deno="/deno", deno_sha256=sha256, trials=(one,))

    monkeypatch.setattr(attest, "selftest", pretended)
    monkeypatch.setattr(attest, "facts", lambda _: FACTS)
    monkeypatch.setattr(coding, "ground_of", lambda _: (None, None))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ended, out, err = run("code", "selftest")
    assert ended == status
    assert out == f"{int(outcome is Outcome.HELD)} of 1 held\n"
    assert "a-read" in err
    ended, out, _ = run("code", "selftest", "--json")
    assert ended == status
    assert json.loads(out)["deno_sha256"] == FACTS.deno
    assert json.loads(out)["trials"][0]["outcome"] == outcome.value
    remembered = attest.standing(FACTS, attest.file({"XDG_STATE_HOME": str(tmp_path / "state")}), SystemClock())
    assert (remembered.reasons == ()) is (outcome is Outcome.HELD)
    assert "not remembered" not in err
    (tmp_path / "other").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert ("not remembered: Not a directory" in run("code", "selftest")[2]) is (outcome is Outcome.HELD)


def test_a_workspace_s_tools_are_offered_but_those_whose_schema_cannot_be_held(
    run: Run, jobs: dict[str, Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ServedFolder] = []
    unfit = replace(ECHO, name="fake.unfit", input_schema={"type": "string"})

    @contextlib.asynccontextmanager
    async def pretended(given: ServedFolder) -> AsyncIterator[FakeTools]:
        asked.append(given)
        yield FakeTools({one.name: (one, lambda _: Answer(text="")) for one in (ECHO, unfit)})

    monkeypatch.setattr(backend, "workspace", pretended)
    status, _, err = run("--settings", "/nonexistent", "code", "run", program, "--workspace", "/w")
    assert (status, asked) == (2, [])  # settings that are not there stop it first
    status, _, err = run("code", "run", program, "--workspace", "/w")
    assert status == 0
    assert (asked[0].folder, asked[0].settings_file) == (Path("/w"), None)
    assert jobs["job"].tools == ("fake.echo",)
    assert err == "fake.unfit is not offered, for its schema: the input schema is not one of objects\n"


def test_a_call_is_logged_without_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate([ECHO], allowed=["fake.echo"])
    served = Gated(FakeTools(), gate, clock=SystemClock(), audit=coding._record)
    with caplog.at_level(logging.INFO):
        asyncio.run(served.run("fake.echo", {"words": "planted"}))
    (record,) = caplog.records
    assert record.__dict__["tool"] == "fake.echo"
    assert record.__dict__["outcome"] == "ok"
    assert "planted" not in str(record.__dict__)


def test_without_a_workspace_there_is_nothing_behind_the_gate() -> None:
    with pytest.raises(UnknownToolError):
        asyncio.run(coding.NoTools().call("x", {}))


DENO = Tool(name="deno", path=Path("/deno"), version="1", sha256="ab", origin="wheel")
NO_DENO = runtime.Found(runtime=None, problem=Probe(name="deno", ok=False, detail="altered", remedy="reinstall it"))
A_DENO = runtime.Found(runtime=runtime.Runtime(tool=DENO, libraries={}))


@pytest.mark.parametrize(
    ("found", "words"),
    [(NO_DENO, "altered (reinstall it)"), (A_DENO, "no route to a sandbox on this host: userns: no")],
)
def test_a_host_without_deno_or_without_a_route_is_told(
    found: runtime.Found, words: str, run: Run, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "find", lambda _: found)
    probes = (Probe(name="userns", ok=False, detail="no"), Probe(name="other", ok=True, detail="yes"))
    monkeypatch.setattr(probe, "probe_host", lambda *_, **__: SimpleNamespace(routes=(), probes=probes))
    status, out, err = run("code", "run", program)
    assert (status, out) == (3, "")
    assert err.startswith("runner_unavailable: RunnerUnavailable: ")
    assert words in err
    assert "yes" not in err
    assert run("code", "selftest")[0] == 3


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """`code.runner_url` and its token are set, and this host is never asked; what was sent where is kept."""
    kept: list[Any] = []

    async def pretended(job: Job, backend: ToolBackend, runner: dialing.Runner) -> JobResult:
        del backend
        kept.append((job.code, runner.url, runner.token))
        return JobResult(state=State.OK, ok=True, value=2)

    def never(settings: Any) -> Any:
        raise AssertionError(f"this host was asked: {settings}")

    (tmp_path / "token").write_text("right" * 8 + "\n")
    (tmp_path / "token").chmod(0o600)
    monkeypatch.setattr(dialing, "run_remote", pretended)
    monkeypatch.setattr(coding, "ground_of", never)
    monkeypatch.setenv("FUMEHOOD_CODE__RUNNER_URL", "ws://127.0.0.1:1")
    monkeypatch.setenv("FUMEHOOD_CODE__RUNNER_TOKEN_FILE", str(tmp_path / "token"))
    return kept


@pytest.mark.threat("C5")
def test_a_program_for_a_runner_elsewhere_is_sent_there_and_not_run_here(
    run: Run, elsewhere: list[Any], program: str
) -> None:
    assert run("code", "run", program) == (0, "2\n", "")
    assert elsewhere == [("return 1", "ws://127.0.0.1:1", "right" * 8)]


@pytest.mark.threat("C5")
def test_a_token_that_is_missing_or_open_to_others_stops_the_run_by_its_setting(
    run: Run, elsewhere: list[Any], program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").chmod(0o644)
    status, out, err = run("code", "run", program)
    assert (status, out, elsewhere) == (2, "", [])
    assert "code.runner_token_file" in err
    monkeypatch.delenv("FUMEHOOD_CODE__RUNNER_TOKEN_FILE")
    status, _, err = run("code", "run", program)
    assert (status, elsewhere) == (2, [])
    assert "is not set" in err


def test_without_the_library_a_runner_elsewhere_is_unavailable(
    run: Run, elsewhere: list[Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "MODULES", {"code": ("nothing_of_that_name",)})
    status, out, err = run("code", "run", program)
    assert (status, out, elsewhere) == (3, "", [])
    assert "pip install 'fumehood[code]'" in err
    assert run("code", "runner")[0] == 3
