"""`fumehood demo`: what fumehood does, on bundled material, without a network."""

import os
import sys
import tempfile
from pathlib import Path

import click

from fumehood.cli import render, reviewing
from fumehood.review import request, source
from fumehood.review.source import Wishes

DATA = Path(__file__).parents[1] / "data" / "demo"
KEPT = ("PATH", "HOME", "LANG", "XDG_CONFIG_HOME")
BUNDLED, WORKSPACE = DATA / "safe", DATA / "workspace"
PROGRAM = DATA / "program.ts"
PROGRAM_SECONDS = 60.0  # a run may take 30, and its server and sandbox have to start
# What a model might ask of the bundled folder, and the status with which it is answered.
CALLS: tuple[tuple[str, str, int], ...] = (
    ("list_directory", "{}", 0),
    ("read_file", '{"path": "src/app.py"}', 0),
    ("read_file", '{"path": "notes/report.md"}', 0),
    ("read_file", '{"path": ".env"}', 1),
    ("read_file", '{"path": "../safe/package.json"}', 1),
)


@click.command()
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="A new or empty folder (else a new one).")
def demo(out: Path | None) -> int:
    """Review a bundled server, serve a bundled folder, run a bundled program over it; no network.

    Exit: as `fumehood review run`, `call` and `code run`.
    """
    named = source.parse(f"dir:{BUNDLED}")
    wishes = Wishes(
        entrypoint="server.js", question="What does the bundled server do when it is installed and started?"
    )
    asked = reviewing.Asked(request=request.convert(source.request(named, wishes)), beside=BUNDLED)
    place = out or Path(tempfile.mkdtemp(prefix="fumehood-demo-"))
    render.words("review: a bundled server is installed and started behind glass")
    return reviewing.run(asked, place) or _served() or _coded()


def _served() -> int:
    """Each call by a process of its own, as from a shell: 0, or the status that was not expected."""
    render.words("serve: a bundled folder is read behind glass, one call after the other")
    for tool, arguments, expected in CALLS:
        render.data(f"\n$ fumehood call {tool} '{arguments}' --workspace {WORKSPACE.name}")
        status = _told(["call", tool, arguments, "--workspace", str(WORKSPACE)])
        if status != expected:
            return status or 1
    return 0


def _coded() -> int:
    """A program whose only way out are the tools of the same folder; it tries more, and is refused."""
    render.words("code: a bundled program is run behind glass, over the tools of that folder")
    render.data(f"\n$ fumehood code run {PROGRAM.name} --workspace {WORKSPACE.name}")
    return _told(["code", "run", str(PROGRAM), "--workspace", str(WORKSPACE)])


def _told(words: list[str]) -> int:
    """Run fumehood with the settings of this start, show what it says, and give its status."""
    from fumehood.sandbox import launch

    named = click.get_current_context().find_root().params.get("settings")
    program = [sys.executable, "-m", "fumehood", *(["--settings", named] if named else []), *words]
    environment = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("FUMEHOOD_")}
    done = launch.run_tool(program, environment=environment, timeout_seconds=PROGRAM_SECONDS)
    render.data((done.stdout + done.stderr).decode("utf-8", "replace").rstrip())
    return done.status
