"""code.selftest: what a self test plants is taken away again, whatever became of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fumehood.code import selftest

PLANTED = f"{selftest._PREFIX}x"


def left(place: Path) -> Path:
    """What a killed self test has left, with a folder that nobody may enter."""
    folder = place / PLANTED
    (folder / "in" / "it").mkdir(parents=True)
    (folder / "secret.txt").write_text("mark")
    (folder / "in").chmod(0)
    folder.chmod(0o777)
    return folder


@pytest.mark.threat("C5")
def test_what_a_killed_self_test_left_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_MAKING_SECONDS", -60.0)
    (tmp_path / "other").mkdir()
    (tmp_path / f"{selftest._PREFIX}link").symlink_to(tmp_path / "other")
    (tmp_path / f"{selftest._PREFIX}file").write_text("x")
    folder = left(tmp_path)
    selftest._sweep(tmp_path)
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 3  # what is no folder is nobody's of ours


def _young(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setattr(selftest, "_MAKING_SECONDS", 60.0)


def _foreign(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)


@pytest.mark.threat("C5")
@pytest.mark.parametrize("case", [_young, _foreign])
def test_what_is_new_or_of_somebody_else_stays(
    case: Callable[[pytest.MonkeyPatch, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "_MAKING_SECONDS", -60.0)
    case(monkeypatch, tmp_path)
    folder = left(tmp_path)
    selftest._sweep(tmp_path)
    assert folder.exists()
    (folder / "in").chmod(0o700)


@pytest.mark.threat("C5")
def test_what_another_self_test_uses_stays_and_is_gone_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "_MAKING_SECONDS", -60.0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with selftest._place() as place:
        selftest._sweep(tmp_path)
        assert [str(path) for path in tmp_path.iterdir()] == [place]
    assert list(tmp_path.iterdir()) == []
