"""npm targets from a registry on loopback: what a registry may do wrong ends in the right state."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loopback.fixtures import NpmRegistry
from loopback.packages import WRONG_INTEGRITY, Package, from_folder, integrity_of, pack
from loopback.registry import Fault, LoopbackRegistry
from loopback.reviewed import Reviewed, ReviewRequest

pytestmark = pytest.mark.sandbox
LEAF = Package(manifest={"name": "leaf", "version": "1.2.0"}, files={"index.js": b"module.exports = 1\n"})
Review = Callable[[str, str], Reviewed]


@pytest.fixture
def review(review_request: ReviewRequest, registry: LoopbackRegistry) -> Review:
    """Review one version of one package from the test's own registry."""

    def run(name: str, version: str) -> Reviewed:
        return review_request(request(name, version), {"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url})

    return run


@pytest.fixture
def server(server_folder: Callable[[str], Path]) -> Package:
    """The bundled server as a package of the registry, with one dependency."""
    made = from_folder(server_folder("safe"))
    manifest = {**made.manifest, "name": "@unit/server", "version": "1.0.0", "dependencies": {"leaf": "^1.0.0"}}
    return Package(manifest=manifest, files=made.files)


def request(name: str, version: str) -> dict[str, object]:
    return {
        "schema_version": 2,
        "target": {"kind": "npm", "name": name, "version": version},
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": "What does it do on start?",
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": 60,
    }


def test_an_exact_version_is_reviewed_to_its_end_and_its_integrity_recorded(
    review: Review, registry: LoopbackRegistry, server: Package
) -> None:
    registry.publish(server)
    registry.publish(LEAF)
    reviewed = review("@unit/server", "1.0.0")
    assert (reviewed.status, reviewed.state, reviewed.code) == (0, "COMPLETED", "")
    assert integrity_of(pack(server)) in json.dumps(reviewed.result["provenance"])


@pytest.mark.threat("R7")
@pytest.mark.parametrize("wrong", ["@unit/server", "leaf"])
def test_a_tarball_that_does_not_fit_its_integrity_is_never_installed(
    review: Review, registry: LoopbackRegistry, server: Package, wrong: str
) -> None:
    for package in (server, LEAF):
        registry.publish(package, integrity=WRONG_INTEGRITY if package.name == wrong else None)
    reviewed = review("@unit/server", "1.0.0")
    assert (reviewed.status, reviewed.state, reviewed.code) == (1, "TARGET_FAILED", "integrity_mismatch")
    assert "install" not in reviewed.steps


@pytest.mark.parametrize(("version", "code"), [("9.9.9", "unknown_version")])
def test_a_version_that_does_not_exist_is_the_targets_failure(
    review: Review, registry: LoopbackRegistry, server: Package, version: str, code: str
) -> None:
    registry.publish(server)
    reviewed = review("@unit/server", version)
    assert (reviewed.status, reviewed.state, reviewed.code) == (1, "TARGET_FAILED", code)


def test_a_package_that_does_not_exist_is_the_targets_failure(review: Review) -> None:
    reviewed = review("@unit/absent", "1.0.0")
    assert (reviewed.state, reviewed.code) == ("TARGET_FAILED", "unknown_package")


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.DROPPED, Fault.NOT_JSON])
def test_a_registry_with_a_fault_is_no_evidence_about_the_target(
    review: Review, registry: LoopbackRegistry, server: Package, fault: Fault
) -> None:
    registry.publish(server)
    registry.break_package("@unit/server", fault)
    reviewed = review("@unit/server", "1.0.0")
    assert (reviewed.status, reviewed.state) == (5, "HARNESS_ERROR")


def test_a_registry_that_is_down_is_no_evidence_about_the_target(
    review_request: ReviewRequest, refused_url: str
) -> None:
    reviewed = review_request(request("@unit/server", "1.0.0"), {"FUMEHOOD_REVIEW__NPM_REGISTRY": refused_url})
    assert (reviewed.status, reviewed.state) == (5, "HARNESS_ERROR")


def test_a_registry_that_never_answers_ends_as_a_time_out(
    review_request: ReviewRequest, registry: LoopbackRegistry, server: Package
) -> None:
    registry.publish(server)
    registry.break_package("@unit/server", Fault.HANGING)
    settings = {"FUMEHOOD_REVIEW__NPM_REGISTRY": registry.url, "FUMEHOOD_REVIEW__ACQUIRE_SECONDS": "3"}
    reviewed = review_request(request("@unit/server", "1.0.0"), settings)
    assert (reviewed.status, reviewed.state) == (4, "TIMEOUT")


@pytest.mark.registry
def test_a_real_server_from_the_operators_registry_is_reviewed_to_its_end(
    review_request: ReviewRequest, npm_registry: NpmRegistry
) -> None:
    name, version = "@modelcontextprotocol/server-filesystem", "2026.8.31"
    npm_registry.need(f"{name}@{version}")
    wanted = {**request(name, version), "argv": ["{workspace}"]}
    reviewed = review_request(wanted, {"FUMEHOOD_REVIEW__NPM_REGISTRY": npm_registry.url})
    assert (reviewed.state, reviewed.code) == ("COMPLETED", "")
