"""What a command does before its work: read the operator's settings, and set up the log by them."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from fumehood.core import logs, settings
from fumehood.core.sections import Settings


def start(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of this start: defaults, the file of `--settings` or the user's, the environment, `flags`."""
    named = click.get_current_context().find_root().params.get("settings")
    made = settings.load(Path(named) if named else None, environ=os.environ, flags=flags)
    logs.configure(made.log.level)
    return made
