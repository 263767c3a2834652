import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loopback.forge import Fault, LoopbackForge
from loopback.repositories import Entry, Made, Repository

ROOT = Path(__file__).parents[3]
FILES = {"package.json": b"{}\n", "dist/index.js": b"1\n", "dist/inner/a.txt": b"2\n"}
MIB = 1024 * 1024


def git(folder: Path, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    return subprocess.run(
        ["git", *argv], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=check
    )


@pytest.fixture
def client(tmp_path: Path) -> Path:
    folder = tmp_path / "client.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare")
    return folder


def fetch(client: Path, forge: LoopbackForge, name: str, commit: str, *, fsck: bool = True) -> str:
    """Fetch one id; the error's text, empty when it worked."""
    options = ("-c", "transfer.fsckObjects=true") if fsck else ()
    done = git(client, *options, "fetch", "--quiet", "--depth=1", f"{forge.url}/{name}", commit, check=False)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("name", ["owner/plain", "owner/plain.git"])
def test_one_commit_is_fetched_by_its_id(forge: LoopbackForge, client: Path, tmp_path: Path, name: str) -> None:
    commit = forge.serve("owner/plain", Made.ordinary(tmp_path / "made", FILES))
    assert fetch(client, forge, name, commit) == ""
    listed = git(client, "ls-tree", "-r", "--name-only", commit).stdout.split()
    assert sorted(listed) == sorted(FILES)
    assert git(client, "cat-file", "-t", commit).stdout == "commit\n"
    assert git(client, "rev-list", "--count", commit).stdout == "1\n"


def test_a_commit_that_no_branch_names_is_fetched_by_its_id(forge: LoopbackForge, client: Path, tmp_path: Path) -> None:
    made = Made.ordinary(tmp_path / "made", FILES)
    loose = made.repository.commit(made.repository.files({"other": b"3"}), branch=None)
    forge.serve("owner/plain", made)
    assert fetch(client, forge, "owner/plain", loose) == ""


def test_the_id_of_an_annotated_tag_is_sent_and_is_no_commit(
    forge: LoopbackForge, client: Path, tmp_path: Path
) -> None:
    made = Made.ordinary(tmp_path / "made", FILES)
    tag = made.repository.tag(made.commit)
    forge.serve("owner/tagged", made)
    assert fetch(client, forge, "owner/tagged", tag) == ""
    assert git(client, "cat-file", "-t", tag).stdout == "tag\n"
    assert git(client, "rev-parse", f"{tag}^{{commit}}").stdout.strip() == made.commit


def test_an_unknown_id_is_refused_by_the_other_side(forge: LoopbackForge, client: Path, tmp_path: Path) -> None:
    forge.serve("owner/plain", Made.ordinary(tmp_path / "made", FILES))
    assert "not our ref" in fetch(client, forge, "owner/plain", "0123456789" * 4)


def test_an_unknown_repository_is_not_found(forge: LoopbackForge, client: Path) -> None:
    assert "not found" in fetch(client, forge, "owner/absent", "1" * 40)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [(Made.git_folder, "hasDotgit"), (Made.git_links, "hasDotgit"), (Made.path_escape, "hasDotdot")],
)
def test_a_hostile_tree_is_served_and_only_the_clients_check_refuses_it(
    forge: LoopbackForge, client: Path, tmp_path: Path, make: Callable[[Path], Made], complaint: str
) -> None:
    commit = forge.serve("owner/hostile", make(tmp_path / "made"))
    assert complaint in fetch(client, forge, "owner/hostile", commit)
    assert fetch(client, forge, "owner/hostile", commit, fsck=False) == ""


def test_a_pack_bomb_is_small_to_hold_and_large_to_write(forge: LoopbackForge, client: Path, tmp_path: Path) -> None:
    made = Made.pack_bomb(tmp_path / "made", 64 * MIB)
    held = sum(path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file())
    assert held < 64 * MIB // 500
    commit = forge.serve("owner/bomb", made)
    assert fetch(client, forge, "owner/bomb", commit) == ""
    assert git(client, "cat-file", "-s", f"{commit}:bomb.bin").stdout.strip() == str(64 * MIB)
    assert git(client, "fsck", "--full", "--strict").returncode == 0


def test_a_blob_of_zeros_has_the_id_that_git_gives_it(tmp_path: Path) -> None:
    made = Repository(tmp_path / "made").zeros(MIB)
    assert made == hashlib.sha1(b"blob 1048576\0" + bytes(MIB)).hexdigest()
    assert git(tmp_path / "made", "fsck", "--full").returncode == 0


def test_a_tree_bomb_is_a_dozen_objects_that_unfold(forge: LoopbackForge, client: Path, tmp_path: Path) -> None:
    commit = forge.serve("owner/trees", Made.tree_bomb(tmp_path / "made", depth=3, width=4))
    assert fetch(client, forge, "owner/trees", commit) == ""
    assert len(git(client, "ls-tree", "-r", commit).stdout.splitlines()) == 64
    objects = git(client, "cat-file", "--batch-all-objects", "--batch-check").stdout.splitlines()
    assert len(objects) == 5


def test_a_submodule_and_a_large_file_pointer_are_only_named(
    forge: LoopbackForge, client: Path, tmp_path: Path
) -> None:
    commit = forge.serve("owner/outer", Made.submodule_and_lfs(tmp_path / "made", FILES))
    assert fetch(client, forge, "owner/outer", commit) == ""
    listed = git(client, "ls-tree", commit).stdout
    assert "160000 commit " + "1" * 40 in listed
    assert "git-lfs" in git(client, "show", f"{commit}:large.bin").stdout


def test_links_and_folders_are_written_as_given(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "made")
    files: dict[str, bytes | Entry] = {"dist": repository.link("/etc"), "a.txt": b"1", "dir/b.txt": b"2"}
    commit = repository.commit(repository.files(files))
    listed = git(tmp_path / "made", "ls-tree", "-r", commit).stdout
    assert "120000 blob" in listed
    assert git(tmp_path / "made", "fsck", "--full", "--strict").returncode == 0


def test_this_very_repository_is_served_at_its_own_commit(forge: LoopbackForge, client: Path) -> None:
    head = forge.clone("fumehood/fumehood", ROOT)
    assert fetch(client, forge, "fumehood/fumehood", head) == ""
    assert "pyproject.toml" in git(client, "ls-tree", "--name-only", head).stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.SERVER_ERROR, "500"),
        (Fault.DROPPED, "Empty reply"),
        (Fault.ASKS_FOR_CREDENTIALS, "could not read Username"),
    ],
)
def test_a_broken_forge_fails_in_its_own_way(forge: LoopbackForge, client: Path, fault: Fault, said: str) -> None:
    forge.break_repository("owner/broken", fault)
    assert said in fetch(client, forge, "owner/broken", "1" * 40)


def test_a_redirect_leads_to_the_moved_repository(forge: LoopbackForge, client: Path, tmp_path: Path) -> None:
    commit = forge.serve("elsewhere/moved", Made.ordinary(tmp_path / "made", FILES))
    forge.break_repository("owner/old", Fault.REDIRECTED)
    assert fetch(client, forge, "owner/old", commit) == ""
    refused = git(client, "-c", "http.followRedirects=false", "fetch", f"{forge.url}/owner/old", commit, check=False)
    assert refused.returncode != 0
