"""The published tools, and what every result carries besides what its tool found."""

from fumehood.serve.tool import Tool

TOOLS: tuple[Tool, ...] = ()
