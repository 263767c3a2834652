"""Paths, programs and variables as they are on a real disk."""

import os
import re
import socket
import sysconfig
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fumehood.core.sections import CodeSettings, ContentSettings, SandboxSettings, Settings
from fumehood.gateway.guard import places, policy, surroundings
from fumehood.gateway.guard.command import CommandError, Plain
from fumehood.gateway.guard.policy import GuardPolicyError
from fumehood.gateway.guard.surroundings import Surroundings
from fumehood.gateway.guard.walls import Ready, bounds, spec
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.spec import Route

NOBODY = 54329
PYTHON = Plain(program="/usr/bin/python3", arguments=())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostFacts:
    return probe.probe_host({}, quick=True, run_root=tmp_path_factory.mktemp("runs"))


@pytest.fixture
def around(host: HostFacts, tmp_path: Path) -> Surroundings:
    """Ours, with a home that is nobody's, and a server of our own uid."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home), "PATH": f"relative:{tmp_path}/bin:/usr/bin:/bin", "GIVEN": "value"}
    return Surroundings(host=host, settings=Settings(), environ=environ, folder=str(tmp_path), uid=os.geteuid())


def decided(around: Surroundings, plain: Plain = PYTHON, **flags: tuple[str, ...]) -> tuple[Ready, list[str]]:
    return surroundings.decide(plain, policy.from_flags(flags), around)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_program_is_found_by_the_operators_path(around: Surroundings) -> None:
    ready, said = decided(around, Plain(program="python3", arguments=("-V",)))
    assert ready.argv == ("/usr/bin/python3", "-V")
    assert said == []


def test_a_program_that_would_not_be_seen_is_refused_with_the_folder(around: Surroundings, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "mine")
    with pytest.raises(CommandError, match=f"add --allow-read {tmp_path}"):
        decided(around, Plain(program="mine", arguments=()))
    (tmp_path / "tool").symlink_to(tmp_path / "bin" / "mine")
    with pytest.raises(CommandError, match="the server does not see it"):
        decided(around, Plain(program="./tool", arguments=()))
    ready, _ = decided(around, Plain(program="bin/mine", arguments=()), allow_read=(f"{tmp_path}/bin",))
    assert ready.argv == (f"{tmp_path}/bin/mine",)


def test_who_wrote_a_file_is_told_its_keys_and_not_flags(around: Surroundings, tmp_path: Path) -> None:
    written = replace(around, spelling=places.KEYS)
    program(tmp_path / "bin" / "mine")
    with pytest.raises(CommandError, match=re.escape(f"add to policy.allow_read: {tmp_path}")):
        decided(written, Plain(program="mine", arguments=()))
    (tmp_path / "a.py").touch()
    _, said = decided(written, Plain(program="python3", arguments=("a.py",)), env=("NOT_SET",))
    assert said[0] == "policy.env NOT_SET: it is not set"
    assert said[1].endswith("policy.allow_read shows it")
    with pytest.raises(GuardPolicyError, match=r"^policy\.allow_write '/nowhere': there is nothing"):
        decided(written, Plain(program="python3", arguments=()), allow_write=("/nowhere",))


@pytest.mark.parametrize("typed", ["no-such-program", "./none", "/etc/passwd", "/usr/bin"])
def test_what_is_no_program_is_refused(around: Surroundings, typed: str) -> None:
    with pytest.raises(CommandError):
        decided(around, Plain(program=typed, arguments=()))


def test_words_that_name_hidden_files_are_pointed_out(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    words = ("server.py", "none.py", f"{tmp_path}/docs", "docs", "-v", "/usr/share", "a\0.py")
    _, said = decided(around, Plain(program="python3", arguments=words))
    assert [one.partition(" is there")[0] for one in said] == [f"{tmp_path}/server.py", f"{tmp_path}/docs"]


def test_variables_are_taken_by_name(around: Surroundings) -> None:
    ready, said = decided(around, env=("GIVEN", "ABSENT"))
    assert ready.passed == {"GIVEN": "value"}
    assert said == ["--env ABSENT: it is not set"]


@pytest.mark.threat("G2")
def test_the_users_own_settings_are_never_shown(around: Surroundings, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/home", str(tmp_path), str(around.host.run_root), f"{around.host.run_root}/"):
        with pytest.raises(GuardPolicyError, match="what fumehood itself"):
            decided(around, allow_read=(path,))
    (tmp_path / "home" / "docs").mkdir()
    ready, _ = decided(around, allow_write=(f"{tmp_path}/home/docs",))
    assert [one.target for one in ready.binds] == [f"{tmp_path}/home/docs"]
    with pytest.raises(GuardPolicyError, match="home as a whole"):
        decided(around, allow_write=(f"{tmp_path}/home",))


@pytest.mark.threat("G2")
def test_what_fumehood_runs_or_goes_by_is_not_written(around: Surroundings, host: HostFacts, tmp_path: Path) -> None:
    rules, tool, token = (tmp_path / name / "file" for name in ("rules", "tools", "tokens"))
    for file in (rules, tool, token):
        program(file)
    made = Settings(
        content=ContentSettings(rules_file=str(rules)),
        sandbox=SandboxSettings(deno=str(tool)),
        code=CodeSettings(runner_token_file=str(token)),
    )
    ours = Surroundings(host=host, settings=made, environ=around.environ, folder="/", uid=os.geteuid())
    for path in (rules.parent, rules, tool.parent, Path(sysconfig.get_path("purelib")), Path(msgspec.__path__[0])):
        with pytest.raises(GuardPolicyError, match=r"what fumehood runs or goes by|system's own"):
            decided(ours, allow_write=(str(path),))
    assert decided(ours, allow_read=(str(rules.parent),))[0].binds
    with pytest.raises(GuardPolicyError, match="what fumehood itself is configured by"):
        decided(ours, allow_read=(str(token.parent),))


@pytest.mark.threat("G2")
def test_packages_that_were_acquired_are_written_by_no_server(around: Surroundings) -> None:
    home = Path(around.environ["HOME"])
    cache = home / "cache" / "fumehood" / "packages"
    cache.mkdir(parents=True)
    ours = replace(around, environ={**around.environ, "XDG_CACHE_HOME": f"{home}/cache"})
    for path in (cache, cache.parent, home / "cache"):
        with pytest.raises(GuardPolicyError, match="what fumehood runs or goes by"):
            decided(ours, allow_write=(str(path),))


@pytest.mark.threat("G2")
def test_a_link_in_a_folder_that_the_server_writes_decides_nothing(around: Surroundings, tmp_path: Path) -> None:
    for name in ("data", "data/own", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "shared").symlink_to(tmp_path / "private")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    data, beyond = (f"{tmp_path}/data",), f"leads out of '{tmp_path}"
    with pytest.raises(GuardPolicyError, match=beyond):
        decided(around, allow_write=data, allow_read=(f"{tmp_path}/data/shared",))
    with pytest.raises(GuardPolicyError, match=beyond):
        decided(around, allow_write=(f"{tmp_path}/link",), allow_read=(f"{tmp_path}/data/shared",))
    assert len(decided(around, allow_write=data, allow_read=(f"{tmp_path}/data/own",))[0].binds) == 2
    assert decided(around, allow_read=(f"{tmp_path}/data/shared",))[0].binds


def test_what_starts_programs_in_a_folder_that_is_written_is_pointed_out(around: Surroundings, tmp_path: Path) -> None:
    program(tmp_path / "work" / ".git" / "config")
    program(tmp_path / "work" / ".mcp.json")
    assert decided(around, allow_read=(f"{tmp_path}/work",))[1] == []
    said = decided(around, allow_write=(f"{tmp_path}/work",))[1]
    assert [line.partition(" starts programs")[0] for line in said] == [
        f"{tmp_path}/work/.mcp.json",
        f"{tmp_path}/work/.git",
    ]


@pytest.mark.threat("G2")
def test_a_socket_is_not_shown(around: Surroundings, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(tmp_path / "s"))
        with pytest.raises(GuardPolicyError, match="neither a file nor a folder"):
            decided(around, allow_read=(f"{tmp_path}/s",))


def test_a_server_of_another_uid_is_judged_by_what_others_may(host: HostFacts, tmp_path: Path) -> None:
    made = Surroundings(host=host, settings=Settings(), environ={}, folder="/", uid=NOBODY)
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    with pytest.raises(GuardPolicyError, match="who may not enter"):
        decided(made, allow_read=(str(shut),))
    with pytest.raises(GuardPolicyError, match="who may not write it"):
        decided(made, allow_write=("/opt",))
    assert decided(made, allow_read=("/opt",))[0].binds


def test_a_file_that_others_may_not_read_is_refused(host: HostFacts) -> None:
    made = Surroundings(host=host, settings=Settings(), environ={}, folder="/", uid=NOBODY)
    if host.routes[:1] == (Route.DROPPED,):
        with pytest.raises(GuardPolicyError, match="who may not read it"):
            decided(made, allow_read=("/etc/shadow",))


def test_a_ready_server_is_one_spec(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    ready, _ = decided(around, allow_read=(f"{tmp_path}/docs",), env=("GIVEN",))
    made = spec(ready, 12345)
    assert made.workdir == "/home/user"
    assert dict(made.environment)["GIVEN"] == "value"
    assert made.identity.uid == 12345
    assert bounds().stdout_bytes is None
    inside = Ready(argv=ready.argv, policy=ready.policy, binds=ready.binds, folder=f"{tmp_path}/docs")
    assert spec(inside, 1).workdir == f"{tmp_path}/docs"
