import os
from collections.abc import Callable

import pytest


@pytest.fixture
def open_descriptors() -> Callable[[], int]:
    """How many descriptors this process has open."""

    def count() -> int:
        with os.scandir("/proc/self/fd") as found:
            return sum(1 for _ in found)

    return count
