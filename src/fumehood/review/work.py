"""What the steps of one review share, and what they add to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fumehood.core.sections import Settings
from fumehood.review.evidence.canaries import Canaries
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.plan import Bench
from fumehood.review.result import StepRecord
from fumehood.review.stack import Stack
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run

Progress = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Work:
    """One review while it runs."""

    host: HostFacts
    settings: Settings
    run: Run
    bench: Bench
    ledger: Ledger
    progress: Progress
    stop_on_output: bool
    stack: Stack
    world: World = World()
    canaries: Canaries | None = None  # what was planted, where the request asks for it
    under_way: str = ""  # the step that was begun last
    steps: list[StepRecord] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)  # fields of result.Provenance
    coverage: dict[str, Any] = field(default_factory=dict)  # fields of result.Coverage
    output_limit_reached: bool = False

    @property
    def layers(self) -> list[Path]:
        """The layers that the next step stands on, bottom first."""
        return self.stack.layers

    def count(self, name: str, number: int) -> None:
        """Add to a number of the coverage."""
        self.coverage[name] = self.coverage.get(name, 0) + number
