"""A gateway's servers on a lock of the test's own."""

from pathlib import Path

import pytest

from keptservers import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A lock of its own, and no servers yet."""
    return House(tmp_path)
