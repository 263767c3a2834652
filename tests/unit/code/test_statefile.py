"""A file of state is this user's alone, or it is nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fumehood.code import statefile
from fumehood.core import limits


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fumehood" / "x.json"


def test_what_is_written_is_read_and_nobody_else_may(file: Path) -> None:
    assert statefile.read(file).why == "there is none"
    assert statefile.write(file, b"one") == ""
    assert statefile.write(file, b"two") == ""
    assert statefile.read(file) == statefile.Content(data=b"two")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_what_is_forgotten_is_gone(file: Path) -> None:
    assert statefile.forget(file) == ""
    statefile.write(file, b"one")
    assert statefile.forget(file) == ""
    assert not file.exists()
    assert statefile.forget(file) == ""


def another_mode(file: Path) -> None:
    file.chmod(0o640)


def another_name(file: Path) -> None:
    os.link(file, file.with_name("second"))


def a_link(file: Path) -> None:
    file.rename(file.with_name("second"))
    file.symlink_to("second")


def a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


def an_open_folder(file: Path) -> None:
    file.parent.chmod(0o770)


def a_linked_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("other"))
    file.parent.symlink_to("other")


def too_large(file: Path) -> None:
    file.write_bytes(b"x" * (limits.CODE_ATTESTATION_BYTES + 1))


@pytest.mark.parametrize(
    "change",
    [another_mode, another_name, a_link, a_fifo, a_folder, an_open_folder, a_linked_folder, too_large],
    ids=lambda change: change.__name__,
)
def test_a_file_that_another_may_have_made_counts_as_none(file: Path, change: Callable[[Path], None]) -> None:
    statefile.write(file, b"one")
    assert statefile.read(file).data == b"one"
    change(file)
    found = statefile.read(file)
    assert (found.data, bool(found.why)) == (None, True)


@pytest.mark.root
@pytest.mark.parametrize("of", ["file", "folder"])
def test_a_file_or_folder_of_another_user_counts_as_none(file: Path, of: str) -> None:
    statefile.write(file, b"one")
    os.chown(file if of == "file" else file.parent, 54321, 54321)
    assert "another user" in statefile.read(file).why
    if of == "folder":
        assert "another user" in statefile.write(file, b"two")


def test_a_folder_that_others_may_write_to_gets_nothing(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o777)
    assert statefile.write(file, b"one") == "others may write to its folder"
    assert list(file.parent.iterdir()) == []


def test_where_nothing_can_be_written_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    assert statefile.write(tmp_path / "state" / "fumehood" / "x", b"one") == "Not a directory"
    assert statefile.read(tmp_path / "state" / "fumehood" / "x").why == "Not a directory"
    assert statefile.forget(tmp_path / "state" / "fumehood" / "x") == "Not a directory"
    bad = tmp_path / "a\0b" / "x"
    assert "not one" in statefile.write(bad, b"one")
    assert "not one" in statefile.read(bad).why
    assert "not one" in statefile.forget(bad)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statefile.write(file, b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, f"no room for {descriptor}")

    monkeypatch.setattr(os, "fsync", full)
    assert statefile.write(file, b"two") == "No space left on device"
    assert statefile.read(file).data == b"one"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "HERE"}, "/s/fumehood/x"),
        ({"XDG_STATE_HOME": "s", "HOME": "HERE"}, "HERE/.local/state/fumehood/x"),
        ({"HOME": "HERE"}, "HERE/.local/state/fumehood/x"),
        ({"HOME": "HERE/none"}, None),
        ({"HOME": "h"}, None),
        ({}, None),
    ],
)
def test_the_place_is_the_users_state_folder(environ: dict[str, str], found: str | None, tmp_path: Path) -> None:
    here = {name: value.replace("HERE", str(tmp_path)) for name, value in environ.items()}
    wanted = Path(found.replace("HERE", str(tmp_path))) if found else None
    assert statefile.place(here, "x") == wanted
    assert list(tmp_path.iterdir()) == []
