"""pypi targets from an index on loopback: what an index or a wheel may do wrong ends in the right state."""

import hashlib
from typing import Any

import pytest

from e2e.bench import Bench
from fumehood.core import limits
from loopback.index import LoopbackIndex
from loopback.wheels import SERVER, Wheel, server

pytestmark = pytest.mark.sandbox
SITE = ".venv/lib/python3."


@pytest.fixture
def shop(bench: Bench, index: LoopbackIndex) -> Bench:
    """A bench whose Python index is the test's own."""
    bench.index = f"{index.url}/simple/"
    return bench


@pytest.mark.threat("R30", "R31")
def test_a_server_of_the_index_is_locked_fetched_installed_and_spoken_to(shop: Bench, index: LoopbackIndex) -> None:
    leaf = Wheel(name="leaf", version="1.2", files={"leaf.py": "VALUE = 1\n"})
    index.publish(leaf)
    index.publish(server(requires=("leaf>=1",)))
    review = shop.pypi("Unit_Server")
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert review.steps == ["index", "lock", "fetch", "install", "exercise"]
    made = review.result["provenance"]
    assert (made["name"], made["version"], made["entrypoint"]) == ("unit-server", "1.0", ".venv/bin/unit-server")
    assert made["lockfile"]["packages"] == 2
    assert made["distribution"]["wheel"] == "unit_server-1.0-py3-none-any.whl"
    assert made["distribution"]["yanked"] is False
    assert made["attestation"]["state"] == "absent"
    assert made["integrity"].removeprefix("sha256:") in str(index._projects)
    assert made["distribution"]["start_files_total"] == made["distribution"]["replaced_total"] == 0
    assert review.changes("INSTALL") == review.changes("EXERCISE") == {}
    programs = [d["program"] for d in review.details("process.exec", "INSTALL")]
    assert all(program.endswith("/uv") for program in programs)
    assert {c["state"] for c in review.result["collectors"]} == {"active"}


@pytest.mark.threat("R31")
def test_what_python_runs_at_each_start_and_what_a_wheel_wrote_over_are_facts(
    shop: Bench, index: LoopbackIndex
) -> None:
    hook = "import pathlib; pathlib.Path('started').write_text('x')\n"
    raw = (("unit_server-1.0.data/data/pyvenv.cfg", b"home = /usr/bin\n"),)
    index.publish(server(more={"unit.pth": hook, "sitecustomize.py": "", "path.pth": "/x\n"}, raw=raw))
    review = shop.pypi("unit-server")
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    put = review.result["provenance"]["distribution"]
    found = {one["path"].rpartition("/")[2]: one["runs_code"] for one in put["start_files"]}
    assert found == {"unit.pth": True, "sitecustomize.py": True, "path.pth": False}
    digest = next(one["sha256"] for one in put["start_files"] if one["path"].endswith("unit.pth"))
    assert digest == hashlib.sha256(hook.encode()).hexdigest()
    assert put["replaced"] == [".venv/pyvenv.cfg"]
    coverage = review.result["coverage"]
    assert (coverage["hooks_declared"], coverage["hooks_run"]) == (3, None)
    assert review.changes("INSTALL") == {}
    assert [path.rpartition("/")[2] for path in review.changes("EXERCISE")] == ["started"]


def test_a_yanked_version_with_an_attestation_is_reviewed_and_both_are_said(shop: Bench, index: LoopbackIndex) -> None:
    kind = "https://docs.example/publish/v1"
    statement = "eyJwcmVkaWNhdGVUeXBlIjogImh0dHBzOi8vZG9jcy5leGFtcGxlL3B1Ymxpc2gvdjEifQ=="
    index.provenance = {"attestation_bundles": [{"attestations": [{"envelope": {"statement": statement}}]}]}
    index.publish(server(), yanked="broken", provenance="../../provenance/x")
    review = shop.pypi("unit-server")
    made = review.result["provenance"]
    assert review.ended == ("COMPLETED", "")
    assert made["distribution"]["yanked"] is True
    assert (made["attestation"]["state"], made["attestation"]["predicate_types"]) == ("present", [kind])


def test_an_index_of_html_does_as_well_and_cannot_say_whether_there_is_an_attestation(bench: Bench) -> None:
    with LoopbackIndex(html_only=True) as index:
        bench.index = f"{index.url}/simple/"
        index.publish(server())
        review = bench.pypi("unit-server")
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert review.result["provenance"]["attestation"]["state"] == "unknown"


@pytest.mark.threat("R30")
@pytest.mark.parametrize("wrong", ["unit-server", "leaf"])
def test_a_wheel_that_has_not_its_hash_is_never_installed(shop: Bench, index: LoopbackIndex, wrong: str) -> None:
    leaf = Wheel(name="leaf", version="1.2", files={"leaf.py": "VALUE = 1\n"})
    for wheel in (leaf, server(requires=("leaf",))):
        hashes: dict[str, Any] = {"hashes": {"sha256": "0" * 64}} if wheel.name == wrong else {}
        index.publish(wheel, **hashes)
    review = shop.pypi("unit-server")
    assert review.ended == ("TARGET_FAILED", "integrity_mismatch"), review.result["errors"]
    assert "install" not in review.steps


