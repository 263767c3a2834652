"""code.service.secret: the token of a backend, from a file that nobody else may read."""

import os
from pathlib import Path

import pytest

from fumehood.code.service.secret import read_token
from fumehood.core.settings import SettingsError
from fumehood.wire.auth import mint

pytestmark = pytest.mark.threat("C5")


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "token"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_minted_token_is_read(end: str, tmp_path: Path) -> None:
    token, _ = mint()
    assert read_token(written(tmp_path, token + end)) == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"others may read or write .*chmod 600"):
        read_token(written(tmp_path, "t" * 43, mode))


@pytest.mark.parametrize("text", ["", "\n", "short\n", "a" * 20 + " b\n", "a" * 20 + "\n\n", "é" * 20, "t" * 2000])
def test_a_file_without_one_token_is_refused_without_its_content(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no token") as caught:
        read_token(written(tmp_path, text))
    assert not text.strip() or text.strip() not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, words in (
        (None, "is not set"),
        (str(tmp_path / "nothing"), "cannot be read"),
        (str(tmp_path / "pipe"), "no regular file"),
        ("/\0", "cannot be read"),
    ):
        with pytest.raises(SettingsError, match=rf"code.runner_token_file: .*{words}"):
            read_token(path)
