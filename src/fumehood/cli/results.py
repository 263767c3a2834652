"""`fumehood review diff` and `review policy`: what is made of results. Thin: read, call, render."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fumehood.cli import render

if TYPE_CHECKING:
    from fumehood.review.result import ReviewResult

DIFFERS = 1


def read(path: Path) -> "ReviewResult":
    """The result in a file of whoever: bounded, strict. Errors: `RefusedError`, exit 2."""
    from fumehood.core import limits
    from fumehood.review import files, reading

    return reading.result(files.read(path, size=limits.JSON_RESULT_BYTES), path.name)


@click.command("diff", short_help="Say what two results record differently.")
@click.argument("old", metavar="OLD.json", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW.json", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document, review-diff.schema.json.")
def diff_command(old: Path, new: Path, as_json: bool) -> int:  # noqa: FBT001 - click gives options by position
    """Say what two results record differently; noise of their runs is left out.

    Exit: 0 nothing differs and all could be compared, 1 something differs or could not be compared, 2 unreadable.
    """
    import msgspec

    from fumehood.cli import differences
    from fumehood.cli.start import start
    from fumehood.review import diff

    start()
    found = diff.compare(read(old), read(new))
    if as_json:
        render.document(msgspec.to_builtins(found))
    else:
        for line in differences.lines(found):
            render.data(line)
    return DIFFERS if found.differs else 0


@click.command("policy", short_help="Print the least policy under which a result's behaviour fits.")
@click.argument("path", metavar="RESULT.json", type=click.Path(path_type=Path))
def policy_command(path: Path) -> None:
    """Print the least policy of `fumehood guard` under which what a result records would have worked.

    It says what was seen, not what should be allowed: read each line, the comments first.
    """
    from fumehood.cli.start import start
    from fumehood.review import leastpolicy

    start()
    render.data(leastpolicy.text(read(path)).rstrip("\n"))
