"""The published schemas: current, the same in both places, and schemas of draft 2020-12."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import jsonschema_rs
import pytest

from fumehood.wire import schema as wire_schema

ROOT = Path(__file__).parents[3]
NAMES = ("code-job", "code-messages", "code-result", "gateway", "review-diff", "review-request", "review-result")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas_script", ROOT / "scripts/schemas.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_is_what_the_structs_say(script: ModuleType, name: str) -> None:
    for path in script.places(name):
        assert path.read_bytes() == script.text(name), "run .venv/bin/python scripts/schemas.py"


@pytest.mark.parametrize("name", [*NAMES, "doctor"])
def test_a_published_schema_is_one_of_its_dialect(name: str) -> None:
    text = (ROOT / f"docs/reference/{name}.schema.json").read_text(encoding="utf-8")
    assert jsonschema_rs.meta.is_valid(json.loads(text))
    assert not jsonschema_rs.meta.is_valid({**json.loads(text), "type": "thing"})


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_names_its_dialect_and_no_host(name: str) -> None:
    text = (ROOT / f"docs/reference/{name}.schema.json").read_text(encoding="utf-8")
    value = json.loads(text)
    assert value["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert value["$id"].startswith("urn:")
    assert text.count("://") == 1


def test_the_request_schema_takes_both_versions_and_nothing_else() -> None:
    schema = json.loads((ROOT / "docs/reference/review-request.schema.json").read_text(encoding="utf-8"))
    base = {
        "target": {"kind": "git", "repository": "o/r", "ref": "0" * 40},
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "OPEN",
        "credentials": "NONE",
        "question": "?",
        "entrypoint": "a.js",
        "evidence": ["process"],
        "timeout_seconds": 5,
    }
    for version in (1, 2):
        assert list(wire_schema.problems(schema, {"schema_version": version, **base})) == []
        assert list(wire_schema.problems(schema, {"schema_version": version, "command": "id", **base})) != []
