"""Folders that walks and searches pass over."""

import pytest

from fumehood.fence import generated


@pytest.mark.parametrize("name", ["node_modules", "Node_Modules", ".venv", "build", "fumehood.egg-info", "__pycache__"])
def test_a_generated_folder_is_known_in_any_case(name: str) -> None:
    assert generated.is_generated(name)


@pytest.mark.parametrize("name", ["src", "builder", "distance", "tests", ".github", ""])
def test_an_ordinary_folder_is_none(name: str) -> None:
    assert not generated.is_generated(name)


def test_the_globs_for_search_name_folders_only_and_every_one() -> None:
    globs = generated.search_globs()
    assert all(glob.startswith("!**/") and glob.endswith("/") for glob in globs)
    assert all(name in globs[0] for name in generated.FOLDERS)
