from collections.abc import Callable
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[2] / "fixtures/traces"


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], bytes]:
    """A trace that strace 6.1 wrote of tests/fixtures/traces/acts.js in a sandbox."""
    return lambda name: (TRACES / f"{name}.strace").read_bytes()
