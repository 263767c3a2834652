"""What the product may fail in, and what is installed to find out."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "fixtures" / "conformance"
# Scenarios about features that the product does not have, by how their names begin.
LACKING = (
    "completion-",
    "elicitation-",
    "input-required-result-",
    "logging-",
    "prompts-",
    "resources-",
    "sep-2164-resource-",
    "server-sse-multiple-streams",
    "tools-call-",
)
# Checks of scenarios that have to pass otherwise: those that ask for prompts, resources, or the suite's own tools.
CHECKS = {
    "caching:sep-2549-prompts-list-caching-hints",
    "caching:sep-2549-resources-list-caching-hints",
    "caching:sep-2549-resources-templates-list-caching-hints",
    "server-stateless:sep-2575-http-server-no-independent-requests-on-stream",
    "server-stateless:sep-2575-missing-capability-http-400",
    "server-stateless:sep-2575-server-no-log-without-loglevel",
    "server-stateless:sep-2575-server-rejects-undeclared-capability",
}


def entries(text: str) -> list[str]:
    return [line.removeprefix("  - ") for line in text.splitlines() if line.startswith("  - ")]


def wrong(names: list[str]) -> list[str]:
    return [name for name in names if name not in CHECKS and (":" in name or not name.startswith(LACKING))]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_product_may_fail_only_in_what_it_does_not_have(revision: str) -> None:
    names = entries((FOLDER / f"product-{revision}.yml").read_text("ascii"))
    assert len(names) > 20
    assert len(set(names)) == len(names)
    assert wrong(names) == []


@pytest.mark.parametrize(
    "name",
    ["ping", "server-initialize", "tools-list", "dns-rebinding-protection", "server-stateless", "caching", "caching:x"],
)
def test_what_the_product_has_may_not_be_listed(name: str) -> None:
    assert wrong([name]) == [name]


def test_every_package_of_the_suite_is_named_exactly_and_by_its_digest() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text("ascii"))["dependencies"]
    assert all(version[0].isdigit() for version in wanted.values())
    lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 100
    assert [name for name, one in packages.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, one in packages.items() if "resolved" in one] == []
