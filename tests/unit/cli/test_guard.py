"""`fumehood guard` from its words to a session: what is refused is refused before anything starts."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fumehood.cli import guarding
from fumehood.cli.main import root
from fumehood.core.errors import FumehoodError
from fumehood.core.sections import ContentSettings
from fumehood.wire import descriptors
from fumehood.wire.descriptors import Wire


def invoke(*words: str, home: Path) -> Result:
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": ""}
    return CliRunner().invoke(root, ["guard", *words], env=environment)


def refused(*words: str, home: Path) -> str:
    error = invoke(*words, home=home).exception
    assert isinstance(error, FumehoodError), error
    return str(error)


def test_words_are_refused_before_anything_starts(tmp_path: Path) -> None:
    assert "is started by its daemon" in refused("--", "docker", "run", home=tmp_path)
    assert "no version is named" in refused("--", "npx", "-y", "x", home=tmp_path)
    assert "--allow-net: 'x' is not HOST:PORT" in refused("--allow-net", "x", "--", "python3", home=tmp_path)
    assert "cannot be read" in refused("--policy", f"{tmp_path}/none", "--", "python3", home=tmp_path)
    assert invoke(home=tmp_path).exit_code == 2


def test_a_policy_that_others_may_write_is_refused(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("env = []\n", encoding="utf-8")
    policy.chmod(0o666)
    assert "others may write it" in refused("--policy", str(policy), "--", "python3", home=tmp_path)


@pytest.mark.sandbox
def test_a_server_is_guarded_from_its_words_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inward, outward = os.pipe(), os.pipe()
    monkeypatch.setattr(descriptors, "claim", lambda: Wire(reading=inward[0], writing=outward[1]))
    monkeypatch.setenv("FUMEHOOD_SANDBOX__RUN_ROOT", str(run_root := Path(f"/var/tmp/fumehood-guardcli-{os.getpid()}")))
    run_root.mkdir(mode=0o711)
    run_root.chmod(0o711)
    log = tmp_path / "audit.jsonl"
    policy = tmp_path / "policy.toml"
    policy.write_text(f'audit_file = "{log}"\n', encoding="utf-8")
    program = "import sys; [sys.stdout.write(line.replace('\"method\"', '\"result\"')) for line in sys.stdin]"
    os.write(inward[1], b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    os.close(inward[1])
    said: list[str] = []
    monkeypatch.setattr(guarding, "say", said.append)
    done = invoke("--policy", str(policy), "--env", "NOT_SET", "--", "python3", "-c", program, home=tmp_path)
    assert done.exception is None, done.exception
    assert done.return_value in {0, None}
    with os.fdopen(outward[0], encoding="utf-8") as lines:
        (answer,) = [json.loads(line) for line in lines]
    assert answer["error"]["message"] == "the server's answer is not passed on: the result is no object"
    assert said == ["fumehood: --env NOT_SET: it is not set"]
    assert log.exists()
    assert [path.name for path in run_root.iterdir() if path.name != "slots"] == []
    for path in sorted(run_root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    run_root.rmdir()


def test_the_operators_own_rules_and_switches_are_heeded(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nid = 'mine'\nregex = 'MINE-[0-9]{4}'\nkeywords = ['mine']\n", encoding="utf-8")
    made = guarding.controls(ContentSettings(rules_file=str(rules), unsafe_no_scanning=True))
    assert made.rules is not None
    assert (made.redact, made.scan) == (True, False)


def test_words_nobody_reads_are_lost(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    guarding.say("a\x1bb")
    assert capfd.readouterr().err == "a\\x1bb\n"
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(guarding, "_STDERR", writing)
    guarding.say("gone")
    os.close(writing)
