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
BUNDLED, WORKSPACE = DATA / "safe", DATA / "workspace"
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
    """Review a bundled server, then serve a bundled folder; no network. Exit: as `fumehood review run`."""
    named = source.parse(f"dir:{BUNDLED}")
    wishes = Wishes(
        entrypoint="server.js", question="What does the bundled server do when it is installed and started?"
    )
    asked = reviewing.Asked(request=request.convert(source.request(named, wishes)), beside=BUNDLED)
    place = out or Path(tempfile.mkdtemp(prefix="fumehood-demo-"))
    render.words("review: a bundled server is installed and started behind glass")
    return reviewing.run(asked, place) or _served()


def _served() -> int:
    """Each call by a process of its own, as from a shell: 0, or the status that was not expected."""
    from fumehood.sandbox import launch

    render.words("serve: a bundled folder is read behind glass, one call after the other")
    program = [sys.executable, "-m", "fumehood", "call"]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    for tool, arguments, expected in CALLS:
        render.data(f"\n$ fumehood call {tool} '{arguments}' --workspace {WORKSPACE.name}")
        done = launch.run_tool([*program, tool, arguments, "--workspace", str(WORKSPACE)], environment=environment)
        render.data((done.stdout + done.stderr).decode("utf-8", "replace").rstrip())
        if done.status != expected:
            return done.status or 1
    return 0
