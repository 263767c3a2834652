"""A served folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fumehood.core.budget import Budget
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.workspace import Workspace
from served.plainly import Served, plain_context


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Make a context over a new folder, with settings and a budget."""
    root = tmp_path / "served"
    root.mkdir()
    with Workspace.open(root) as workspace:

        def make(settings: WorkspaceSettings | None = None, budget: Budget | None = None) -> Served:
            return plain_context(workspace, root, settings, budget)

        yield make


@pytest.fixture
def here(serve: Callable[..., Served]) -> Served:
    """One with the settings of an installation."""
    return serve()
