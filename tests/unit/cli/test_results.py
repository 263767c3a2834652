"""cli.results and cli.differences: what is made of result files, whoever wrote them."""

import base64
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from fumehood.cli import differences, render
from fumehood.cli import main as cli
from fumehood.core import jcs
from fumehood.observe.model import Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.behaviour import diff
from recorded import made, rows

ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u202e\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Done:
    """What one command did."""

    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def pinned(**changes: Any) -> result.ReviewResult:
    """A result that names what was reviewed."""
    one = made(**changes)
    return msgspec.structs.replace(one, provenance=msgspec.structs.replace(one.provenance, digest="ab" * 32))


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def command(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["fumehood", "review", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Done(exit_code=int(ended.value.code or 0), stdout=out, stderr=err)

    return command


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "a.json").write_bytes(result.encode(made()))
    (tmp_path / "b.json").write_bytes(result.encode(made("anna", 77)))
    (tmp_path / "c.json").write_bytes(
        result.encode(
            made(rows=[*rows("max", 5), (Kind.NETWORK_DNS, Phase.EXERCISE, "exercise", {"name": "new.example"})])
        )
    )
    return tmp_path


def test_nothing_differs_and_the_status_is_zero(kept: Path, run: Run) -> None:
    done = run("diff", str(kept / "a.json"), str(kept / "b.json"))
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "nothing differs in what was recorded")


def test_a_difference_is_named_and_the_status_is_one(kept: Path, run: Run) -> None:
    done = run("diff", str(kept / "a.json"), str(kept / "c.json"))
    assert done.exit_code == 1
    assert "  + network.dns EXERCISE exercise name=new.example" in done.stdout.splitlines()


def test_json_is_one_document(kept: Path, run: Run) -> None:
    done = run("diff", "--json", str(kept / "a.json"), str(kept / "c.json"))
    assert msgspec.convert(json.loads(done.stdout), diff.Comparison).differs


@pytest.mark.parametrize("content", [None, b"{}", b"not json"])
def test_what_cannot_be_read_is_refused(kept: Path, content: bytes | None, run: Run) -> None:
    if content is not None:
        (kept / "d.json").write_bytes(content)
    done = run("diff", str(kept / "a.json"), str(kept / "d.json"))
    assert done.exit_code == 2
    assert "d.json" in done.stderr


def test_what_is_no_json_is_named_with_what_would_be_one(kept: Path, run: Run) -> None:
    (kept / "report.html").write_bytes(b"<!doctype html>")
    done = run("policy", str(kept / "report.html"))
    assert "'report.html' is no review result: not JSON: line 1" in done.stderr
    assert "name the result.json of a review" in done.stderr


def test_conditions_come_before_sections_and_what_cannot_be_compared_is_loud() -> None:
    other = request.convert({**source.request(source.parse("npm:package@1.2.3")), "network_mode": "OPEN"})
    lines = list(differences.lines(diff.compare(made(), made(request=other, collectors=()))))
    assert lines[2].startswith("condition network_mode: ")
    assert any(line.startswith("sensor EXERCISE ") and line.endswith("strace: active -> missing") for line in lines)
    assert any(line.startswith("programs: NOT COMPARABLE: EXERCISE strace") for line in lines)


def test_sides_are_told_as_the_command_line_writes_them_with_whole_digests() -> None:
    found = diff.compare(made(), made())
    old, new = list(differences.lines(found))[:2]
    assert old.split() == ["old", "npm:package@1.2.3", "COMPLETED", found.old.behaviour]
    assert new.split()[0] == "new"


def test_of_steps_only_those_are_shown_that_are_not_in_both() -> None:
    both = {"phase": "EXERCISE", "name": "exercise", "end": "stopped", "status": None, "trace": "plain"}
    more = {**both, "name": "exercise-again", "end": "exited", "status": 3}
    found = diff.compare(made(), made())
    ends = (
        diff.Changed(name="steps", old=[both, "odd"], new=[both, more]),
        diff.Changed(name="state", old="a", new="b"),
    )
    lines = list(differences.lines(msgspec.structs.replace(found, ends=ends)))
    assert lines[2:6] == [
        "end steps:",
        "  - odd",
        "  + EXERCISE exercise-again exited status=3 trace=plain",
        "end state: a -> b",
    ]
    turned = (diff.Changed(name="steps", old=[both, more], new=[more, both]),)
    assert "end steps: in another order" in list(differences.lines(msgspec.structs.replace(found, ends=turned)))


