"""A place for guarded servers through which a server of another uid can pass, and the command that guards them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from e2e.bench import Command
from loopback.speaking import Speaker

SERVER = Path(__file__).parents[1] / "fixtures" / "guarded" / "server.py"
PYTHON = "/usr/bin/python3"  # seen by every server


class Guarded(Speaker):
    """A client of one command line, with an environment and a folder of its own."""

    def __init__(self, argv: list[str], era: str, environment: dict[str, str], folder: Path) -> None:
        """Start it."""
        self.era = era
        self.lines = []
        self.answers = {}
        self._rest = b""
        self._last = 0
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=folder,
        )


@dataclass(kw_only=True)
class Hall:
    """Where servers lie: everybody may pass, and `server.py` is there."""

    place: Path
    command: Command
    held: Callable[[Guarded], Guarded]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The fixture server, as a server may read it."""
        return str(self.place / "server.py")

    def folder(self, name: str, *, mode: int = 0o755) -> Path:
        """A new folder that others may use so."""
        made = self.place / name
        made.mkdir()
        made.chmod(mode)
        return made

    def file(self, path: str, text: str) -> Path:
        """A new file that others may read."""
        made = self.place / path
        made.write_text(text, encoding="utf-8")
        made.chmod(0o644)
        return made

    def argv(self, *words: str) -> list[str]:
        """`fumehood guard` with these words."""
        return [sys.executable, "-m", "fumehood", "guard", *words]

    @property
    def environment(self) -> dict[str, str]:
        """What the command is given: a home in which nothing is, and what the test adds."""
        return {**self.command.environment(), **self.variables}

    def guard(self, *flags: str, era: str = "legacy", words: tuple[str, ...] = ()) -> Guarded:
        """The fixture server behind guard; flags before, its own words behind."""
        argv = self.argv("--allow-read", self.server, *flags, "--", PYTHON, self.server, *words)
        return self.held(Guarded(argv, era, self.environment, Path("/")))

    def bare(self, *, era: str = "legacy", words: tuple[str, ...] = ()) -> Guarded:
        """The same server with nothing around it, with this environment."""
        return self.held(Guarded([PYTHON, self.server, *words], era, self.environment, Path("/")))

    def run(self, *words: str, before: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        """`fumehood guard WORDS` to its end, with no input."""
        return subprocess.run(
            [*before, *self.argv(*words)],
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def prepare(place: Path) -> None:
    """Lay out a hall."""
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    copied = Path(shutil.copy(SERVER, place / "server.py"))
    copied.chmod(0o644)


def name() -> str:
    """A folder of this process's own."""
    return f"/var/tmp/fumehood-guard-{os.getuid()}-{os.getpid()}"
