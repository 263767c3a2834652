"""A client's configuration as a `gateway.toml`. Pure.

Invariants: what is printed is a topology that `gateway.topology.read` takes, or the import is refused; each server of
the file is in it, or named as one that is not carried over, with the reason; the rest as in `gateway.topology.entry`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits
from fumehood.gateway.topology import clientfiles, entry, needs, read, shape
from fumehood.gateway.topology.clientfiles import ImportedError
from fumehood.gateway.topology.model import SAVED
from fumehood.gateway.topology.piece import Piece, inert
from fumehood.gateway.topology.place import TopologyError, shown

_SOURCE: Final = "gateway.toml"
_NAME_CHARACTERS: Final = 32
_HEAD: Final = """\
# gateway.toml, from {source}. Every key: docs/reference/gateway.md
# A command sees the system read-only, and no network; what else it may see, change and reach stands in its policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A file for the gateway, and what has to be said about it."""

    text: str
    notes: tuple[str, ...]


def convert(text: str, source: str) -> Imported:
    """What a client's file is as a gateway's. `source` is its name as asked. Errors: `ImportedError`."""
    source = shown(source)
    found = clientfiles.read(text, source)
    if len(found.servers) > limits.PIN_SERVERS:
        raise ImportedError(f"{source}: more than {limits.PIN_SERVERS} servers", remedy="import a part of them")
    pieces: list[Piece] = []
    notes = [f"{source}: {one}" for one in found.beside]
    names = _names(found.servers)
    for (asked, given), name in zip(found.servers.items(), names, strict=True):
        if name != asked:
            notes.append(f"{shown(asked)} is called {name} here")
        piece = _held(entry.convert(name, given, expands=found.expands))
        notes += piece.notes
        if piece.lost:
            notes.append(f"{name} is not carried over: {piece.lost}")
        pieces.append(piece)
    whole = "\n\n".join([_HEAD.format(source=source), *(piece.text() for piece in pieces)]) + "\n"
    if len(whole) > limits.TOPOLOGY_BYTES:
        raise ImportedError(f"{source}: more than a gateway reads", remedy="import a part of it")
    try:
        topology = read.parse(whole, _SOURCE, "/")
    except TopologyError as error:
        raise ImportedError(f"{source} cannot be imported: {error.message}", remedy=error.remedy) from None
    if variables := needs.variables(topology):
        notes.append(f"where the gateway is started these have to be set: {', '.join(variables)}")
    return Imported(text=whole, notes=tuple(notes))


def _held(piece: Piece) -> Piece:
    """A piece that is a topology by itself, or the words why it cannot be one."""
    if piece.lost:
        return piece
    try:
        read.parse(piece.text(), _SOURCE, "/")
    except TopologyError as error:
        words = error.message.partition(": ")[2].removeprefix(f"servers.{piece.name}.")
        piece.lost, piece.comments = inert(f"{words} ({error.remedy})"), []
    return piece


def _names(asked: Iterable[str]) -> list[str]:
    """A name for each server that a gateway takes, and no two the same."""
    made: list[str] = []
    for one in asked:
        name = re.sub(r"[^A-Za-z0-9-]+", "-", re.sub(r"[^A-Za-z0-9_-]+", "-", one).replace("__", "-"))
        plain = one if shape.NAME.fullmatch(one) else name.strip("-")[:_NAME_CHARACTERS].strip("-") or "server"
        plain = f"{plain}-server" if plain == SAVED else plain
        unique, number = plain, 2
        while unique in made:
            unique, number = f"{plain[: _NAME_CHARACTERS - 4].rstrip('_-')}-{number}", number + 1
        made.append(unique)
    return made
