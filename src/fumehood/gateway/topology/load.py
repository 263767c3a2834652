"""Reads `gateway.toml` from the disk. Whoever may write the file decides what runs, so only its owner may."""

import os
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import limits, settings
from fumehood.gateway.topology import read
from fumehood.gateway.topology.model import Topology
from fumehood.gateway.topology.place import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A topology, and the file that it came from: both paths absolute, links as they were named."""

    topology: Topology
    path: str
    folder: str


def load(path: Path) -> Loaded:
    """The topology of a file. Errors: `TopologyError`; `SettingsError` where it cannot be read or is anybody's."""
    source = shown(str(path))
    text = settings.owned_text(path, source, size=limits.TOPOLOGY_BYTES)
    whole = os.path.abspath(path)  # noqa: PTH100 - links stay, and so does what lies beside them
    folder = os.path.dirname(whole)  # noqa: PTH120 - as above
    return Loaded(topology=read.parse(text, source, folder), path=whole, folder=folder)
