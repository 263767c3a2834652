"""Write docs/reference/command-line.md from the commands' own help, so that the two cannot differ."""

from collections.abc import Iterator
from pathlib import Path

import click

from fumehood.cli.main import root

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/command-line.md"
COLUMNS = 100

HEAD = """# The command line

Data goes to standard output; words, progress and the log go to standard error. With `--json` standard output is one
JSON document. This page is written by `scripts/command_line.py` from the help of each command.

| exit | meaning |
|---|---|
| 0 | done; of a review: `COMPLETED` |
| 1 | the other side failed (`TARGET_FAILED`), or a comparison found something |
| 2 | wrong usage, or what was asked is refused; nothing was fetched or run |
| 3 | this host cannot, or this kind of target is not supported (`RUNTIME_UNSUPPORTED`) |
| 4 | a limit of time or size (`TIMEOUT`, `STOPPED`) |
| 5 | a fault of fumehood, or of what it stands on (`HARNESS_ERROR`) |
| 130 | interrupted |

[States](states.md) says what leads to which state, [settings](settings.md) what `--settings` names.
"""


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The words and the help of a command and of everything below it."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands(below, click.Context(below, info_name=name, parent=context))


def text() -> str:
    """The page."""
    context = click.Context(root, info_name="fumehood", terminal_width=COLUMNS, **root.context_settings)
    blocks = (f"\n## {words}\n\n```text\n{help_text.rstrip()}\n```\n" for words, help_text in commands(root, context))
    return HEAD + "".join(blocks)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
