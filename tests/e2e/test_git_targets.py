"""Git targets from a forge on loopback, reviewed by the command: hostile repositories end where they are fetched."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loopback.forge import Fault, LoopbackForge
from loopback.repositories import Made, Repository
from loopback.reviewed import Reviewed, ReviewRequest

pytestmark = pytest.mark.sandbox
MIB = 1024 * 1024
NAME = "owner/server"
Make = Callable[[Path, dict[str, bytes]], tuple[Made, str]]  # the repository, and the id to ask for


@pytest.fixture
def review(forge: LoopbackForge, review_request: ReviewRequest) -> Callable[[str], Reviewed]:
    """Review one commit of `owner/server`, as version 1 of a request asks for it."""

    def run(commit: str) -> Reviewed:
        request = {
            "schema_version": 1,
            "target": {"kind": "git", "repository": NAME, "ref": commit},
            "adapter": "node_stdio",
            "action_profile": "mcp_initialize",
            "network_mode": "OPEN",
            "credentials": "NONE",
            "question": "What does it do on start?",
            "entrypoint": "server.js",
            "evidence": ["process", "network", "filesystem", "protocol"],
            "timeout_seconds": 60,
        }
        return review_request(request, {"FUMEHOOD_REVIEW__FORGE": forge.url})

    return run


@pytest.fixture
def files(server_folder: Callable[[str], Path]) -> dict[str, bytes]:
    """The bundled server, as the content of a repository."""
    return {path.name: path.read_bytes() for path in server_folder("safe").iterdir() if path.is_file()}


@pytest.fixture
def serve(forge: LoopbackForge, files: dict[str, bytes], tmp_path: Path) -> Callable[[Make], str]:
    """Serve what a maker made; give the id to ask for."""

    def made(make: Make) -> str:
        repository, wanted = make(tmp_path / "made", files)
        forge.serve(NAME, repository)
        return wanted

    return made


def ordinary(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    made = Made.ordinary(folder, files)
    return made, made.commit


def tag(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    made = Made.ordinary(folder, files)
    return made, made.repository.tag(made.commit)


def tree(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    made = Made.ordinary(folder, files)
    return made, made.repository.files(files)


def unknown(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    return Made.ordinary(folder, files), "0123456789" * 4


def git_folder(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    del files
    made = Made.git_folder(folder)
    return made, made.commit


def git_links(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    del files
    made = Made.git_links(folder)
    return made, made.commit


def path_escape(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    del files
    made = Made.path_escape(folder)
    return made, made.commit


def pack_bomb(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    del files
    made = Made.pack_bomb(folder, 576 * MIB)  # above the limit of one file, 512 MiB
    return made, made.commit


def linked_entrypoint(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
    repository = Repository(folder)
    commit = repository.commit(repository.files({**files, "server.js": repository.link("/etc/passwd")}))
    return Made(repository=repository, commit=commit), commit


@pytest.mark.threat("R7")
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (tag, "not_a_commit"),
        (tree, "not_a_commit"),
        (unknown, "unknown_commit"),
        (git_folder, "bad_object"),
        (git_links, "bad_object"),
        (path_escape, "bad_object"),
        (pack_bomb, "pack_too_large"),
    ],
)
def test_what_is_not_the_wanted_commit_or_breaks_gits_rules_ends_before_anything_is_installed(
    serve: Callable[[Make], str], review: Callable[[str], Reviewed], make: Make, code: str
) -> None:
    reviewed = review(serve(make))
    assert (reviewed.status, reviewed.state, reviewed.code) == (1, "TARGET_FAILED", code)
    assert reviewed.steps == ["clone"]


def test_an_exact_commit_is_reviewed_to_its_end_and_its_id_recorded(
    serve: Callable[[Make], str], review: Callable[[str], Reviewed]
) -> None:
    commit = serve(ordinary)
    reviewed = review(commit)
    assert (reviewed.status, reviewed.state, reviewed.code) == (0, "COMPLETED", "")
    assert commit in json.dumps(reviewed.result["provenance"])


@pytest.mark.threat("R7")
def test_a_submodule_and_a_large_file_are_not_fetched(
    forge: LoopbackForge, review: Callable[[str], Reviewed], files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = forge.serve(NAME, Made.submodule_and_lfs(tmp_path / "made", files))
    reviewed = review(commit)
    assert reviewed.state == "COMPLETED"
    assert "forge.invalid" not in json.dumps(reviewed.result["observations"])


@pytest.mark.threat("R1")
def test_an_entrypoint_behind_a_link_is_refused_after_the_install(
    serve: Callable[[Make], str], review: Callable[[str], Reviewed]
) -> None:
    reviewed = review(serve(linked_entrypoint))
    assert (reviewed.state, reviewed.code) == ("TARGET_FAILED", "not_a_file")
    assert "exercise" not in reviewed.steps


@pytest.mark.threat("R10")
def test_a_tree_that_unfolds_without_end_meets_a_limit(
    forge: LoopbackForge, review: Callable[[str], Reviewed], tmp_path: Path
) -> None:
    commit = forge.serve(NAME, Made.tree_bomb(tmp_path / "made"))
    reviewed = review(commit)
    assert reviewed.state in {"TARGET_FAILED", "TIMEOUT"}
    assert reviewed.steps == ["clone"]


def test_a_repository_that_moved_within_the_forge_is_followed(
    forge: LoopbackForge, review: Callable[[str], Reviewed], files: dict[str, bytes], tmp_path: Path
) -> None:
    forge.break_repository(NAME, Fault.REDIRECTED)
    reviewed = review(forge.serve("elsewhere/moved", Made.ordinary(tmp_path / "made", files)))
    assert reviewed.state == "COMPLETED"


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.DROPPED])
def test_a_forge_with_a_fault_is_no_evidence_about_the_target(
    forge: LoopbackForge, review: Callable[[str], Reviewed], fault: Fault
) -> None:
    forge.break_repository(NAME, fault)
    reviewed = review("1" * 40)
    assert (reviewed.status, reviewed.state) == (5, "HARNESS_ERROR")


def test_a_repository_that_asks_for_credentials_counts_as_not_public(
    forge: LoopbackForge, review: Callable[[str], Reviewed]
) -> None:
    forge.break_repository(NAME, Fault.ASKS_FOR_CREDENTIALS)
    reviewed = review("1" * 40)
    assert (reviewed.state, reviewed.code) == ("TARGET_FAILED", "unknown_repository")


@pytest.mark.threat("R7")
def test_a_repository_does_not_choose_the_git_that_npm_starts_where_scripts_are_off(
    review: Callable[[str], Reviewed], serve: Callable[[Make], str]
) -> None:
    def choosing(folder: Path, files: dict[str, bytes]) -> tuple[Made, str]:
        wanted = f"git+https://forge.example/x/x.git#{'0123456789' * 4}"
        manifest = {"name": "choosing", "version": "1.0.0", "dependencies": {"x": wanted}}
        lock = {
            "name": "choosing",
            "version": "1.0.0",
            "lockfileVersion": 3,
            "requires": True,
            "packages": {"": manifest, "node_modules/x": {"version": "1.0.0", "resolved": wanted}},
        }
        return ordinary(
            folder,
            {
                **files,
                "package.json": json.dumps(manifest).encode(),
                "package-lock.json": json.dumps(lock).encode(),
                ".npmrc": b"git=./server.js\n",
                "server.js": b"#!/bin/sh\n",
            },
        )

    reviewed = review(serve(choosing))
    assert (reviewed.state, reviewed.steps[-1]) == ("TARGET_FAILED", "fetch")
    programs = {
        row["detail"]["program"]
        for row in reviewed.result["observations"]["items"]
        if row["type"] == "process.exec" and row["phase"] == "FETCH"
    }
    assert "/bin/false" in programs
    assert not any("server.js" in program for program in programs)
