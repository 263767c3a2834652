"""The published tools, in the order in which a client sees them."""

from fumehood.serve.tool import Tool
from fumehood.serve.tools.find_files import TOOL as FIND_FILES
from fumehood.serve.tools.find_symbol import TOOL as FIND_SYMBOL
from fumehood.serve.tools.git_diff import TOOL as GIT_DIFF
from fumehood.serve.tools.git_log import TOOL as GIT_LOG
from fumehood.serve.tools.list_directory import TOOL as LIST_DIRECTORY
from fumehood.serve.tools.project_overview import TOOL as PROJECT_OVERVIEW
from fumehood.serve.tools.read_file import TOOL as READ_FILE
from fumehood.serve.tools.search_code import TOOL as SEARCH_CODE

TOOLS: tuple[Tool, ...] = (
    PROJECT_OVERVIEW,
    LIST_DIRECTORY,
    READ_FILE,
    SEARCH_CODE,
    FIND_FILES,
    FIND_SYMBOL,
    GIT_LOG,
    GIT_DIFF,
)
