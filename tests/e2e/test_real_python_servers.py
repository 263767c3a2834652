"""Real servers from the operator's Python index, of exact versions as of a day, under no network of their own."""

import os
from collections.abc import Mapping
from typing import Any

import pytest

from fumehood.core.sections import Settings
from fumehood.review.python import sources
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.programs import indexpage
from loopback.fixtures import without_registry
from loopback.reviewed import ReviewRequest

pytestmark = [pytest.mark.sandbox, pytest.mark.registry, pytest.mark.long]
LATELY = "2026-11-15"


@pytest.fixture
def index_environment(review_host: HostFacts) -> Mapping[str, str]:
    """Settings that name the operator's index, and the hosts of its files, which may have private addresses there."""
    index = sources.index(Settings(), review_host, os.environ)
    try:
        files, _, address = indexpage.page(index.named, "mcp-server-time")
    except OSError as error:
        without_registry(f"the Python index did not answer: {type(error).__name__}")
    named = {tuple(indexpage.described(file, address, index.named)["origin"]) for file in files}
    hosts = ",".join(f"{scheme}://{host}:{port}" for scheme, host, port in sorted(named))
    return {"FUMEHOOD_REVIEW__INDEX": index.named, "FUMEHOOD_REVIEW__INDEX_FILES": hosts}


def request(name: str, version: str, as_of: str) -> dict[str, Any]:
    return {
        "schema_version": 2,
        "target": {"kind": "pypi", "name": name, "version": version, "as_of": as_of},
        "adapter": "python_stdio",
        "action_profile": "mcp_list",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": "What does it do on start?",
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": 60,
    }


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("mcp-server-time", "2026.10.19"),
        ("mcp-server-git", "2026.10.19"),
        ("mcp-server-fetch", "2026.10.24"),
        ("duckduckgo-mcp-server", "0.7.0"),
    ],
)
def test_a_real_python_server_is_reviewed_to_its_end(
    review_request: ReviewRequest, index_environment: Mapping[str, str], name: str, version: str
) -> None:
    reviewed = review_request(request(name, version, LATELY), index_environment)
    assert (reviewed.state, reviewed.code) == ("COMPLETED", ""), reviewed.result["errors"]
    provenance = reviewed.result["provenance"]
    assert provenance["integrity"].startswith("sha256:")
    assert provenance["distribution"]["console_scripts"] == [name]
    assert reviewed.result["coverage"]["tools_listed"] > 0


@pytest.mark.parametrize(
    ("as_of", "ended"),
    [
        (LATELY, ("TARGET_FAILED", "exited")),  # a later release of a dependency took away what it imports
        ("2025-04-30", ("RUNTIME_UNSUPPORTED", "other_version")),  # it starts, and speaks the revision of its day
    ],
)
def test_a_server_whose_dependency_drifted_starts_as_of_its_own_day_alone(
    review_request: ReviewRequest, index_environment: Mapping[str, str], as_of: str, ended: tuple[str, str]
) -> None:
    reviewed = review_request(request("mcp-server-sqlite", "2025.4.25", as_of), index_environment)
    assert (reviewed.state, reviewed.code) == ended, reviewed.result["errors"]
