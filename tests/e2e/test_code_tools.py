"""`fumehood code run FILE --tools gateway.toml`: a program with the tools of a gateway, as a person starts it."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from served.talk import FUMEHOOD

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G20")]
SERVER = Path(__file__).parents[1] / "fixtures" / "gateway" / "notebook.py"
PROGRAM = """
  const listed = await tools.files__find_files({ glob: "*.md" });
  const kept = await tools.notes__keep({ text: `${listed.structured.total} pages` });
  return { total: listed.structured.total, kept: kept.text, all: (await tools.notes__all({})).text };
"""


class Desk:
    """A folder, a notebook, a gateway.toml."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "gateway.toml"
        pages = folder / "pages"
        pages.mkdir()
        (pages / "one.md").write_text("one\n")
        (pages / "two.md").write_text("two\n")
        (folder / "home").mkdir()
        self.write()

    def write(self, *, trust: str = "trusted", more: str = "") -> None:
        python = os.path.realpath(sys.executable)
        self.config.write_text(
            f'[servers.files]\nworkspace = "pages"\ntrust = "{trust}"\n'
            f'[servers.notes]\ncommand = ["{python}", "-I", "{SERVER}"]\ntrust = "trusted"\n'
            f'reads = ["all"]\negress = []\npolicy = {{ allow_read = ["{SERVER.parent}", "{sys.base_prefix}"] }}\n'
            f"{more}"
        )
        self.config.chmod(0o600)

    def argv(self, program: str, *words: str) -> list[str]:
        file = self.folder / "program.ts"
        file.write_text(program)
        return [str(FUMEHOOD), "code", "run", str(file), "--tools", str(self.config), *words]

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder / "home")}

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        argv = self.argv(program, *words)
        return subprocess.run(argv, capture_output=True, check=False, timeout=240, env=self.environment)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    tmp_path.chmod(0o755)
    return Desk(tmp_path)


def test_a_program_reads_with_one_server_and_writes_with_another(desk: Desk) -> None:
    done = desk.run(PROGRAM, "--json")
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    assert document["value"]["total"] == 2
    assert document["value"]["kept"] == "kept"
    assert "2 pages" in document["value"]["all"]
    assert [one["outcome"] for one in document["calls"]] == ["ok"] * 3


def test_in_a_role_that_only_reads_it_cannot_write(desk: Desk) -> None:
    desk.write(more='[roles.reader]\naccess = "read"\n[gateway]\nlocal_role = "reader"\n')
    done = desk.run("return amcp.run('notes__keep', { text: 'x' }).catch((error) => error.message)")
    assert done.returncode == 0, done.stderr.decode()
    assert "unknown_tool" in json.loads(done.stdout)


def test_without_a_role_nothing_is_started(desk: Desk) -> None:
    desk.write(more="[roles.reader]\n")
    done = desk.run(PROGRAM)
    assert done.returncode == 2
    assert b"name a role in gateway.local_role" in done.stderr


@pytest.mark.threat("G11")
def test_where_nobody_can_be_asked_a_tainted_program_does_not_write(desk: Desk) -> None:
    desk.write(trust="untrusted")
    done = desk.run(PROGRAM)
    assert done.returncode == 1
    assert b"cannot_ask: this call needs a person's approval" in done.stderr


@pytest.mark.threat("G11")
@pytest.mark.parametrize(("typed", "status", "shown"), [(b"y\n", 0, '"kept": "kept"'), (b"\n", 1, "not_approved")])
def test_a_person_at_the_terminal_is_asked(desk: Desk, typed: bytes, status: int, shown: str) -> None:
    desk.write(trust="untrusted")
    ended, said = at_terminal(desk.argv(PROGRAM), desk.environment, typed)
    assert "A program of this client wants to use keep of the server notes" in said
    assert 'Arguments: {"text": "2 pages"}' in said
    assert (ended, shown in said) == (status, True), said


def test_a_workspace_and_a_gateway_are_not_both_given(desk: Desk) -> None:
    done = desk.run("return 1", "--workspace", str(desk.folder))
    assert done.returncode == 2
    assert b"--workspace or --tools" in done.stderr


def at_terminal(argv: list[str], environment: dict[str, str], typed: bytes) -> tuple[int, str]:
    """The status and all that a terminal showed; `typed` is typed once the question is there."""
    person, terminal = pty.openpty()
    process = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    said = b""
    try:
        until = time.monotonic() + 90
        while (data := _read(person, until)) is not None:
            said += data
            if b"Allow it?" in said and typed:
                os.write(person, typed)
                typed = b""
        return process.wait(60), said.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(person)


def _read(person: int, until: float) -> bytes | None:
    ready, _, _ = select.select([person], [], [], max(0.0, until - time.monotonic()))
    assert ready, "nothing was said in time"
    try:
        return os.read(person, 65536) or None
    except OSError:  # the other end is closed
        return None
