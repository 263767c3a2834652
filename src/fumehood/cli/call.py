"""`fumehood call`: one call of one tool from the shell, by the same way as a client's, behind the same walls."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fumehood.cli import render
from fumehood.cli.serveoptions import the_workspace
from fumehood.core import limits
from fumehood.core.errors import FailedError, InvalidArgumentsError, UnknownToolError

if TYPE_CHECKING:
    from fumehood.core.jsonio import JsonObject


@click.command()
@click.argument("tool", metavar="TOOL")
@click.argument("arguments", metavar="JSON", default="{}")
@click.option("--workspace", metavar="DIR", multiple=True, help="The folder: exactly one.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole CallToolResult.")
def call(tool: str, arguments: str, workspace: tuple[str, ...], *, as_json: bool) -> int:
    """Call TOOL with the arguments JSON (an object; - reads it from stdin). Exit: 1 when the tool refuses."""
    from fumehood.cli import auditing, extras
    from fumehood.cli.start import start
    from fumehood.core.budget import Budget

    extras.need("serve")
    from fumehood.serve import recording
    from fumehood.serve.opening import opened
    from fumehood.wire.published import LOCAL

    settings = start()
    folder = Path(the_workspace(workspace, settings.workspace.root))
    asked = _object(arguments)
    with auditing.served(settings, folder) as records, opened(settings, folder) as opening:
        guarded = recording.guarded(opening.stand, records)
        try:
            result = guarded.call(tool, asked, Budget(settings.workspace.call_seconds), LOCAL)
        except UnknownToolError:
            raise UnknownToolError(f"there is no tool {tool!a}", remedy="`fumehood tools` lists them") from None
    if as_json:
        render.document(result)
    else:
        _show(result)
    return FailedError.exit_status if result.get("isError") else 0


def _object(text: str) -> "JsonObject":
    """The arguments; `InvalidArgumentsError` when they are no JSON object."""
    from fumehood.core import jsonio

    data = sys.stdin.buffer.read(limits.REQUEST_BYTES + 1) if text == "-" else text.encode("utf-8", "surrogateescape")
    try:
        value = jsonio.parse(data, size=limits.REQUEST_BYTES)
    except jsonio.JsonError as error:
        raise InvalidArgumentsError(f"the arguments are {error.message}", remedy=_EXAMPLE) from None
    if not isinstance(value, dict):
        raise InvalidArgumentsError("the arguments are no JSON object", remedy=_EXAMPLE)
    return value


_EXAMPLE = """write an object, for example '{"path": "README.md"}'"""


def _show(result: "JsonObject") -> None:
    """The text half; a refusal is words, not data."""
    content = result["content"]
    for piece in content if isinstance(content, list) else ():
        if isinstance(piece, dict):
            (render.words if result.get("isError") else render.data)(str(piece.get("text", "")).removesuffix("\n"))