@pytest.mark.parametrize(
    ("target", "changes", "ended"),
    [
        ("absent==1.0", {}, ("TARGET_FAILED", "unknown_package")),
        ("unit-server==9.9", {}, ("TARGET_FAILED", "unknown_version")),
        ("sources==1.0", {}, ("RUNTIME_UNSUPPORTED", "no_wheel")),
        ("unit-server==1.0", {"as_of": "2026-01-30"}, ("TARGET_FAILED", "unknown_version")),
        ("needy==1.0", {}, ("TARGET_FAILED", "unknown_package")),
        ("modern==1.0", {}, ("RUNTIME_UNSUPPORTED", "engine")),
        ("two==1.0", {}, ("RUNTIME_UNSUPPORTED", "entrypoint")),
        ("unit-server==1.0", {"entrypoint": "python"}, ("TARGET_FAILED", "no_entrypoint")),
    ],
)
def test_what_cannot_be_reviewed_ends_in_its_state(
    shop: Bench, index: LoopbackIndex, target: str, changes: dict[str, str], ended: tuple[str, str]
) -> None:
    index.publish(server())
    index.publish_sources("sources", "1.0")
    index.publish(Wheel(name="needy", requires=("nowhere>=1",)))
    index.publish(Wheel(name="modern", python=">=3.99"))
    index.publish(Wheel(name="two", files={"two.py": SERVER}, scripts={"one": "two:main", "other": "two:main"}))
    name, _, version = target.partition("==")
    review = shop.pypi(name, version, as_of=changes.get("as_of"), entrypoint=changes.get("entrypoint"))
    assert review.ended == ended, review.result["errors"]


def test_one_of_two_programs_is_started_when_it_is_named(shop: Bench, index: LoopbackIndex) -> None:
    index.publish(Wheel(name="two", files={"two.py": SERVER}, scripts={"one": "two:main", "other": "two:main"}))
    review = shop.pypi("two", entrypoint="other", as_of="2026-01-31")
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert review.result["provenance"]["entrypoint"] == ".venv/bin/other"
    assert review.result["provenance"]["as_of"] == "2026-02-01T00:00:00Z"


@pytest.mark.parametrize("status", [500, 302])
def test_an_index_that_does_not_answer_as_one_is_no_evidence(shop: Bench, index: LoopbackIndex, status: int) -> None:
    index.publish(server())
    index.status = status
    assert shop.pypi("unit-server").ended == ("HARNESS_ERROR", "registry")


@pytest.mark.threat("R30")
def test_a_host_that_is_not_public_is_not_opened_because_a_page_names_it(shop: Bench, index: LoopbackIndex) -> None:
    shop.outer.names["inner.example"] = ["10.0.0.7"]
    index.publish(server(), url="https://inner.example/unit_server-1.0-py3-none-any.whl")
    review = shop.pypi("unit-server")
    assert review.ended == ("RUNTIME_UNSUPPORTED", "dependency_elsewhere"), review.result["errors"]
    assert "inner.example" in review.message
    assert {address for address, _ in shop.outer.dialled} == {"127.0.0.1"}


TRAVERSAL = ("../../../../outside.py", "/var/home/outside.py", "..\\outside.py")


@pytest.mark.threat("R31")
@pytest.mark.parametrize(
    "wheel",
    [
        *(server(raw=((name, b"x = 1\n"),)) for name in TRAVERSAL),
        server(raw=(("unit_server-1.0.data/scripts/python", b"#!/bin/sh\nexit 3\n"),)),
        server(links={"escape": "/etc/passwd"}),
        server(scripts={"unit-server": "unit_server:main", "../../../home/evil": "unit_server:main"}),
    ],
    ids=["climbing", "absolute", "backslash", "python", "link", "program"],
)
def test_a_hostile_wheel_writes_nowhere_but_into_the_environment(
    shop: Bench, index: LoopbackIndex, wheel: Wheel
) -> None:
    index.publish(wheel)
    review = shop.pypi("unit-server")
    made = {*review.changes("FETCH"), *review.changes("INSTALL")}
    assert made == set()
    assert review.ended in {("COMPLETED", ""), ("TARGET_FAILED", "bad_wheel")}, review.result["errors"]


@pytest.mark.threat("R31")
def test_a_wheel_that_unpacks_to_more_than_its_bound_ends_while_it_is_fetched(
    shop: Bench, index: LoopbackIndex
) -> None:
    shop.set("sandbox", layer_bytes=64 * limits.MIB)
    index.publish(server(raw=tuple((f"bomb/{number}", bytes(32 * limits.MIB)) for number in range(40))))
    review = shop.pypi("unit-server")
    assert review.ended == ("TARGET_FAILED", "layer_size"), review.result["errors"]
    assert review.steps[-1] == "fetch"


@pytest.mark.threat("R31")
@pytest.mark.parametrize(
    "metadata", ["Requires-Dist: leaf @ file:///etc/passwd", "Requires-Dist: leaf @ git+https://x.example/y"]
)
def test_a_wheel_that_asks_for_something_beside_the_index_gets_nothing(
    shop: Bench, index: LoopbackIndex, metadata: str
) -> None:
    index.publish(server(requires=(metadata.removeprefix("Requires-Dist: "),)))
    review = shop.pypi("unit-server")
    assert review.ended[0] in {"TARGET_FAILED", "RUNTIME_UNSUPPORTED"}, review.result["errors"]
    assert review.steps[-1] == "lock"
    assert {address for address, _ in shop.outer.dialled} == {"127.0.0.1"}
