"""The SDK's own client, which validates every result against the tool's output schema, takes all that serve says."""

import asyncio
import os
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from served import world
from served.talk import FUMEHOOD

CALLS: list[tuple[str, dict[str, Any], str | None]] = [
    ("list_directory", {}, None),
    ("list_directory", {"path": "src", "include_hidden": True}, None),
    ("read_file", {"path": "src/main.py"}, None),
    ("read_file", {"path": "../x"}, "outside_workspace"),
    ("read_file", {"path": ".git/config"}, "denied_path"),
    ("read_file", {"path": "nothing.txt"}, "not_found"),
    ("read_file", {"path": "src"}, "not_a_file"),
    ("read_file", {"path": "hard.txt"}, "hard_link"),
    ("read_file", {}, "invalid_arguments"),
    ("search_code", {"pattern": "def", "context_lines": 2}, None),
    ("search_code", {"pattern": "(?=x)", "regex": True}, "bad_pattern"),
    ("search_code", {"pattern": "nowhere at all"}, None),
    ("find_files", {"glob": "*.py"}, None),
    ("find_files", {"glob": "*.py", "cursor": "AAAA"}, "bad_cursor"),
    ("git_log", {}, None),
    ("git_log", {"revision": "no-such-branch"}, "git_failed"),
    ("git_diff", {}, None),
    ("git_diff", {"stat_only": True}, None),
]


async def results(root: Path, nowhere: TextIO, *, modern: bool) -> dict[str, Any]:
    """The answer to each call, through the SDK's client, and the names of the tools."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    server = StdioServerParameters(command=FUMEHOOD, args=["serve", "--workspace", str(root)], env=environment)
    async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
        await (session.discover() if modern else session.initialize())
        found: dict[str, Any] = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
        for number, (tool, arguments, _) in enumerate(CALLS):
            found[str(number)] = await session.call_tool(tool, arguments)
        return found


@pytest.mark.sandbox
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
def test_a_strict_client_takes_every_result_and_every_refusal(tmp_path: Path, modern: bool) -> None:
    root = world.make(tmp_path).root
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        found = asyncio.run(results(root, nowhere, modern=modern))
    for number, (tool, arguments, error) in enumerate(CALLS):
        result = found[str(number)]
        assert bool(result.is_error) == (error is not None), (tool, arguments, result.content[0].text)
        assert (result.structured_content or {}).get("error") == error, (tool, arguments)
        if error is not None:
            assert result.structured_content["remedy"], (tool, arguments)
    assert {tool for tool, _, _ in CALLS} <= set(found["tools"])
