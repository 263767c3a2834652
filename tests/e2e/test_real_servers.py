"""Real servers from the operator's registry, fetched once and served from loopback, under no network of their own."""

from urllib.parse import urlsplit

import pytest

from e2e.bench import Bench, Reviewed
from loopback.fixtures import NpmRegistry

pytestmark = [pytest.mark.sandbox, pytest.mark.registry]
OFFICIAL = "2026.8.31"
LONG = pytest.mark.long


@pytest.fixture
def shop(bench: Bench, npm_registry: NpmRegistry) -> Bench:
    """A bench whose registry is the caching one."""
    bench.outer.names["registry.example"] = ["10.0.0.5"]
    bench.outer.port = urlsplit(npm_registry.url).port or 0
    bench.registry = "http://registry.example/"
    return bench


def inspected(review: Reviewed) -> None:
    """Every sensor worked in every phase, and nothing but the registry was reached."""
    assert {c["state"] for c in review.result["collectors"]} == {"active"}
    relayed = {d["name"] for d in review.details("network.connect", None, "egress") if d["decision"] == "relayed"}
    assert relayed == {"registry.example"}
    for phase in ("INSTALL", "EXERCISE"):
        assert not [d for d in review.details("network.connect", phase, "egress") if d["decision"] == "relayed"]


@pytest.mark.parametrize(
    ("name", "version", "changes"),
    [
        ("@modelcontextprotocol/server-memory", OFFICIAL, {}),
        pytest.param("@modelcontextprotocol/server-sequential-thinking", OFFICIAL, {}, marks=LONG),
        pytest.param("@modelcontextprotocol/server-everything", OFFICIAL, {}, marks=LONG),
        pytest.param("@modelcontextprotocol/server-filesystem", OFFICIAL, {"argv": ["{workspace}"]}, marks=LONG),
        pytest.param("@upstash/context7-mcp", "4.1.1", {}, marks=LONG),
        pytest.param("mcp-server-kubernetes", "4.1.7", {}, marks=LONG),
    ],
)
def test_a_real_server_is_reviewed_to_its_end(
    shop: Bench, npm_registry: NpmRegistry, name: str, version: str, changes: dict[str, object]
) -> None:
    npm_registry.need(f"{name}@{version}")
    review = shop.npm(name, version, **changes)
    assert npm_registry.unreachable == []
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert review.details("protocol.fact")[0]["fact"] == "initialized"
    assert review.result["provenance"]["version"] == version
    inspected(review)


@pytest.mark.long
def test_a_server_that_wants_a_token_ends_with_its_status(shop: Bench, npm_registry: NpmRegistry) -> None:
    name, version = "@sentry/mcp-server", "0.39.0"
    npm_registry.need(f"{name}@{version}")
    review = shop.npm(name, version)
    assert npm_registry.unreachable == []
    assert review.ended == ("TARGET_FAILED", "exited")
    assert "status 1" in review.message
    inspected(review)
