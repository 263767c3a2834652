"""What a client gets of a host's results and refusals, as its era has them.

Invariant: a failure that is no refusal of ours goes on as it is, for the middleware (`streams.guard`) to hide.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
import contextlib
from collections.abc import Iterator
from typing import Final

from mcp.shared.exceptions import MCPError

from fumehood.core import limits
from fumehood.core.errors import BusyError, FumehoodError, HarnessError
from fumehood.core.jsonio import JsonObject
from fumehood.wire.hosting import HostError
from fumehood.wire.sdk import streams
from fumehood.wire.sdk.streams import Context

LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
REFUSED: Final = -32000  # the first of the codes that JSON-RPC leaves to servers


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Refusals as the protocol has them."""
    try:
        yield
    except HostError as error:
        raise MCPError(code=error.number, message=str(error)) from None
    except HarnessError:
        raise
    except FumehoodError as error:
        raise MCPError(code=REFUSED, message=str(error)) from None


def busy(ctx: Context, error: BusyError) -> JsonObject:
    """A call is refused with a result, which a model sees; anything else with an error."""
    if ctx.method != "tools/call":
        raise MCPError(code=REFUSED, message=str(error))
    said: JsonObject = {"error": error.code, "message": error.message, "remedy": error.remedy}
    content: JsonObject = {"type": "text", "text": str(error)}
    return streams.complete(ctx, {"content": [content], "structuredContent": said, "isError": True})


def stamped(ctx: Context, result: JsonObject) -> JsonObject:
    """A host's result as its era has it."""
    private = result.get("private") is True
    own = {name: value for name, value in result.items() if name != "private"} if private else result
    if not streams.is_modern(ctx):
        return own
    if ctx.method in LISTS:
        own = {**own, "ttlMs": limits.HOST_TTL_MILLISECONDS, "cacheScope": "private" if private else "public"}
    elif ctx.method == "resources/read":  # a host does not say when a content changes
        own = {**own, "ttlMs": 0, "cacheScope": "private"}
    return streams.complete(ctx, own)
