"""The SDK's own client against a host of ours: both eras, over a pipe to a real process and over real HTTP."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from loopback.hosting import SECONDS, Hosting, hosting, until
from loopback.hosts import COMMAND, NAMES

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])
ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@asynccontextmanager
async def connected(transport: str, mode: str, said: Path | None = None, **client: Any) -> AsyncIterator[Client]:
    """A client with its server; `said` gets the server's stderr, where it is a process."""
    async with contextlib.AsyncExitStack() as stack:
        server: Any
        if transport == "http":
            server = (await stack.enter_async_context(hosting())).url
        else:
            errors = stack.enter_context((said or Path(os.devnull)).open("w", encoding="utf-8"))
            given = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=dict(os.environ))
            server = stdio_client(given, errlog=errors)
        made: Any = Client(server, mode=mode, read_timeout_seconds=SECONDS, cache=None, **client)
        yield await stack.enter_async_context(made)


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), SECONDS))


def asked(action: str, content: dict[str, Any] | None = None) -> Any:
    async def elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message.startswith("Really")
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]  # one of three words

    return elicit


def structured(result: Any) -> Any:
    assert isinstance(result, types.CallToolResult)
    return result.structured_content


@TRANSPORTS
@ERAS
def test_everything_of_a_host_is_reached(transport: str, mode: str) -> None:
    async def work() -> None:
        async with connected(transport, mode) as client:
            tools: list[str] = []
            cursor, pages = None, 0
            while pages == 0 or cursor:
                page = await client.list_tools(cursor=cursor)
                tools, cursor, pages = [*tools, *(tool.name for tool in page.tools)], page.next_cursor, pages + 1
            assert tools == [*NAMES, *(f"tool_{number:02}" for number in range(15))]
            assert pages == 3
            assert structured(await client.call_tool("echo", {"text": "é\u2028", "more": [1, None]})) == {
                "text": "é\u2028",
                "more": [1, None],
            }
            assert (await client.list_prompts()).prompts[0].name == "greet"
            prompt = await client.get_prompt("greet", {"whom": "Ada"})
            assert prompt.messages[0].content.text == "Greet Ada"  # type: ignore[union-attr]  # a text
            assert (await client.list_resources()).resources[0].uri == "test://one"
            assert (await client.list_resource_templates()).resource_templates[0].uri_template == "test://{name}"
            read = await client.read_resource("test://one")
            assert read.contents[0].text == "content"  # type: ignore[union-attr]  # a text
            reference = types.PromptReference(name="greet")
            completed = await client.complete(reference, {"name": "whom", "value": "o"})
            assert completed.completion.values == ["one", "two"]
            assert client.instructions == ("Use it well." if mode == "legacy" else None)
            for method in (lambda: client.call_tool("none", {}), lambda: client.list_tools(cursor="x")):
                with pytest.raises(MCPError) as refused:
                    await method()
                assert refused.value.error.code == -32602

    run(work)


@TRANSPORTS
@ERAS
def test_progress_arrives_in_order_and_before_the_answer(transport: str, mode: str) -> None:
    async def work() -> None:
        reports: list[Any] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total, message))

        async with connected(transport, mode) as client:
            await client.call_tool("report", {"times": 5}, progress_callback=report)
            assert reports == [(float(n), 100.0, f"step {n}") for n in range(1, 6)]

    run(work)


@TRANSPORTS
@ERAS
@pytest.mark.parametrize(
    ("action", "content", "found"),
    [
        ("accept", {"sure": True, "why": "so"}, {"verdict": "accept", "sure": True, "why": "so"}),
        ("decline", None, {"verdict": "decline"}),
        ("cancel", None, {"verdict": "cancel"}),
    ],
)
def test_a_person_is_asked_and_what_they_say_arrives(
    transport: str, mode: str, action: str, content: Any, found: Any
) -> None:
    async def work() -> None:
        async with connected(transport, mode, elicitation_callback=asked(action, content)) as client:
            assert structured(await client.call_tool("ask", {})) == found
            both = structured(await client.call_tool("ask_twice", {}))
            assert [one["structuredContent"] for one in both.values()] == [found, found]

    run(work)


@TRANSPORTS
@ERAS
def test_a_client_that_cannot_be_asked_is_not(transport: str, mode: str) -> None:
    async def work() -> None:
        async with connected(transport, mode) as client:
            assert structured(await client.call_tool("ask", {})) == {"verdict": "none"}

    run(work)


@TRANSPORTS
@ERAS
@pytest.mark.threat("G15")
def test_a_call_that_its_client_gives_up_is_cancelled(transport: str, mode: str, tmp_path: Path) -> None:
    async def work() -> None:
        said = tmp_path / "said"
        async with connected(transport, mode, said) as client:
            calling = asyncio.create_task(client.call_tool("wait", {}))
            await asyncio.sleep(0.3)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            assert structured(await client.call_tool("echo", {"text": "on"})) == {"text": "on"}
            if transport == "stdio":
                await until(lambda: "cancelled" in said.read_text())

    run(work)


@TRANSPORTS
def test_a_legacy_client_is_told_that_a_list_changed(transport: str) -> None:
    async def work() -> None:
        told: asyncio.Queue[Any] = asyncio.Queue()

        async def heard(message: Any) -> None:
            await told.put(message)

        async with connected(transport, "legacy", message_handler=heard) as client:
            await asyncio.sleep(0.2)  # the client opens its stream of HTTP beside its first requests
            await client.call_tool("change", {"what": "prompts"})
            message = await told.get()
            assert isinstance(message, types.PromptListChangedNotification)

    run(work)


@TRANSPORTS
def test_a_modern_client_that_listens_is_told_that_a_list_changed(transport: str) -> None:
    async def work() -> None:
        async with connected(transport, "2026-07-28") as client, client.listen(tools_list_changed=True) as stream:
            await client.call_tool("change", {"what": "prompts"})
            await client.call_tool("change", {"what": "tools"})
            async for event in stream:
                assert type(event).__name__ == "ToolsListChanged"
                break

    run(work)


@ERAS
def test_two_clients_at_once_share_nothing(mode: str) -> None:
    async def work() -> None:
        async with hosting() as up, both(up, mode) as (one, other):
            texts = [f"{number}" for number in range(20)]
            found = await asyncio.gather(
                *(one.call_tool("echo", {"text": f"one {text}"}) for text in texts),
                *(other.call_tool("echo", {"text": f"other {text}"}) for text in texts),
            )
            assert [structured(result)["text"] for result in found] == [
                f"{who} {text}" for who in ("one", "other") for text in texts
            ]
            if mode == "legacy":
                assert len(up.host.calls) == 2

    run(work)


@asynccontextmanager
async def both(up: Hosting, mode: str) -> AsyncIterator[tuple[Client, Client]]:
    kind: Any = mode
    async with Client(up.url, mode=kind) as one, Client(up.url, mode=kind) as other:
        yield one, other
