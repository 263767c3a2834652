"""A workspace, and tools that are asked about it: bare, and through the service with every control."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fumehood.content import credentialfiles
from fumehood.content.control import Controls
from fumehood.core.budget import Budget
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve import registry
from fumehood.serve.access import Access
from fumehood.serve.context import Context, Programs, Symbols
from fumehood.serve.service import Service
from fumehood.serve.tool import Tool
from fumehood.wire import schema
from fumehood.wire.published import LOCAL


class Asking:
    """One served folder. `settings` may be replaced before the first question."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = WorkspaceSettings()

    def context(self, access: Access) -> Context:
        nobody = SimpleNamespace()
        return Context(
            access=access,
            settings=self.settings,
            budget=Budget(),
            programs=cast("Programs", nobody),
            symbols=cast("Symbols", nobody),
        )

    def lines(self, tool: Tool, **arguments: Any) -> list[str]:
        """What a tool hands to the controls, by line."""
        return self.answer(tool, **arguments)[0]

    def facts(self, tool: Tool, **arguments: Any) -> dict[str, Any]:
        return self.answer(tool, **arguments)[1]

    def answer(self, tool: Tool, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
        assert schema.problems(tool.input_schema, arguments) == []
        with Access.opened(self.root, self.settings, credentialfiles.denies) as access:
            found = tool.run(arguments, self.context(access))
        text = b"".join(passage.text.reveal() for passage in found.passages).decode("utf-8")
        assert text == "" or text.endswith("\n")
        return text.split("\n")[:-1], dict(found.facts)

    def result(self, tool: Tool, **arguments: Any) -> dict[str, Any]:
        """What a client gets."""
        with Access.opened(self.root, self.settings, credentialfiles.denies) as access:
            service = Service(
                tools=(tool,),
                context=lambda _: self.context(access),
                controls=Controls(key=b"k" * 32),
                version="0",
            )
            result = service.call(tool.name, arguments, Budget(), LOCAL)
        assert schema.problems(registry.output_schema(tool), result["structuredContent"]) == []
        return cast("dict[str, Any]", result)


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """An empty workspace; what lies beside it is outside."""
    root = tmp_path / "ws"
    root.mkdir()
    return root


@pytest.fixture
def asking(ground: Path) -> Asking:
    return Asking(ground)
