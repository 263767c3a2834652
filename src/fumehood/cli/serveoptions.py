"""The options of `fumehood serve`, for the command itself and for the configuration of a client that starts it."""

from collections.abc import Callable
from typing import Any

import click

TRANSPORTS = ("stdio", "http")


def serve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which folder, over which transport, where."""
    options = (
        click.option("--workspace", metavar="DIR", multiple=True, help="The folder to serve: exactly one."),
        click.option(
            "--transport", type=click.Choice(TRANSPORTS), default="stdio", help="stdio (the default) or http."
        ),
        click.option("--host", metavar="H", help="The address to listen on (default 127.0.0.1)."),
        click.option("--port", metavar="P", type=int, help="The port to listen on (default 8765; 0: any)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def the_workspace(named: tuple[str, ...], setting: str | None) -> str:
    """The one folder that was named, by the flag or else by the setting; a usage error otherwise."""
    if len(named) > 1:
        raise click.UsageError("exactly one --workspace: a second folder needs a second server")
    folder = named[0] if named else setting
    if not folder:
        raise click.UsageError("no workspace: name the folder to serve with --workspace DIR")
    return folder
