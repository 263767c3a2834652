"""`fumehood code`: the untrusted program. Thin: parse, call, render."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError, RefusedError

if TYPE_CHECKING:
    from fumehood.core.jsonio import JsonValue


@click.group()
def code() -> None:
    """Run a program that a model wrote, in a child whose only way out are the tools it is given."""


@code.command("run", short_help="Run one program and print what it returns.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--input", "given", metavar="JSON", default="null", help="The program's input (- reads it from stdin).")
@click.option("--workspace", metavar="DIR", help="Give it the tools of `fumehood serve` over this folder.")
@click.option("--tools", metavar="GATEWAY.TOML", type=click.Path(path_type=Path), help="Give it those of a gateway.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole JobResult.")
def run_command(file: Path, given: str, workspace: str | None, tools: Path | None, *, as_json: bool) -> int:
    """Run FILE, JavaScript or TypeScript: the body of an async function. Its value goes to stdout, its words to stderr.

    Exit: 1 it threw, could not be read, or broke the protocol; 3 nothing can be run here; 4 a limit.
    """
    if tools is not None and workspace is not None:
        raise click.UsageError("--workspace or --tools: a workspace can be a server of gateway.toml")
    from fumehood.cli import coding, extras

    if tools is not None:
        extras.need("serve")
    folder = Path(workspace) if workspace else None
    asked = coding.Asked(program=_program(file), value=_input(given), workspace=folder, gateway=tools)
    result = coding.run(asked)
    coding.show(result, as_json=as_json)
    return coding.EXIT_STATUS[result.state]


@code.command("runner", short_help="Run programs for others, over WebSocket.")
@click.option("--listen", metavar="HOST:PORT", help="Where to listen (default 127.0.0.1:8777; port 0: any).")
def runner_command(listen: str | None) -> int:
    """Run the programs of whoever has a token of `code.token_file`, each in a child of its own, until SIGTERM.

    One WebSocket at /run for each program; /healthz says how the runner is. Exit: 2 no token file, or the address is
    not to be had; 3 no child can stand here.
    """
    from fumehood.cli import extras

    extras.need("code")
    from fumehood.cli import running

    return running.serve(listen)


@code.command("selftest", short_help="Try the walls around programs on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def selftest_command(*, as_json: bool) -> int:
    """Run the containment programs with the walls, where they must fail, and without, where they must succeed.

    Without the walls they run with your rights; they come with fumehood and touch only what was planted for them.
    Exit: 3 unless every one of them held.
    """
    from fumehood.cli import coding

    return coding.selftest(as_json=as_json)


def _program(file: Path) -> str:
    """The text of FILE. `RefusedError` when it is too large or no text."""
    from fumehood.review import files

    data = files.read(file, size=limits.CODE_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(f"{file.name} is not UTF-8", remedy="save it as UTF-8") from None
    if not text.strip():
        raise RefusedError(f"{file.name} is empty", remedy="write at least `return 1`")
    return text


def _input(text: str) -> "JsonValue":
    from fumehood.core import jsonio

    most = limits.CODE_INPUT_BYTES
    data = sys.stdin.buffer.read(most + 1) if text == "-" else text.encode("utf-8", "surrogateescape")
    if len(data) > most:
        words = f"the input has more than {most} bytes"
        raise InvalidArgumentsError(words, remedy="give the program a tool that reads it in parts")
    try:
        return jsonio.parse(data, depth=limits.CODE_DEPTH // 2, size=most)
    except jsonio.JsonError as error:
        words = f"the input is {error.message}"
        raise InvalidArgumentsError(words, remedy="""for example --input '{"path": "src"}'""") from None
