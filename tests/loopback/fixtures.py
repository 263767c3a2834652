"""The loopback peers as pytest fixtures. Each ends with its test: threads joined, ports closed."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loopback.forge import LoopbackForge
from loopback.index import LoopbackIndex
from loopback.registry import LoopbackRegistry
from loopback.reviewed import Reviewed, ReviewRequest, review
from loopback.server import RefusedPort
from loopback.upstream import UnreachableError, Upstream

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache/registry"


class NpmRegistry(LoopbackRegistry):
    """The caching registry, which a test asks for what it needs before it starts."""

    def need(self, *packages: str) -> None:
        """Have the packument of each `name@version`; without a registry skip, or fail when CI is set."""
        for package in packages:
            name, _, version = package.rpartition("@")
            try:
                self.warm(name, version)
            except UnreachableError as error:
                without_registry(str(error))


def without_registry(reason: str) -> None:
    """A listed skip on a machine without a registry; a failure where one was promised."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def registry() -> Iterator[LoopbackRegistry]:
    """A registry that knows what the test publishes, and nothing else."""
    with LoopbackRegistry() as running:
        yield running


@pytest.fixture
def npm_registry() -> Iterator[NpmRegistry]:
    """A registry that serves what was fetched once from the operator's; call `need` first."""
    upstream = Upstream(Path(os.environ.get("LOOPBACK_REGISTRY_CACHE", CACHE)))
    with NpmRegistry(upstream) as running:
        yield running
        upstream.give_up()


@pytest.fixture
def index() -> Iterator[LoopbackIndex]:
    """A Python index that knows what the test publishes, and nothing else."""
    with LoopbackIndex() as running:
        yield running


@pytest.fixture
def refused_url() -> Iterator[str]:
    """An address on loopback where every connection is refused."""
    with RefusedPort() as url:
        yield url


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[LoopbackForge]:
    """A git forge that serves what the test puts into it."""
    with LoopbackForge(tmp_path / "forge") as running:
        yield running


@pytest.fixture
def review_request(tmp_path: Path) -> ReviewRequest:
    """Run one review by the command: a request and settings in, how it ended out."""

    def run(request: Mapping[str, Any], environment: Mapping[str, str]) -> Reviewed:
        return review(request, environment, tmp_path)

    return run
