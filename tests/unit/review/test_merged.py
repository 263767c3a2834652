import os
from pathlib import Path

import pytest

from fumehood.review import merged
from fumehood.review.states import ReviewEndedError, State


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("bottom", "middle", "top")]
    for layer in made:
        (layer / "home/nina").mkdir(parents=True)
    return made


def put(layer: Path, path: str, content: str = "x") -> None:
    (layer / path).parent.mkdir(parents=True, exist_ok=True)
    (layer / path).write_text(content)


def test_the_topmost_layer_wins(layers: list[Path]) -> None:
    put(layers[0], "home/nina/a", "old")
    put(layers[2], "home/nina/a", "new")
    assert merged.read(layers, "home/nina/a", 10) == b"new"
    assert merged.find(layers, "home/nina/a") == layers[2]


def test_a_lower_layer_shows_through_and_a_missing_file_is_none(layers: list[Path]) -> None:
    put(layers[0], "home/nina/a", "old")
    assert merged.read(layers, "home/nina/a", 10) == b"old"
    assert merged.read(layers, "home/nina/b", 10) is None
    assert merged.find(layers, "elsewhere/b") is None


@pytest.mark.root
def test_a_whiteout_hides_what_lies_below(layers: list[Path]) -> None:
    put(layers[0], "home/nina/a")
    os.mknod(layers[1] / "home/nina/a", 0o20000, 0)
    assert merged.read(layers, "home/nina/a", 10) is None


def test_an_opaque_folder_hides_what_lies_below(layers: list[Path]) -> None:
    put(layers[0], "home/nina/d/a")
    (layers[1] / "home/nina/d").mkdir()
    os.setxattr(layers[1] / "home/nina/d", "user.overlay.opaque", b"y")
    assert merged.read(layers, "home/nina/d/a", 10) is None


@pytest.mark.parametrize("where", ["home/nina/a", "home/nina"])
def test_a_link_on_the_way_ends_the_review(layers: list[Path], tmp_path: Path, where: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a").write_text("secret")
    top = layers[2] / where
    if where == "home/nina":
        top.rmdir()
        top.symlink_to(secret)
    else:
        top.symlink_to(secret / "a")
    with pytest.raises(ReviewEndedError) as caught:
        merged.read(layers, "home/nina/a", 10)
    assert caught.value.state is State.TARGET_FAILED
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("make", ["folder", "fifo", "file above"])
def test_what_is_no_regular_file_ends_the_review_and_never_blocks(layers: list[Path], make: str) -> None:
    path = layers[1] / "home/nina/a"
    if make == "folder":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    else:
        path.write_text("x")
    with pytest.raises(ReviewEndedError):
        merged.read(layers, "home/nina/a/b" if make == "file above" else "home/nina/a", 10)


def test_a_file_over_the_limit_ends_the_review(layers: list[Path]) -> None:
    put(layers[0], "home/nina/a", "x" * 11)
    with pytest.raises(ReviewEndedError):
        merged.read(layers, "home/nina/a", 10)
