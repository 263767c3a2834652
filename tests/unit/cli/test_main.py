"""cli.main, cli.demo and cli.reviewing: statuses, streams and files, with a review that is only pretended."""

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from fumehood.cli import demo, reviewing
from fumehood.cli import main as cli
from fumehood.core import jsonio, limits, logs
from fumehood.core.errors import FailedError, LimitError, RefusedError, UnsupportedError
from fumehood.observe.model import Fidelity, Kind, Phase
from fumehood.review import request, result
from fumehood.review.run import Job
from fumehood.review.states import State
from fumehood.sandbox.spec import End, Route
from fumehood.wire import schema

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line with these words: its status, stdout and stderr."""

    def words(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fumehood", *argv])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return words


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Put a command `probe` into the group that does this."""

    def command(act: Callable[[], object]) -> None:
        monkeypatch.setitem(cli.COMMANDS, "probe", ("none:none", "a probe"))
        monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: click.Command("probe", callback=act))

    return command


def raising(error: BaseException) -> Callable[[], object]:
    def act() -> object:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (FailedError("it failed"), 1, "fumehood: it failed"),
        (RefusedError("no", remedy="ask for less"), 2, "fumehood: no (ask for less)"),
        (UnsupportedError("not here"), 3, "fumehood: not here"),
        (LimitError("too long"), 4, "fumehood: too long"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("which?"), 2, "which?"),
    ],
)
def test_each_error_ends_with_its_status_and_its_words_on_stderr(
    run: Run, probe: Callable[..., None], error: BaseException, status: int, said: str
) -> None:
    probe(raising(error))
    ended, out, err = run("probe")
    assert (ended, out) == (status, "")
    assert said in err


def test_a_fault_ends_with_5_and_its_traceback_is_a_record_of_the_log(
    run: Run, probe: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logs, "ensure", lambda: None)
    probe(raising(ZeroDivisionError()))
    ended, out, err = run("probe")
    assert (ended, out) == (5, "")
    assert "an error of its own" in err
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize(("answer", "status"), [(None, 0), (0, 0), (3, 3)])
def test_what_a_command_answers_is_the_status(
    run: Run, probe: Callable[..., None], answer: int | None, status: int
) -> None:
    probe(lambda: answer)
    assert run("probe")[0] == status


def test_help_lists_every_command_and_an_unknown_one_is_a_wrong_use(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert [name for name in cli.COMMANDS if f"\n  {name} " not in out] == []
    assert run("nothing")[0] == 2


def test_the_package_itself_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fumehood", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("fumehood", run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("fumehood, version ")


def row(sequence: int, kind: Kind, collector: str, **detail: Any) -> result.Row:
    return result.Row(
        sequence=sequence,
        phase=Phase.EXERCISE,
        step="exercise",
        type=kind,
        collector=collector,
        fidelity=Fidelity.OBSERVED,
        detail=detail,
    )


ROWS = (
    row(1, Kind.PROTOCOL_FACT, "protocol", fact="initialized", protocol_version="2025-06-18", server_name="s",
        server_version="1", capabilities=["tools"]),
    row(2, Kind.PROCESS_EXEC, "strace", program="/opt/node/bin/node", outcome="started"),
    row(3, Kind.PROCESS_EXEC, "strace", argv=["sudo"], outcome="ENOENT"),
    row(4, Kind.NETWORK_DNS, "egress", name="a.example"),
    row(5, Kind.NETWORK_CONNECT, "egress", name="a.example", port=443, decision="refused"),
    row(6, Kind.FILE_CREATED, "layer", path="/home/x/a\x1b[31m"),
    row(7, Kind.FILE_CREATED, "strace", path="/home/x/a"),
    *(row(8 + n, Kind.PROCESS_EXEC, "strace", program=f"/bin/{n}", outcome="started") for n in range(9)),
)  # fmt: skip


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """A review that starts nothing, ends as the question says, and keeps the job that it was given."""
    jobs: list[Job] = []

    async def review(job: Job, folder: Any) -> result.ReviewResult:
        jobs.append(job)
        job.progress("install")
        folder.events.write(b'{"sequence": 9, "phase": "EXERCISE"}\n')
        return result.ReviewResult(
            request=job.request,
            environment=result.Environment(
                harness_version="0.1.0", system="Linux", machine="x86_64", kernel="6.18", route=Route.USER
            ),
            provenance=result.Provenance(
                kind="dir",
                pinned=False,
                preparation=result.Preparation(profile="NONE", status="not_requested"),
                lockfile=result.Lockfile(path="package-lock.json", sha256="0" * 64, version=3, packages=None),
            ),
            execution=result.Execution(
                status=State(job.request.question) if job.request.question in set(State) else State.COMPLETED,
                started_at="2026-11-29T12:00:00.000Z",
                ended_at="2026-11-29T12:00:09.000Z",
                steps=tuple(
                    result.StepRecord(name=phase.lower(), phase=phase, end=End.STOPPED, wall_seconds=1.0)
                    for phase in (Phase.INSTALL, Phase.EXERCISE)
                ),
            ),
            collectors=(),
            observations=result.Observations(items=ROWS, total=len(ROWS)),
            containment=(),
            limitations=(result.FIRST_LIMITATION,),
            coverage=result.Coverage(hooks_declared=2, hooks_run=1),
        )

    monkeypatch.setattr(reviewing, "review", review)
    monkeypatch.setattr("fumehood.cli.reviewing.probe.probe_host", lambda *_, **__: "facts")
    monkeypatch.setattr("fumehood.cli.reviewing.probe.with_digests", lambda facts: facts)
    monkeypatch.setattr("fumehood.cli.reviewing.operator.sources", lambda *_: "sources")
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    return jobs


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", 0),
        ("TARGET_FAILED", 1),
        ("RUNTIME_UNSUPPORTED", 3),
        ("TIMEOUT", 4),
        ("STOPPED", 4),
        ("HARNESS_ERROR", 5),
    ],
)
def test_a_review_ends_with_the_status_of_its_state_and_two_files(
    run: Run, pretended: list[Job], tmp_path: Path, state: str, status: int
) -> None:
    out = tmp_path / "out"
    ended, said, progress = run("review", "run", "npm:package@1.2.3", "--out", str(out), "--question", state)
    assert ended == status
    assert said.startswith(f"{state}  npm:package@1.2.3")
    assert "install" in progress
    assert sorted(path.name for path in out.iterdir()) == ["events.ndjson", "report.html", "result.json"]
    value = jsonio.parse((out / "result.json").read_bytes(), size=limits.JSON_RESULT_BYTES)
    assert schema.problems(result.schema(), value) == []
    assert json.loads((out / "events.ndjson").read_bytes()) == {"sequence": 9, "phase": "EXERCISE"}
    assert len(pretended) == 1


