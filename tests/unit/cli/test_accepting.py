"""`fumehood gateway accept`: what is printed is what is accepted, and every refusal says what to do."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fumehood.cli.main import root
from fumehood.core.errors import FumehoodError
from fumehood.gateway.codemode import saved
from fumehood.gateway.guard.listing import Taken, Withheld
from fumehood.gateway.topology import load
from fumehood.gateway.upstreams import ground
from fumehood.gateway.upstreams.accepted import Pins, Who, pins_of
from fumehood.gateway.upstreams.identity import identity
from keptservers import READ, StillClock

TOML = '[servers.files]\ncommand = ["node", "files.js"]\n[servers.notes]\nurl = "https://notes.example/mcp"\n'
pytestmark = pytest.mark.threat("G4")


class Site:
    """A gateway.toml, and servers that were seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "gateway.toml"
        self.write(TOML)
        self.config.chmod(0o600)

    def write(self, text: str) -> None:
        self.config.write_text(text, encoding="utf-8")

    @property
    def kept(self) -> Pins:
        return pins_of(load.load(self.config), StillClock(), config=str(self.config))

    def sees(self, server: str, *tools: Any) -> Taken | Withheld:
        loaded = load.load(self.config)
        who = Who(name=server, identity=identity(loaded.topology.servers[server], loaded.folder))
        return self.kept.judge(who, tools)

    def accept(self, *words: str) -> Result:
        environment = {"HOME": str(self.folder), "XDG_CONFIG_HOME": ""}
        typed = ["gateway", "accept", *words, "--config", str(self.config)]
        return CliRunner().invoke(root, typed, env=environment)

    def refused(self, *words: str) -> str:
        error = self.accept(*words).exception
        assert isinstance(error, FumehoodError), error
        assert error.exit_status == 2
        return str(error)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    tmp_path.chmod(0o700)
    made = Site(tmp_path)
    made.sees("files", READ)
    made.sees("notes", READ)
    return made


def test_what_differs_is_printed_and_accepted(site: Site) -> None:
    judged = site.sees("files", {**READ, "description": "Reads.\x1b[2J\u200b"})
    assert isinstance(judged, Withheld)
    digest = site.kept.proposal("files").digest
    done = site.accept("files")
    assert done.exception is None, done.exception
    assert done.stdout.splitlines()[:2] == [f"files  {digest}", "  changed  read: description"]
    assert [line.removeprefix("  ") for line in done.stdout.splitlines()[1:]] == list(judged.said[:-1])
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert done.stderr == "accepted: files\n"
    assert isinstance(site.sees("files", {**READ, "description": "Reads.\x1b[2J\u200b"}), Taken)
    assert isinstance(site.sees("files", READ), Withheld)


def test_without_a_name_all_that_waits_is_accepted(site: Site) -> None:
    site.sees("files")
    site.sees("notes")
    done = site.accept()
    assert done.stderr == "accepted: files\naccepted: notes\n"
    assert isinstance(site.sees("files"), Taken)
    assert isinstance(site.sees("notes"), Taken)


def test_what_is_only_shown_is_not_accepted(site: Site) -> None:
    site.sees("files")
    assert "removed  read" in site.accept("files", "--show").stdout
    assert isinstance(site.sees("files"), Withheld)


def test_what_changed_since_it_was_shown_is_not_accepted(site: Site) -> None:
    site.sees("files")
    digest = site.kept.proposal("files").digest
    site.sees("files", {**READ, "title": "x"})
    assert "it changed since (look at it with --show)" in site.refused("files", "--digest", digest)
    site.sees("files")
    assert site.accept("files", "--digest", digest).exception is None


def test_refusals_say_what_to_do(site: Site) -> None:
    assert site.refused() == "nothing waits to be accepted (a gateway that runs says what changed)"
    assert site.refused("files").startswith("nothing of 'files' waits to be accepted (start the gateway")
    assert "file is no server of" in site.refused("file")
    assert "did you mean files?" in site.refused("file")
    assert site.refused("--digest", "0") == "--digest is of one server (name it)"
    assert CliRunner().invoke(root, ["gateway", "accept", "files"]).exit_code == 2
    site.write("[server]")
    assert "gateway.toml" in site.refused()


def test_what_waits_of_another_command_is_not_accepted(site: Site) -> None:
    site.sees("files")
    site.write(TOML.replace("files.js", "other.js"))
    assert "of another command, address or folder than the file has now" in site.refused("files")
    assert isinstance(site.sees("files", READ), Withheld)
    assert "identity its command" in site.accept("files").stdout
    assert isinstance(site.sees("files", READ), Taken)


def test_what_waits_of_a_server_that_is_gone_is_left_alone(site: Site) -> None:
    site.sees("files")
    site.write('[servers.notes]\nurl = "https://notes.example/mcp"\n')
    assert "nothing waits" in site.refused()


def test_a_lock_that_cannot_be_used_is_refused_before_anything(site: Site) -> None:
    site.sees("files")
    (site.folder / "fumehood.lock").write_bytes(b"{}")
    assert "fumehood.lock" in site.refused("files")


def test_the_lock_and_what_lies_beside_it_are_files_of_the_gateway_that_no_server_sees(site: Site) -> None:
    site.sees("files")
    topology = load.load(site.config).topology
    own = [Path(one) for one in ground.own_files(topology, str(site.config)) if "fumehood.lock" in one]
    assert {one.name for one in own} == {"fumehood.lock", "fumehood.lock.proposed", ".fumehood.lock.held"}
    assert all(one.exists() for one in own)


def test_saved_tools_are_accepted_under_the_name_code(site: Site) -> None:
    (site.folder / "report.ts").write_text("return input", encoding="utf-8")
    assert "is no server" in site.refused("code")
    site.write(TOML + '[tools.report]\nprogram = "report.ts"\ndescription = "Report."\n')
    who = Who(name="code", identity=saved.IDENTITY)
    site.kept.judge(who, [{"name": "code__report", "program": "return input"}])
    assert isinstance(site.kept.judge(who, [{"name": "code__report", "program": "return 1"}]), Withheld)
    assert "changed  code__report: program" in site.accept("code").stdout
    assert isinstance(site.kept.judge(who, [{"name": "code__report", "program": "return 1"}]), Taken)
