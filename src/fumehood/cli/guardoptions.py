"""The options that say what a guarded server may do: of `fumehood guard`, and of the piece for a client's file."""

from collections.abc import Callable
from typing import Any

import click

_SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
_Command = Callable[..., Any]


def guard_settings() -> dict[str, Any]:
    """Everything behind the first word of the command is the command's."""
    return dict(_SETTINGS)


def guard_options(command: _Command) -> _Command:
    """Add them, and the command itself."""
    options = (
        click.option("--policy", metavar="FILE", help="What the server may do, as TOML; the other options add to it."),
        click.option("--allow-read", multiple=True, metavar="PATH", help="A file or folder that the server may read."),
        click.option("--allow-write", multiple=True, metavar="PATH", help="One that it may read and change."),
        click.option("--allow-net", multiple=True, metavar="HOST:PORT", help="A host that it may reach, at one port."),
        click.option("--env", multiple=True, metavar="NAME", help="A variable that it is given, by its name."),
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND ARGS…"),
    )
    for option in reversed(options):
        command = option(command)
    return command