def test_the_summary_names_what_was_seen_and_is_inert(run: Run, pretended: list[Job], tmp_path: Path) -> None:
    _, said, _ = run("review", "run", "npm:package@1.2.3", "--out", str(tmp_path / "out"))
    whole = re.sub(r"\n {10,}", " ", said)  # a long line goes on below its words
    lines = dict(line.split(maxsplit=1) for line in whole.splitlines())
    assert lines["protocol"] == "2025-06-18, s 1, offers tools"
    assert lines["install"] == "? packages locked, 2 with install scripts, 1 scripts run"
    assert lines["programs"].endswith("and 4 more; tried: sudo ENOENT")
    assert lines["network"] == "a.example:443 refused; names asked: a.example"
    assert lines["files"] == "EXERCISE: 1 created"
    assert "\x1b" not in said
    assert pretended[0].request.question == "What does it do when it is installed and started?"


def test_the_demo_reviews_the_bundled_server_in_the_folder_that_was_named(
    run: Run, pretended: list[Job], tmp_path: Path
) -> None:
    status, said, _ = run("demo", "--out", str(tmp_path / "out"))
    assert status == 0
    assert "dir:." in said
    assert (tmp_path / "out/result.json").is_file()
    (job,) = pretended
    assert (job.beside / "server.js").is_file()
    assert isinstance(job.request, request.RequestVersion2)
    assert msgspec.to_builtins(job.request)["network_mode"] == "SINKHOLE"
    assert "[redacted:url-credential:" in said
    assert "denied_path" in said
    assert "worded like instructions" in said
    coded = json.loads(said.partition("$ fumehood code run program.ts --workspace workspace\n")[2])
    assert [one["credentials_replaced"] for one in coded["files"]] == [0, 1, 0]
    assert [one["worded_like_instructions"] for one in coded["files"]] == [False, False, True]
    assert "denied_path" in coded["read_env"]
    assert coded["fetch"].startswith("NotCapable: ")


def test_the_demo_ends_with_what_it_did_not_expect(
    run: Run, pretended: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del pretended
    monkeypatch.setenv("FUMEHOOD_SANDBOX__DENO", "/nonexistent/deno")
    status, said, _ = run("demo", "--out", str(tmp_path / "out"))
    assert status == 3
    assert "runner_unavailable: RunnerUnavailable: no Deno" in said
    monkeypatch.setattr(demo, "CALLS", (("read_file", '{"path": ".env"}', 0),))
    assert run("demo", "--out", str(tmp_path / "other"))[0] == 1


def test_a_review_that_is_interrupted_leaves_no_folder(
    run: Run, pretended: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object) -> result.ReviewResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(reviewing, "review", interrupted)
    assert run("review", "run", "npm:package@1.2.3", "--out", str(tmp_path / "out"))[0] == 130
    assert not (tmp_path / "out").exists()
    assert pretended == []
