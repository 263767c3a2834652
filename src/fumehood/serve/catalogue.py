"""The published tools, in the order in which a client sees them."""

from fumehood.serve.tool import Tool

TOOLS: tuple[Tool, ...] = ()
