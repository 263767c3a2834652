"""What reaches a terminal: data on stdout, words on stderr, both inert."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator

import click

from fumehood.core.errors import HarnessError

_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def document(value: object) -> None:
    """One JSON document on stdout, indented, ASCII."""
    import msgspec

    from fumehood.core import jsonio

    with _stdout():
        click.echo(msgspec.json.format(jsonio.dump(value), indent=2))


def data(text: str) -> None:
    """One line of data on stdout."""
    with _stdout():
        click.echo(inert(text))


def words(text: str) -> None:
    """One line of words or progress on stderr."""
    click.echo(inert(text), file=sys.stderr)


def width(most: int = 100) -> int:
    """The columns that lines for a person are wrapped to: the terminal's, and at most `most`."""
    import shutil

    return min(most, shutil.get_terminal_size((most, 24)).columns) if sys.stdout.isatty() else most


def inert(text: str) -> str:
    """`text` with every character escaped that a terminal could act on, but line feed and tab."""
    return _ACTIVE.sub(lambda found: ascii(found[0])[1:-1], text)


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    """A stdout that cannot be written is said in words; a reader that went away is left to click."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up_stdout()
        raise HarnessError(f"stdout cannot be written: {error.strerror}", remedy="see where it goes") from None


def _give_up_stdout() -> None:
    """Let what is still in the buffer go nowhere: Python would try it again at its end, and exit with 120."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
