"""The scan for secrets of `make lint` finds what it looks for, in a committed file and in what was committed once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / ".gitleaks.toml"
TOKEN = "ghp_" + "".join("aB3dE7gH9j"[n % 10] + str(n % 7) for n in range(18))


def gitleaks(*words: str, cwd: Path) -> int:
    command = [str(Path(sys.executable).parent / "gitleaks"), *words, "--no-banner", "--config", str(CONFIG)]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, timeout=60).returncode


@pytest.mark.threat("T14")
def test_a_planted_token_is_found_and_a_tree_without_one_passes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "module.py"
    file.write_text("value = 1\n")
    assert gitleaks("dir", ".", cwd=tmp_path) == 0
    file.write_text(f'value = "{TOKEN}"\n')
    assert gitleaks("dir", ".", cwd=tmp_path) == 1


@pytest.mark.threat("T14")
def test_a_token_that_was_removed_again_is_found_in_the_history(tmp_path: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, env=environment)

    git("init", "-q")
    for text in (f'value = "{TOKEN}"\n', "value = 1\n"):
        (tmp_path / "module.py").write_text(text)
        git("add", "module.py")
        git("commit", "-q", "-m", "Change")
    assert gitleaks("dir", ".", cwd=tmp_path) == 0
    assert gitleaks("git", ".", cwd=tmp_path) == 1
