"""`fumehood review diff`, `review policy` and `review export`: what is made of results. Thin: read, call, render."""

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
    from fumehood.review.behaviour import diff

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
    from fumehood.review.export import leastpolicy

    start()
    render.data(leastpolicy.text(read(path)).rstrip("\n"))


@click.command("export", short_help="Print a result in a format that other tools read.")
@click.argument("path", metavar="RESULT.json", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    metavar="FORMAT",
    type=click.Choice(["intoto", "sarif"]),
    required=True,
    help="intoto (a statement, runtime-trace v0.2) or sarif (2.1.0, informational).",
)
@click.option("--key", metavar="PEM", type=click.Path(path_type=Path), help="Sign intoto with this Ed25519 key (DSSE).")
def export_command(path: Path, kind: str, key: Path | None) -> None:
    """Print a result as an in-toto statement, with --key in a signed DSSE envelope, or as SARIF."""
    from fumehood.cli.start import start
    from fumehood.core.errors import RefusedError
    from fumehood.review.export import intoto, sarif

    start()
    if kind == "sarif" and key is not None:
        raise RefusedError("SARIF is not signed", remedy="leave --key out, or export --format intoto")
    found = read(path)
    if kind == "sarif":
        render.document(sarif.log(found))
    elif key is None:
        render.data(intoto.statement(found).decode())
    else:
        render.data(_signed(intoto.statement(found), key))


def _signed(statement: bytes, key: Path) -> str:
    """The envelope of a statement. Errors: without the extra `UnsupportedError`, for what is no key `RefusedError`."""
    from fumehood.cli import extras
    from fumehood.core import limits
    from fumehood.review import files
    from fumehood.review.export import intoto

    extras.need("sign")
    from fumehood.review.export import signing

    keyid, signature = signing.sign(intoto.pae(statement), files.read(key, size=limits.SIGNING_KEY_BYTES))
    return intoto.envelope(statement, keyid, signature).decode()
