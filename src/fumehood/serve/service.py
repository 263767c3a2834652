"""One workspace as a published server: a call in, a result out.

Invariants: nothing of the workspace reaches a result but through `content.control`; a refusal is a result, names the
path as it was asked for, and never holds a traceback; what is none of our errors is not caught here, it is the rim's;
every result, a refusal too, names the settings that weaken a control. Arguments are checked against their schema
before they come here (`wire.guarded`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fumehood.content import control, fencing, taint
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError, HarnessError, TooLargeError, UnknownToolError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.serve import registry
from fumehood.serve.context import Context
from fumehood.serve.tool import Tool
from fumehood.wire.published import Caller

_LOG = logging.getLogger(__name__)
_ESCAPED_BYTES = 6  # of one character in JSON: `\u001b`
_REMEDY = "try it once more; the log of the server says what happened"
_INSTRUCTIONS = "Read one folder: list, read, search, find symbols, look at its history. Nothing can be changed. "


@dataclass(frozen=True, kw_only=True)
class Service:
    """The tools over one workspace; it implements `wire.published.Published`."""

    tools: Sequence[Tool]
    context: Callable[[Budget], Context]  # everything of one call
    controls: Controls
    version: str
    standing: Mapping[str, JsonValue] = field(default_factory=dict)  # walls and weakened settings
    weakened: tuple[str, ...] = ()  # settings in force that weaken a control, for every result
    logs_arguments: bool = False
    name: str = "fumehood"
    title: str = "fumehood workspace"
    _by_name: Mapping[str, Tool] = field(init=False)

    def __post_init__(self) -> None:
        """Refuse tools that are not fit to be published."""
        object.__setattr__(self, "_by_name", registry.published(self.tools))

    @property
    def instructions(self) -> str:
        """What the tools are for, and what the fence around content means."""
        return _INSTRUCTIONS + fencing.MEANING

    def definitions(self) -> list[JsonObject]:
        """The published tools, in their fixed order."""
        return [registry.definition(tool) for tool in self.tools]

    def call(self, name: str, arguments: JsonObject, budget: Budget, caller: Caller) -> JsonObject:
        """The result of a call as MCP's CallToolResult. `UnknownToolError` when there is no such tool."""
        del caller  # every caller sees the same workspace
        tool = self._by_name.get(name)
        if tool is None:
            raise UnknownToolError("no such tool", remedy=f"the tools are {', '.join(self._by_name)}")
        try:
            result = self._result(control.present(tool.run(arguments, self.context(budget)), self.controls))
        except FumehoodError as error:
            if isinstance(error, HarnessError):  # ours: its cause is for the log, the refusal says only that it is so
                _LOG.error("a call failed by our own fault", exc_info=error)
            self._log(name, arguments, error.code)
            return self.refused(error)
        self._log(name, arguments, "answered")
        return result

    def refused(self, error: FumehoodError) -> JsonObject:
        """An error as a result that fits every output schema; its words pass the controls as all content does."""
        shown, remedy = control.present_error(error.message, self.controls), error.remedy or _REMEDY
        text = f"{error.code}: {shown.message}\nnext step: {remedy}"
        facts: JsonObject = {"error": error.code, "message": shown.message, "remedy": remedy}
        facts |= {"redaction": shown.redaction, **self._weakened()}
        return {"content": [{"type": "text", "text": text}], "structuredContent": facts, "isError": True}

    def discover(self) -> JsonObject:
        """Which walls stand around this process, and which settings weaken a control."""
        return dict(self.standing)

    def _result(self, presented: control.Presented) -> JsonObject:
        if len(presented.text) > limits.ENVELOPE_BYTES // _ESCAPED_BYTES:
            raise TooLargeError("the answer is too large for one reply", remedy="ask for less")
        return {
            "content": [{"type": "text", "text": presented.text}],
            "structuredContent": {**presented.facts, **presented.report, **self._weakened()},
            "isError": False,
            "_meta": {taint.MEMBER: taint.of(presented.report)},
        }

    def _weakened(self) -> JsonObject:
        return {"weakened": [*self.weakened]} if self.weakened else {}

    def _log(self, name: str, arguments: JsonObject, outcome: str) -> None:
        """One event for each call; its arguments are private names, and written only where the operator wants them."""
        given = {"arguments": arguments} if self.logs_arguments else {}
        _LOG.info("call", extra={"tool": name, "outcome": outcome, **given})
