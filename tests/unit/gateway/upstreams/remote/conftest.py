"""What reaches servers on loopback (`loopback.remotes`)."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from loopback.remotes import Reached, Sdk

T = TypeVar("T")


@pytest.fixture
def reach(tmp_path: Path) -> Callable[[], Reached]:
    """Made inside of the loop."""
    return lambda: Reached(tmp_path)


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Run a coroutine with a deadline that no healthy test comes near."""

    def runs(coroutine: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(60):
                return await coroutine

        return asyncio.run(bounded())

    return runs


@pytest.fixture(
    scope="module", params=["modern json", "modern sse", "legacy json", "legacy sse", "legacy stateless sse"]
)
def sdk(request: pytest.FixtureRequest) -> Iterator[Sdk]:
    """One for each way of answering."""
    kind: str = request.param
    with Sdk(json_response="json" in kind, stateless="less" in kind, legacy_only="legacy" in kind) as served:
        served.kind = kind
        yield served
