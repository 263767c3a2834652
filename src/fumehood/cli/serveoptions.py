"""The options of what serves a client, for the command itself and for the configuration of a client that starts it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

TRANSPORTS = ("stdio", "http")


def serve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which folder, over which transport, where."""
    named = click.option("--workspace", metavar="DIR", multiple=True, help="The folder to serve: exactly one.")
    return named(transport_options(command))


def transport_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Over which transport, and where."""
    options = (
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
    file = click.get_current_context().find_root().params.get("settings")
    if file and _lies_in(file, folder):
        raise click.UsageError("the file of --settings lies in the workspace, which would configure its own walls")
    return folder


def _lies_in(file: str, folder: str) -> bool:
    """By its name, or by where that leads: a link in the folder can be changed by who writes there."""
    places = (os.path.abspath(file), os.path.realpath(file))  # noqa: PTH100 - a Path would not take `..` out
    roots = (os.path.abspath(folder), os.path.realpath(folder))  # noqa: PTH100 - likewise
    return any(Path(place).is_relative_to(root) for place in places for root in roots)
