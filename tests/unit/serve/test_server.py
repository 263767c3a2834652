"""serve.server: what of the settings reaches a transport, and what status its end has."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fumehood.core.sections import HttpSettings, Settings, WorkspaceSettings
from fumehood.serve import server, walls
from fumehood.wire import descriptors, listener
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.exposure import ExposureError
from fumehood.wire.sdk import tools
from fumehood.wire.server_stdio import Ended

LOWER = Settings(
    workspace=WorkspaceSettings(running=2, queued=3, calls_a_minute=4, call_seconds=0.5), http=HttpSettings(port=0)
)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a transport was given; this process keeps its rights and its standard streams."""
    given: list[Any] = []
    monkeypatch.setattr(
        walls, "stand", lambda root, settings, *, http: walls.foresee(walls.ruleset(root, settings, http=http))
    )
    monkeypatch.setattr(descriptors, "claim", lambda: "the wire")
    made = tools.Handlers

    def handlers(**fields: Any) -> tools.Handlers:
        given.append(fields)
        return made(**fields)

    monkeypatch.setattr(tools, "Handlers", handlers)
    yield given
    for fields in given:
        del fields["guarded"]


@pytest.mark.threat("T8")
def test_the_bounds_of_calls_are_those_of_the_settings() -> None:
    assert server.bounds(LOWER) == Bounds(running=2, queued=3, calls_a_minute=4)
    assert server.bounds(Settings()) == Bounds()


@pytest.mark.sandbox
@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    ("ended", "status"), [(Ended.STALLED, 1), (Ended.EXHAUSTED, 4), (Ended.INTERRUPTED, 130), (None, 0)]
)
def test_over_stdio_a_call_has_the_bounds_of_the_settings(
    served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: Ended | None, status: int
) -> None:
    plain = next(one for one in Ended if one not in {Ended.STALLED, Ended.EXHAUSTED, Ended.INTERRUPTED})
    monkeypatch.setattr(tools, "serve_stdio", lambda _handlers, _wire: ended or plain)
    assert server.over_stdio(LOWER, tmp_path) == status
    (fields,) = served
    assert (fields["bounds"], fields["call_seconds"]) == (server.bounds(LOWER), 0.5)


@pytest.mark.sandbox
@pytest.mark.threat("T8")
@pytest.mark.parametrize(("ended", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_over_http_a_call_has_the_bounds_of_the_settings(
    served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int, status: int
) -> None:
    seen: list[Bounds] = []

    def run(_door: object, what: listener.Served) -> int:
        assert what.ready()
        assert isinstance(what.rates, Admission)
        seen.append(what.rates.bounds)
        return ended

    monkeypatch.setattr(listener, "run", run)
    assert server.over_http(LOWER, tmp_path) == status
    (fields,) = served
    assert (fields["bounds"], fields["call_seconds"]) == (server.bounds(LOWER), 0.5)
    assert seen == [server.bounds(LOWER)]


@pytest.mark.threat("T9")
@pytest.mark.parametrize("name", ["token_file", "oauth_keys_file", "tls_certificate", "tls_key", "unix_socket"])
def test_nothing_that_decides_who_enters_lies_in_the_workspace(tmp_path: Path, name: str) -> None:
    http = msgspec.convert({name: str(tmp_path / "x")}, HttpSettings)
    with pytest.raises(ExposureError, match="lies in the workspace"):
        server.over_http(Settings(http=http), tmp_path)
