"""The layers of a review, in order."""

from pathlib import Path


class Stack:
    """What the next step stands on."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.layers: list[Path] = []
        self.fetched: Path | None = None

    def push(self, layer: Path) -> None:
        """Put a layer on top."""
        self.layers.append(layer)

    def compare_with(self, layer: Path) -> None:
        """Remember FETCH's layer."""
        self.fetched = layer
