"""What a workspace gives and refuses."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.core import errors
from fumehood.fence.workspace import ContainedFile, Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src/main.js").write_bytes(b"hello")
    (tmp_path / "outside").write_bytes(b"outside")
    os.link(tmp_path / "outside", root / "hard")
    (root / "link").symlink_to("../outside")
    os.mkfifo(root / "fifo")
    return root


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with Workspace.open(folder) as opened:
        yield opened


def test_a_file_inside_is_read(workspace: Workspace) -> None:
    with workspace.contained(b"src/main.js") as file:
        assert (file.size, file.links, file.mode & 0o400) == (5, 1, 0o400)
        assert file.read(5) == b"hello"
        assert file.head(2) == b"he"
        assert file.fileno() > 2
        file.close()
        file.close()


def test_a_contained_file_cannot_be_made_by_hand(folder: Path) -> None:
    with pytest.raises(TypeError):
        ContainedFile(object(), b"x", 0, (folder / "hard").stat())


@pytest.mark.threat("R8")
@pytest.mark.parametrize(
    ("path", "error"),
    [
        (b"link", errors.OutsideWorkspaceError),
        (b"../outside", errors.OutsideWorkspaceError),
        (b"/etc/passwd", errors.OutsideWorkspaceError),
        (b"src\0/main.js", errors.OutsideWorkspaceError),
        (b"none", errors.NotFoundError),
        (b"src/main.js/x", errors.NotAFolderError),
        (b"src", errors.NotAFileError),
        (b"fifo", errors.NotAFileError),
        (b"socket", errors.NotAFileError),
        (b"hard", errors.HardLinkError),
    ],
)
def test_what_is_no_file_inside_is_refused(
    workspace: Workspace, folder: Path, path: bytes, error: type[errors.RefusedError]
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fsencode(f"/proc/self/fd/{workspace.root_fd}/socket"))
        with pytest.raises(error) as refused:
            workspace.contained(path)
    assert refused.value.exit_status == 2
    assert str(folder) not in str(refused.value)
    assert refused.value.remedy


def test_a_second_name_is_read_when_the_caller_allows_it(workspace: Workspace) -> None:
    with workspace.contained(b"hard", hard_links=True) as file:
        assert file.read(100) == b"outside"  # why it is refused otherwise


def test_a_larger_file_is_refused_before_it_is_read(workspace: Workspace) -> None:
    with workspace.contained(b"src/main.js") as file, pytest.raises(errors.TooLargeError):
        file.read(4)


def test_a_file_that_grew_after_it_was_opened_is_refused_while_it_is_read(workspace: Workspace, folder: Path) -> None:
    with workspace.contained(b"src/main.js") as file:
        (folder / "src/main.js").write_bytes(b"x" * 100)
        with pytest.raises(errors.TooLargeError):
            file.read(50)


@pytest.mark.threat("R8")
def test_a_swapped_name_does_not_change_what_was_opened(workspace: Workspace, folder: Path) -> None:
    with workspace.contained(b"src/main.js") as file:
        (folder / "src/main.js").unlink()
        (folder / "src/main.js").symlink_to("/etc/passwd")
        assert file.read(10) == b"hello"


def test_an_absolute_path_inside_is_taken_by_either_spelling_of_the_root(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("ws")
    with Workspace.open(tmp_path / "alias") as workspace:
        for root in (tmp_path / "alias", folder):
            with workspace.contained(os.fsencode(root / "src/main.js")) as file:
                assert file.read(10) == b"hello"
            assert workspace.relative(os.fsencode(root)) == b"."
        with pytest.raises(errors.OutsideWorkspaceError):
            workspace.relative(os.fsencode(folder) + b"-else/x")


def test_a_folder_inside_is_opened_and_a_link_to_one_is_not(workspace: Workspace, folder: Path) -> None:
    (folder / "alias").symlink_to("src")
    with workspace.folder(b"src") as fd:
        assert os.stat("main.js", dir_fd=fd).st_size == 5
    with pytest.raises(errors.OutsideWorkspaceError), workspace.folder(b"alias"):
        pass


def test_a_root_that_is_no_folder_is_refused(folder: Path) -> None:
    with pytest.raises(errors.NotAFolderError), Workspace.open(folder / "hard"):
        pass


def test_a_file_without_the_right_to_read_is_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> int:
        raise PermissionError(13, "no")

    monkeypatch.setattr("fumehood.fence.openat2.open_beneath", deny)
    with pytest.raises(errors.UnreadableError):
        workspace.contained(b"src/main.js")


def test_a_fault_of_the_system_is_ours_and_not_the_callers(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(5, "input/output error")

    monkeypatch.setattr("fumehood.fence.openat2.open_beneath", fail)
    with pytest.raises(errors.HarnessError):
        workspace.contained(b"src/main.js")


def test_a_hostile_name_is_shown_inert(workspace: Workspace) -> None:
    with pytest.raises(errors.NotFoundError) as refused:
        workspace.contained(b"a\n\x1b[31m\xff")
    assert str(refused.value).isprintable()
