"""`fumehood audit`: whether an audit log holds. Thin: parse, call, render."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fumehood.core.errors import RefusedError

if TYPE_CHECKING:
    from fumehood.gateway.audit.chain import Verified, Verifier

_DIGEST = r"[0-9a-f]{64}"


@click.group()
def audit() -> None:
    """Check an audit log."""


@audit.command("verify", short_help="Say whether an audit log holds.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--kept", metavar="SHA256", help="A digest that was kept elsewhere: one of the lines must have it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify_command(file: Path, kept: str | None, *, as_json: bool) -> int:
    """Check every line of FILE, and of the full files beside it, oldest first.

    Prints the last digest: keep it elsewhere, for lines that are missing at the end can be told in no other way.

    Exit: 1 broken, with file, line and reason; 2 unreadable.
    """
    from fumehood.cli import render

    found = _verify(file, _digest(kept))
    if as_json:
        render.document(found)
    elif found["holds"]:
        _say(found)
    else:
        place = f"{found['file']}, line {found['line']}: " if found["file"] else ""
        render.words(f"broken: {place}{found['reason']}")
    return 0 if found["holds"] else 1


def _verify(file: Path, kept: str | None) -> dict[str, Any]:
    """The whole answer as one document."""
    from fumehood.gateway.audit import files
    from fumehood.gateway.audit.chain import Verifier

    verifier, names = Verifier(kept), []
    try:
        for name, lines in files.lines(file):
            names.append(name)
            for number, line in enumerate(lines, start=1):
                if reason := verifier.feed(line):
                    return {"holds": False, "file": name, "line": number, "reason": reason}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise RefusedError(f"{file.name} cannot be read: {why}", remedy="name the current file of a log") from None
    return _held(verifier, names, kept)


def _held(verifier: "Verifier", names: list[str], kept: str | None) -> dict[str, Any]:
    found = verifier.end()
    if kept is not None and not found.kept:
        return {"holds": False, "file": "", "line": 0, "reason": "no line has the digest that was kept"}
    return {
        "holds": True,
        "files": names,
        "lines": found.lines,
        "first": _place(found, last=False),
        "last": _place(found, last=True),
        "digest": found.digest,
        "recovered": found.recovered,
        "torn_bytes": found.torn_bytes,
    }


def _place(found: "Verified", *, last: bool) -> dict[str, Any] | None:
    line = found.last if last else found.first
    return None if line is None else {"sequence": line.sequence, "time": line.time}


def _say(found: dict[str, Any]) -> None:
    from fumehood.cli import render

    render.data(f"{found['lines']} lines hold; files: {len(found['files'])}")
    for word in ("first", "last"):
        if place := found[word]:
            render.data(f"{word:<6} {place['sequence']}  {place['time']}")
    render.data(f"digest {found['digest']}")
    if found["first"] and found["first"]["sequence"] > 1:
        render.words(f"it begins with number {found['first']['sequence']}: what was before is not here")
    if found["recovered"]:
        render.words(f"torn by a crash and stated since: {found['recovered']}")
    if found["torn_bytes"]:
        render.words(
            f"{found['torn_bytes']} bytes at its end are an unfinished line; whoever goes on with it states them"
        )


def _digest(kept: str | None) -> str | None:
    import re

    if kept is not None and not re.fullmatch(_DIGEST, kept):
        raise RefusedError("--kept is no digest", remedy="it has 64 hex digits, in small letters")
    return kept
