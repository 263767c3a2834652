"""What every test may ask for."""

import logging
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fumehood", deadline=None)  # a busy machine fails no property
settings.load_profile("fumehood")

pytest_plugins = ["loopback.fixtures", "skips"]

SERVERS = Path(__file__).parent / "fixtures" / "servers"
DEMO = Path(__file__).parents[1] / "src" / "fumehood" / "data" / "demo"


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A command that ran in this process, and set up its log, leaves the next test none of it."""
    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    yield
    if root.handlers != handlers or root.level != level:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.raiseExceptions = raising


@pytest.fixture(autouse=True)
def sockets_wait_as_before() -> Iterator[None]:
    """Nobody leaves this process a default time-out: it makes descriptors that others inherit refuse to wait."""
    yield
    left = socket.getdefaulttimeout()
    socket.setdefaulttimeout(None)
    assert left is None


@pytest.fixture(scope="session")
def server_folder() -> Callable[[str], Path]:
    """The folder of a fixture server by its name; `safe` is the bundled one. To be read, not to be run in."""

    def find(name: str) -> Path:
        folder = DEMO / name if name == "safe" else SERVERS / name
        assert (folder / "package.json").is_file(), name
        return folder

    return find


@pytest.fixture
def server_copy(server_folder: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a fixture server's folder, to run in."""

    def copy(name: str) -> Path:
        return shutil.copytree(server_folder(name), tmp_path / name)

    return copy
