"""docs/reference names every field, value and type that the Structs have."""

from pathlib import Path

import msgspec
import pytest

from fumehood.observe.model import Kind
from fumehood.review import request, result

REFERENCE = Path(__file__).parents[3] / "docs/reference"


@pytest.mark.parametrize("kind", Kind)
def test_each_type_of_observation_is_described(kind: Kind) -> None:
    assert f"`{kind.value}`" in (REFERENCE / "result.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", [f.name for f in msgspec.structs.fields(result.ReviewResult)])
def test_each_part_of_a_result_is_described(field: str) -> None:
    assert f"| `{field}` |" in (REFERENCE / "result.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", [1, 2])
def test_each_field_of_a_request_is_described(version: int) -> None:
    text = (REFERENCE / "request.md").read_text(encoding="utf-8")
    assert [name for name in request.schema_of(version)["properties"] if f"`{name}`" not in text] == []


def test_what_is_not_built_is_said_to_be_not_built() -> None:
    text = (REFERENCE / "request.md").read_text(encoding="utf-8").partition("Not built yet")[2]
    for word in ("pypi", "python_stdio", "mcp_list", "mcp_call", "SINKHOLE", "modern", "both", "canaries", "repeat"):
        assert f"`{word}`" in text


def test_the_request_of_the_page_is_accepted() -> None:
    block = (REFERENCE / "request.md").read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    assert request.parse(block.encode()).schema_version == 1
