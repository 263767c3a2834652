"""What a bridge and a link have in common: one request to the backend, and the end of those under way."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, assert_never

from fumehood.code.backend import ToolBackend
from fumehood.code.requests import Describe, Request, RunTool, Search
from fumehood.core import limits
from fumehood.core.jsonio import JsonValue

_LOG: Final = logging.getLogger(__name__)


async def ask(backend: ToolBackend, request: Request) -> JsonValue:
    """The backend's answer. Raises whatever the backend does."""
    match request:
        case Search(query=query, limit=limit):
            return await backend.search(query, limit)
        case Describe(names=names):
            return await backend.describe(names)
        case RunTool(name=name, arguments=arguments):
            return await backend.run(name, arguments)
        case _:
            assert_never(request)


async def end(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Cancel what still runs, and wait a bounded time for it; one that does not end is left, and logged."""
    for task in tasks:
        task.cancel()
    _, late = await asyncio.wait(tasks, timeout=limits.CODE_CANCEL_SECONDS)
    if late:
        _LOG.warning("a tool did not end when it was cancelled", extra={"tools": len(late)})
