"""`fumehood demo`: what fumehood does, on bundled material, without a network."""

import tempfile
from pathlib import Path

import click

from fumehood.cli import render, reviewing
from fumehood.review import request, source
from fumehood.review.source import Wishes

BUNDLED = Path(__file__).parents[1] / "data" / "demo" / "safe"


@click.command()
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="A new or empty folder (else a new one).")
def demo(out: Path | None) -> int:
    """Review a bundled MCP server; no network. Exit: as `fumehood review run`."""
    named = source.parse(f"dir:{BUNDLED}")
    wishes = Wishes(
        entrypoint="server.js", question="What does the bundled server do when it is installed and started?"
    )
    asked = reviewing.Asked(request=request.convert(source.request(named, wishes)), beside=BUNDLED)
    place = out or Path(tempfile.mkdtemp(prefix="fumehood-demo-"))
    render.words("review: a bundled server is installed and started behind glass")
    return reviewing.run(asked, place)
