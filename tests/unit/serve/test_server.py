"""serve.server: what of the settings reaches the transport."""

import pytest

from fumehood.core.sections import Settings, WorkspaceSettings
from fumehood.serve import server
from fumehood.wire.admission import Bounds


@pytest.mark.threat("T8")
def test_the_bounds_of_calls_are_those_of_the_settings() -> None:
    lower = Settings(workspace=WorkspaceSettings(running=2, queued=3, calls_a_minute=4))
    assert server.bounds(lower) == Bounds(running=2, queued=3, calls_a_minute=4)
    assert server.bounds(Settings()) == Bounds()
