"""The documents say how many packages of others run with fumehood, and the lock agrees."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/dependencies.md"


def closure(extra: str) -> set[str]:
    """Every distribution that `fumehood[extra]` brings along on this machine; `""` is the bare command."""
    found: set[str] = set()
    waiting = [("fumehood", frozenset({extra} if extra else ()))]
    done = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            if wanted(requirement, extras):
                found.add(canonicalize_name(requirement.name))
                further = (requirement.name, frozenset(requirement.extras))
                waiting += [further] if further not in done else []
                done.add(further)
    return found - {"fumehood"}


def wanted(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    environment = {**{key: str(value) for key, value in default_environment().items()}}
    return marker is None or any(marker.evaluate({**environment, "extra": extra}) for extra in extras | {""})


def told() -> dict[str, int]:
    """Row of the page's table → its number."""
    rows = re.findall(r"^\| `fumehood(?:\[(\w+)\])?` \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {extra: int(number) for extra, number in rows}


@pytest.mark.threat("T14")
@pytest.mark.parametrize("extra", ["", "review", "serve", "code", "sign", "cluster", "all"])
def test_the_page_tells_the_true_number_of_packages(extra: str) -> None:
    assert told()[extra] == len(closure(extra))


@pytest.mark.threat("T14")
def test_every_package_that_is_brought_along_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {canonicalize_name(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)}
    assert closure("all") - locked == set()


def test_the_closure_follows_what_a_package_asks_for_and_not_its_extras() -> None:
    assert {"click", "msgspec", "jsonschema-rs"} <= closure("")
    assert "mcp" not in closure("")
    assert {"mcp", "pydantic"} <= closure("serve")
    assert "pytest" not in closure("all")
