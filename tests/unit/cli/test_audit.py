"""`fumehood audit verify`: statuses, words and the document; and the log that the settings of a run name."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from audited import call, chained
from faketools import ECHO, ERASE, FakeTools
from fumehood.cli import auditing
from fumehood.cli import main as cli
from fumehood.code.gate import Gate, Scope
from fumehood.code.gated import Gated
from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnknownToolError
from fumehood.core.sections import LogSettings, Settings
from fumehood.gateway.audit import files
from fumehood.gateway.audit.faults import AuditPlaceError
from fumehood.serve.records import Record

Run = Callable[..., tuple[int, str, str]]
LINES = chained(call(), call(call=2), call(call=3))
DIGEST = json.loads(LINES[2])["digest"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line with these words: its status, stdout and stderr."""

    def words(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fumehood", "audit", "verify", *argv])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return words


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    path = tmp_path / "audit.jsonl"
    path.touch(mode=0o600)
    path.write_bytes(b"".join(LINES))
    return path


def test_a_log_that_holds_is_told_with_its_ends_and_its_digest(run: Run, file: Path) -> None:
    status, out, err = run(str(file))
    assert (status, err) == (0, "")
    assert out == (
        "3 lines hold; files: 1\n"
        "first  1  2026-11-30T00:00:00.000Z\n"
        "last   3  2026-11-30T00:00:00.000Z\n"
        f"digest {DIGEST}\n"
    )


def test_the_document_says_the_same(run: Run, file: Path) -> None:
    status, out, _ = run(str(file), "--json")
    found = json.loads(out)
    assert (status, found["holds"], found["lines"], found["digest"]) == (0, True, 3, DIGEST)
    assert (found["files"], found["last"]["sequence"], found["torn_bytes"]) == (["audit.jsonl"], 3, 0)


@pytest.mark.threat("G1")
def test_a_broken_log_is_told_with_file_line_and_reason(run: Run, file: Path) -> None:
    (file.parent / files.aside(file.name, 1)).write_bytes(LINES[0])
    file.write_bytes(LINES[2])
    status, out, err = run(str(file))
    assert (status, out) == (1, "")
    assert err == "broken: audit.jsonl, line 1: it is number 3, after number 1\n"
    status, out, _ = run(str(file), "--json")
    assert (status, json.loads(out)["holds"], json.loads(out)["line"]) == (1, False, 1)


@pytest.mark.threat("G1")
def test_a_tail_that_was_cut_off_is_told_by_a_digest_that_was_kept(run: Run, file: Path) -> None:
    assert run(str(file), "--kept", DIGEST)[0] == 0
    file.write_bytes(b"".join(LINES[:2]))
    assert run(str(file))[0] == 0  # the file alone cannot tell
    status, _, err = run(str(file), "--kept", DIGEST)
    assert (status, err) == (1, "broken: no line has the digest that was kept\n")


def test_what_is_no_digest_or_cannot_be_read_is_refused(run: Run, file: Path) -> None:
    assert run(str(file), "--kept", "abc")[0] == 2
    status, _, err = run(str(file.parent / "other"))
    assert (status, "other cannot be read: No such file" in err) == (2, True)
    assert run(str(file.parent))[0] == 2


def test_what_is_not_there_and_what_was_torn_is_said_in_words(run: Run, file: Path) -> None:
    file.write_bytes(LINES[1] + LINES[2][:100])
    status, _, err = run(str(file))
    assert status == 0
    assert "it begins with number 2: what was before is not here" in err
    assert "100 bytes at its end are an unfinished line" in err
    asyncio.run(_write(file, "fake.echo", {"words": "x"}))
    assert "torn by a crash and stated since: 1" in run(str(file))[2]


async def _write(file: Path, name: str, arguments: dict[str, str]) -> None:
    settings = Settings(log=LogSettings(audit_file=str(file)))
    async with auditing.kept(settings, file.parent / "elsewhere") as kept:
        assert kept is not None
        gate = Gate([ECHO, ERASE], allowed=["fake.echo", "fake.erase"], scope=Scope.WRITE)
        await Gated(FakeTools(), gate, clock=SystemClock(), audit=kept).run(name, arguments)  # type: ignore[arg-type] # plain words are JSON


@pytest.mark.threat("G1")
def test_calls_of_a_run_are_kept_with_their_caller_and_without_their_content(run: Run, file: Path) -> None:
    file.unlink()
    asyncio.run(_write(file, "fake.echo", {"words": "planted"}))
    asyncio.run(_write(file, "fake.erase", {}))
    with pytest.raises(UnknownToolError):
        asyncio.run(_write(file, "fake.other", {}))
    assert run(str(file))[0] == 0
    text = file.read_text()
    assert "planted" not in text
    found = [json.loads(line)["event"] for line in text.splitlines()]
    assert [(one["tool"], one["decision"], one["outcome"]) for one in found] == [
        ("fake.echo", "allowed", "ok"),
        ("fake.erase", "allowed", "begun"),
        ("fake.erase", "allowed", "ok"),
        ("fake.other", "not_allowed", "refused"),
    ]
    assert found[1]["run"] == found[2]["run"] != found[0]["run"]
    assert {one["who"].partition(":")[0] for one in found} == {"uid"}


@pytest.mark.sandbox
@pytest.mark.threat("G1")
def test_calls_of_a_server_are_kept_for_whoever_made_them(run: Run, file: Path) -> None:
    file.unlink()
    settings = Settings(log=LogSettings(audit_file=str(file)))
    record = Record(
        number=1,
        principal="token 0123456789ab",
        tool="read_file",
        decision="denied_path",
        outcome="refused",
        error="denied_path",
        arguments_sha256="ab" * 32,
        arguments_bytes=3,
        answer_bytes=40,
        microseconds=12,
    )
    with auditing.served(settings, file.parent / "elsewhere") as kept:
        assert kept is not None
        kept.ready()
        assert kept.is_alive
        assert [one.route for one in kept.containments] == ["audit"]
        kept.keep(record)
        kept.keep(replace(record, number=2, principal="local"))
    assert run(str(file))[0] == 0
    found = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert [(one["source"], one["who"], one["call"]) for one in found] == [
        ("serve", "token:0123456789ab", 1),
        ("serve", f"uid:{os.getuid()}", 2),
    ]


@pytest.mark.threat("G1")
def test_a_log_inside_the_served_folder_is_refused(file: Path) -> None:
    settings = Settings(log=LogSettings(audit_file=str(file)))

    async def opened() -> None:
        async with auditing.kept(settings, file.parent):
            pass

    with pytest.raises(AuditPlaceError, match="it lies in the workspace"):
        asyncio.run(opened())
