"""npm targets from a registry on loopback: what is recorded of them, and which of them are not ours to review."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.bench import Bench
from loopback.packages import Package, integrity_of, pack
from loopback.registry import Fault, LoopbackRegistry

pytestmark = pytest.mark.sandbox
NAME = "@unit/server"


@pytest.fixture
def shop(bench: Bench, registry: LoopbackRegistry) -> Bench:
    """A bench whose operator names the registry by a private address of the outer world."""
    bench.outer.names["registry.example"] = ["10.0.0.5"]
    bench.outer.port = urlsplit(registry.url).port or 0
    bench.registry = "http://registry.example/"
    return bench


@pytest.fixture
def publish(registry: LoopbackRegistry, safe: str) -> Callable[..., Package]:
    """Publish the bundled server with other files, and fields of its manifest."""

    def made(files: dict[str, str] | None = None, **manifest: Any) -> Package:
        fields = {"name": NAME, "version": "1.0.0", "bin": {"server": "server.js"}, **manifest}
        content = {"server.js": safe, "other.js": safe, **(files or {})}
        package = Package(manifest=fields, files={name: text.encode() for name, text in content.items()})
        registry.publish(package)
        return package

    return made


WRITES = """
const fs = require("node:fs"), os = require("node:os"), path = require("node:path");
fs.writeFileSync("made-by-the-script.txt", "made\\n");
fs.appendFileSync("other.js", "// changed by the script\\n");
fs.unlinkSync("readme.txt");
fs.writeFileSync(path.join(os.homedir(), ".npmrc"), "registry=http://elsewhere.example/\\n");
"""
FILES = {"hook.js": WRITES, "readme.txt": "to be read\n"}
HOOK = {"scripts": {"postinstall": "node hook.js"}}


@pytest.mark.threat("R4")
def test_what_the_scripts_did_is_the_difference_and_nothing_else(shop: Bench, publish: Callable[..., Package]) -> None:
    package = publish(FILES, **HOOK)
    review = shop.npm(NAME)
    assert review.ended == ("COMPLETED", "")
    place = f"{review.workspace}/node_modules/{NAME}"
    assert review.changes("INSTALL") == {
        f"{review.home}/.npmrc": "created",
        f"{place}/made-by-the-script.txt": "created",
        f"{place}/other.js": "changed",
        f"{place}/readme.txt": "deleted",
    }
    coverage, provenance = review.result["coverage"], review.result["provenance"]
    assert (coverage["hooks_declared"], coverage["hooks_run"]) == (1, 1)
    assert provenance["integrity"] == integrity_of(pack(package))
    assert (provenance["name"], provenance["version"], provenance["pinned"]) == (NAME, "1.0.0", True)
    assert provenance["entrypoint"] == f"node_modules/{NAME}/server.js"
    assert review.steps == ["lock", "fetch", "install", "exercise"]


def test_without_its_script_the_same_package_changes_nothing(shop: Bench, publish: Callable[..., Package]) -> None:
    publish(FILES)
    review = shop.npm(NAME)
    assert review.ended == ("COMPLETED", "")
    assert review.changes("INSTALL") == {}
    assert review.result["coverage"]["hooks_run"] == 0


def test_a_script_that_fails_is_the_targets_failure(shop: Bench, publish: Callable[..., Package]) -> None:
    publish({"hook.js": "console.error('cannot go on'); process.exit(9);\n"}, **HOOK)
    review = shop.npm(NAME)
    assert review.ended == ("TARGET_FAILED", "npm_failed")
    assert "cannot go on" in review.output("stderr", "INSTALL")
    assert review.steps == ["lock", "fetch", "install"]


@pytest.mark.parametrize(
    ("bins", "listed"),
    [(None, "names no program"), ({"one": "server.js", "two": "other.js"}, "one, two")],
    ids=["none", "several"],
)
def test_a_package_without_one_bin_names_what_it_has(
    shop: Bench, publish: Callable[..., Package], bins: dict[str, str] | None, listed: str
) -> None:
    publish(bin=bins or {})
    review = shop.npm(NAME)
    assert review.ended == ("RUNTIME_UNSUPPORTED", "entrypoint")
    assert listed in review.message
    assert "exercise" not in review.steps


def test_an_entrypoint_chooses_among_several_bins(shop: Bench, publish: Callable[..., Package]) -> None:
    publish(bin={"one": "server.js", "two": "other.js"})
    review = shop.npm(NAME, entrypoint="other.js", argv=["--root", "{workspace}", "x{workspace}y"])
    assert review.ended == ("COMPLETED", "")
    started = review.details("process.exec", "EXERCISE")[0]["argv"]
    workspace = review.result["environment"]["workspace"]
    assert started[1:] == [f"node_modules/{NAME}/other.js", "--root", workspace, f"x{workspace}y"]


@pytest.mark.threat("R1")
def test_a_bin_that_leads_out_of_its_package_is_not_started(shop: Bench, publish: Callable[..., Package]) -> None:
    publish(bin={"server": "../../../server.js"})
    review = shop.npm(NAME)
    assert review.ended[0] in {"TARGET_FAILED", "RUNTIME_UNSUPPORTED"}  # npm itself drops such a bin
    assert "exercise" not in review.steps


@pytest.mark.threat("R7")
def test_a_dependency_from_another_host_is_not_fetched_and_its_host_is_named(
    shop: Bench, publish: Callable[..., Package]
) -> None:
    publish(dependencies={"other": "http://elsewhere.example/other-1.0.0.tgz"})
    shop.outer.names["elsewhere.example"] = ["93.184.216.34"]
    review = shop.npm(NAME)
    assert review.ended == ("RUNTIME_UNSUPPORTED", "dependency_elsewhere")
    assert "elsewhere.example" in review.message
    assert {address for address, _ in shop.outer.dialled} == {"10.0.0.5"}


@pytest.mark.threat("R7")
def test_a_lock_that_names_another_host_is_not_followed(shop: Bench, target: Callable[..., Path]) -> None:
    package = Package(manifest={"name": "other", "version": "1.0.0"})
    place = target({}, dependencies={"other": "1.0.0"})
    lock = json.loads((place / "package-lock.json").read_text(encoding="utf-8"))
    resolved = {"resolved": "http://elsewhere.example/other-1.0.0.tgz", "integrity": integrity_of(pack(package))}
    lock["packages"]["node_modules/other"] = {"version": "1.0.0", **resolved}
    (place / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    review = shop.folder(place)
    assert review.ended == ("RUNTIME_UNSUPPORTED", "dependency_elsewhere")
    assert "elsewhere.example" in review.message
    assert review.steps == ["fetch"]
    assert shop.outer.dialled == []


OTHER_ENGINE = {"engines": {"node": ">=99"}}


def test_a_target_that_asks_for_another_engine_is_outside_of_what_is_reviewed(
    shop: Bench, publish: Callable[..., Package], target: Callable[..., Path]
) -> None:
    publish(**OTHER_ENGINE)
    for review in (shop.npm(NAME), shop.folder(target({}, **OTHER_ENGINE))):
        assert review.ended == ("RUNTIME_UNSUPPORTED", "engine")
        assert "no sign of anything unsafe" in review.message
        assert "install" not in review.steps


def test_a_dependency_that_asks_for_another_engine_does_not_matter(
    shop: Bench, publish: Callable[..., Package], registry: LoopbackRegistry
) -> None:
    registry.publish(Package(manifest={"name": "leaf", "version": "1.0.0", **OTHER_ENGINE}))
    publish(dependencies={"leaf": "1.0.0"})
    review = shop.npm(NAME)
    assert review.ended == ("COMPLETED", "")
    assert "EBADENGINE" in review.output("stderr", "FETCH")  # the control: npm did warn


@pytest.mark.long
def test_a_registry_that_hangs_is_no_evidence_about_the_target(
    shop: Bench, publish: Callable[..., Package], registry: LoopbackRegistry
) -> None:
    publish()
    registry.break_package(NAME, Fault.HANGING)
    assert shop.npm(NAME).ended == ("HARNESS_ERROR", "registry")


@pytest.mark.long
def test_the_operators_registry_is_named_in_the_result(shop: Bench, publish: Callable[..., Package]) -> None:
    publish({"server.js": "process.exit(0);\n"})
    review = shop.npm(NAME)
    environment = review.result["environment"]
    assert environment["registry"] == "http://registry.example/"
    assert "registry.example:80" in environment["operator_hosts"]
    relayed = {(d["name"], d["decision"]) for d in review.details("network.connect", "FETCH", "egress")}
    assert relayed <= {("registry.example", "relayed")}
    assert review.rows("network.connect", "INSTALL") == []
