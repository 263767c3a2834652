"""git targets from a forge on loopback: a build, a missing lock, a missing repository."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Bench, Reviewed
from loopback.forge import LoopbackForge
from loopback.repositories import Made

pytestmark = pytest.mark.sandbox
NAME = "owner/server"
Review = Callable[..., Reviewed]


@pytest.fixture
def review(bench: Bench, forge: LoopbackForge, server_folder: Callable[[str], Path], tmp_path: Path) -> Review:
    """Review a fixture server as a commit, without some of its files."""

    def run(server: str, *, without: tuple[str, ...] = (), **changes: object) -> Reviewed:
        bench.forge = forge.url
        files = {path.name: path.read_bytes() for path in server_folder(server).iterdir() if path.is_file()}
        made = Made.ordinary(tmp_path / "made", {name: data for name, data in files.items() if name not in without})
        return bench.git(NAME, forge.serve(NAME, made), **changes)

    return run


def test_a_commit_is_built_before_it_is_started(review: Review) -> None:
    built = review("build-required", entrypoint="dist/index.js", prepare_profile="npm_build")
    assert built.ended == ("COMPLETED", "")
    assert built.steps == ["clone", "fetch", "install", "build", "exercise"]
    assert built.changes("PREPARE")[f"{built.workspace}/dist/index.js"] == "created"
    assert built.result["provenance"]["repository"] == NAME
    assert built.result["provenance"]["pinned"] is True


@pytest.mark.parametrize(("without", "code"), [("package-lock.json", "no_lock"), ("package.json", "no_package_json")])
def test_a_commit_without_its_lock_is_outside_of_what_is_reviewed(review: Review, without: str, code: str) -> None:
    ended = review("safe", without=(without,))
    assert ended.ended == ("RUNTIME_UNSUPPORTED", code)
    assert "no sign of anything unsafe" in ended.message
    assert ended.steps == ["clone"]


def test_the_commits_own_folder_of_git_is_not_in_the_workspace(review: Review) -> None:
    finished = review("safe")
    assert finished.changes("EXERCISE") == {f"{finished.workspace}/received.jsonl": "created"}
    assert finished.changes("INSTALL") == {}


def test_a_repository_that_does_not_exist_is_the_targets_failure(bench: Bench, forge: LoopbackForge) -> None:
    bench.forge = forge.url
    ended = bench.git("owner/absent", "0123456789" * 4)
    assert ended.ended == ("TARGET_FAILED", "unknown_repository")
    assert ended.steps == ["clone"]
