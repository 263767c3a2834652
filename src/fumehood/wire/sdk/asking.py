"""How the client of a request is asked something, in either era (elicitation in form mode).

Invariants: only a client that says it shows forms is asked, and only where the protocol lets a request ask back; an
answer counts where it fits the question (`wire.questions`); a client that does not answer within ASK_SECONDS, refuses
or leaves is `CannotAskError`.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import mcp_types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from fumehood.core import limits
from fumehood.wire import questions
from fumehood.wire.hosting import CannotAskError, Question, Reply
from fumehood.wire.sdk import streams
from fumehood.wire.sdk.streams import Context
from fumehood.wire.turns import Turns

_ASKING: Final = ("tools/call", "prompts/get", "resources/read")  # those that the modern era lets ask back


def way(ctx: Context, turns: Turns) -> Callable[[Question], Awaitable[Reply]] | None:
    """How the client of a request can be asked; None where it cannot."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if ctx.method not in _ASKING or elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return None
    if streams.is_modern(ctx):
        return turns.ask
    return partial(_ask_client, ctx) if ctx.session.can_send_request else None


async def _ask_client(ctx: Context, question: Question) -> Reply:
    """Ask with a request of ours, beside the answer that the client waits for."""
    form = mcp_types.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        result = await ctx.session.send_request(
            mcp_types.ElicitRequest(params=form), mcp_types.ElicitResult, limits.ASK_SECONDS, related
        )
    except (MCPError, ValidationError):  # it refused, left, took too long, or said something else
        raise CannotAskError("the client did not answer the question") from None
    return questions.reply(question, result.model_dump(mode="json"))
