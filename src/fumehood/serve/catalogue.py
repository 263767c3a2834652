"""The published tools, in the order in which a client sees them."""

from fumehood.serve.tool import Tool
from fumehood.serve.tools.git_diff import TOOL as GIT_DIFF
from fumehood.serve.tools.git_log import TOOL as GIT_LOG

TOOLS: tuple[Tool, ...] = (GIT_LOG, GIT_DIFF)
