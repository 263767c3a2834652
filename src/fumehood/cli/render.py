"""What reaches a terminal: data on stdout, words on stderr, both inert."""

import re
import sys

import click

_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def document(value: object) -> None:
    """One JSON document on stdout, indented, ASCII."""
    import msgspec

    from fumehood.core import jsonio

    click.echo(msgspec.json.format(jsonio.dump(value), indent=2))


def data(text: str) -> None:
    """One line of data on stdout."""
    click.echo(inert(text))


def words(text: str) -> None:
    """One line of words or progress on stderr."""
    click.echo(inert(text), file=sys.stderr)


def inert(text: str) -> str:
    """`text` with every character escaped that a terminal could act on, but line feed and tab."""
    return _ACTIVE.sub(lambda found: ascii(found[0])[1:-1], text)