def test_a_digest_is_shown_by_its_beginning_and_several_reasons_have_a_line_each() -> None:
    ends = (diff.Changed(name="set", old="ab" * 32, new=None),)
    section = diff.SectionDifference(section="programs", outcome="not_comparable", why=("one", "two"))
    found = msgspec.structs.replace(diff.compare(made(), made()), ends=ends, sections=(section,))
    assert list(differences.lines(found))[2:6] == [
        "end set: abababababab… -> none",
        "programs: NOT COMPARABLE:",
        "  ! one",
        "  ! two",
    ]


def test_sensors_that_were_not_alike_are_cut_and_counted() -> None:
    sensors = tuple(diff.Changed(name=f"EXERCISE e{n} strace", old=None, new="active") for n in range(45))
    found = msgspec.structs.replace(diff.compare(made(), made()), sensors=sensors)
    assert "  and 5 more (--json has them)" in list(differences.lines(found))


def test_a_flood_of_differences_is_cut_and_counted() -> None:
    many = [(Kind.NETWORK_DNS, Phase.EXERCISE, "e", {"name": f"n{'x' * n}.example"}) for n in range(60)]
    lines = list(differences.lines(diff.compare(made(), made(rows=[*rows("max", 5), *many]))))
    assert "  and 20 more (--json has them)" in lines


@given(st.text(max_size=40), st.text(max_size=20))
def test_no_text_of_a_result_reaches_a_terminal_as_anything_but_text(word: str, other: str) -> None:
    hostile = [
        (Kind.PROCESS_EXEC, Phase.EXERCISE, other, {"program": word, "argv": [word, other]}),
        (Kind.NETWORK_HTTP, Phase.EXERCISE, other, {"name": word, "method": other, "body": json.dumps({word: other})}),
    ]
    try:
        found = diff.compare(made(), made(rows=hostile, errors=(result.ErrorRecord(code=word, message=""),)))
    except UnicodeEncodeError:  # half of a surrogate pair: no document that is read has one
        return
    shown = [render.inert(line) for line in differences.lines(found)]
    assert [line for line in shown if ACTIVE.search(line)] == []


def test_a_policy_is_printed_with_its_limits_first(kept: Path, run: Run) -> None:
    done = run("policy", str(kept / "a.json"))
    assert done.exit_code == 0
    assert done.stdout.startswith("# What this is: the least policy")
    assert '"192.0.2.1:53"' not in done.stdout


def test_an_export_is_one_document_and_a_key_signs_only_a_statement(
    kept: Path, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = tmp_path_factory.mktemp("keys") / "key.pem"
    private = ed25519.Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (kept / "p.json").write_bytes(result.encode(pinned()))
    assert json.loads(run("export", str(kept / "p.json"), "--format", "sarif").stdout)["version"] == "2.1.0"
    statement = run("export", str(kept / "p.json"), "--format", "intoto").stdout
    assert json.loads(statement)["_type"] == "https://in-toto.io/Statement/v1"
    signed = json.loads(run("export", str(kept / "p.json"), "--format", "intoto", "--key", str(key)).stdout)
    assert base64.b64decode(signed["payload"]) == statement.rstrip("\n").encode()
    assert run("export", str(kept / "p.json"), "--format", "sarif", "--key", str(key)).exit_code == 2
    assert run("export", str(kept / "a.json"), "--format", "intoto").exit_code == 2  # no digest of its target


def test_what_the_terminal_may_not_act_on_stays_canonical(kept: Path, run: Run) -> None:
    hostile = [(Kind.FILE_CREATED, Phase.EXERCISE, "e", {"path": "/a\x1b[2J\x85\u202e\u200b\x7f"})]
    (kept / "p.json").write_bytes(result.encode(pinned(rows=hostile)))
    shown = run("export", str(kept / "p.json"), "--format", "intoto").stdout.rstrip("\n")
    assert shown.encode() == jcs.encode(json.loads(shown))
    assert not ACTIVE.search(shown)
