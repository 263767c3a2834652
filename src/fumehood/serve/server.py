"""Serve a workspace until its client is gone, over standard input and output or over HTTP.

The wire is taken before anything else could print on it; the SDK is imported before the walls stand; the walls stand
before the first thread and the first request.
"""

import contextlib
import logging
import os
import signal
from functools import partial
from pathlib import Path

from fumehood.core.sections import Settings
from fumehood.serve.opening import Opening, opened
from fumehood.serve.records import Records
from fumehood.wire import descriptors
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.exposure import ExposureError
from fumehood.wire.server_stdio import Ended

_LOG = logging.getLogger(__name__)
_INTERRUPTED = 130
_STATUS = {Ended.INTERRUPTED: _INTERRUPTED, Ended.STALLED: 1, Ended.EXHAUSTED: 4}


def over_stdio(settings: Settings, folder: Path, records: Records | None = None) -> int:
    """Serve the one client of standard input and output; the exit status says why it ended."""
    wire = descriptors.claim()
    with opened(settings, folder) as opening:
        from fumehood.serve import recording  # noqa: PLC0415 - a second to import, while the starter puts up its walls
        from fumehood.wire.sdk import tools  # noqa: PLC0415 - as above

        seconds = settings.workspace.call_seconds
        guarded = recording.guarded(opening.stand, records)
        handlers = tools.Handlers(guarded=guarded, bounds=bounds(settings), call_seconds=seconds)
        ended = tools.serve_stdio(handlers, wire)
    _LOG.info("ended: %s", ended.value)
    return _STATUS.get(ended, 0)


def over_http(settings: Settings, folder: Path, records: Records | None = None) -> int:
    """Serve over HTTP until a signal; what is in flight is finished then. Errors: those of `wire.opening` besides."""
    from fumehood.serve import recording  # noqa: PLC0415 - a second to import
    from fumehood.wire import listener, opening  # noqa: PLC0415 - as above, and not for stdio
    from fumehood.wire.sdk import streams, tools  # noqa: PLC0415 - as above

    _outside(settings, folder)
    door = opening.open_listener(settings.http, production=settings.environment == "production")
    with (
        contextlib.closing(door),
        opened(settings, folder, http=True, authenticated=bool(door.authenticators)) as ground,
    ):
        seconds = settings.workspace.call_seconds
        guarded = recording.guarded(ground.stand, records)
        handlers = tools.Handlers(guarded=guarded, bounds=bounds(settings), call_seconds=seconds)
        app = streams.http_app(tools.build(handlers))
        try:
            ready = partial(_is_ready, ground, records)
            ended = listener.run(door, listener.Served(app=app, rates=Admission(bounds(settings)), ready=ready))
        finally:
            tools.leave(handlers)
    _LOG.info("ended by signal %d", ended)
    return _INTERRUPTED if ended == signal.SIGINT else 0


def _is_ready(ground: Opening, records: Records | None) -> bool:
    return ground.is_ready() and (records is None or records.is_alive)


def _outside(settings: Settings, folder: Path) -> None:
    """What decides who may enter does not lie in the workspace: whoever may write there would decide it."""
    http = settings.http
    named = (http.token_file, http.oauth_keys_file, http.tls_certificate, http.tls_key, http.unix_socket)
    if any(Path(os.path.realpath(one)).is_relative_to(os.path.realpath(folder)) for one in named if one):
        raise ExposureError("a file of http lies in the workspace", remedy="keep it in a folder of its own elsewhere")


def bounds(settings: Settings) -> Bounds:
    """How many calls of one client run, wait, and begin in a minute."""
    workspace = settings.workspace
    return Bounds(running=workspace.running, queued=workspace.queued, calls_a_minute=workspace.calls_a_minute)
