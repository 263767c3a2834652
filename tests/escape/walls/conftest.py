"""A starter on this host, with Python as a third program: what it tries, git and ripgrep could try."""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.budget import Budget
from fumehood.sandbox import landlock, launch, seccomp, starter
from fumehood.sandbox.probe import served
from fumehood.sandbox.spec import Profile
from fumehood.sandbox.started import Ended

_REAL = os.path.realpath(sys.executable)
PYTHON = Path(_REAL if _REAL.startswith("/usr/") else "/usr/bin/python3").resolve()
PRELUDE = """
import errno, json, os, socket, sys
def attempt(act):
    try:
        answer = act()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        return type(error).__name__
    return answer if isinstance(answer, (str, int, list)) else 'OK'
def say(answer):
    print(json.dumps(answer), flush=True)
"""
Weaken = Callable[[landlock.Ruleset], landlock.Ruleset]


@dataclass
class Trial:
    """Runs programs behind a starter's walls."""

    starter: starter.Starter
    root: Path

    def run(self, program: str, *arguments: str, **environment: str) -> tuple[bytes, Ended]:
        """Run a program to its end."""
        with self.starter.start(program, arguments, environment, Budget()) as child:
            return b"".join(child.chunks()), child.wait()

    def tried(self, program: str) -> Any:
        """What a Python program said that ran there."""
        out, ended = self.run("python", "-I", "-S", "-c", PRELUDE + program)
        assert ended.status == 0, ended
        return json.loads(out)


@dataclass
class Trials:
    """Starts starters, whole or with one wall taken away."""

    root: Path
    descriptor: int
    programs: Mapping[str, Path]
    monkeypatch: pytest.MonkeyPatch
    running: list[starter.Starter]

    def start(self, *, weaken: Weaken | None = None, profile: Profile | None = Profile.GIT) -> Trial:
        """Start one; `weaken` widens its ruleset, another profile stands in for that of its seccomp program.

        Without a profile there is no seccomp program at all, the one that lets a program start once included.
        """
        with self.monkeypatch.context() as patched:
            if weaken is not None:
                whole = starter.ruleset
                patched.setattr(starter, "ruleset", lambda root, programs: weaken(whole(root, programs)))
            if profile is not Profile.GIT:
                made = seccomp.program
                patched.setattr(seccomp, "program", lambda _, machine: made(profile, machine) if profile else b"")
            one = starter.start(self.descriptor, self.programs)
        self.running.append(one)
        one.ready()
        return Trial(starter=one, root=self.root)


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    """A workspace in a folder of its own, beside what is outside."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "inside.txt").write_text("inside\n")
    (tmp_path / "outside.txt").write_text("outside\n")
    found = served.find({})
    assert not found.problems, found.problems
    running: list[starter.Starter] = []
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    with launch.closing(descriptor):
        yield Trials(
            root=root,
            descriptor=descriptor,
            programs=found.paths | {"python": PYTHON},
            monkeypatch=monkeypatch,
            running=running,
        )
        for one in running:
            one.close()


@pytest.fixture
def trial(trials: Trials) -> Trial:
    """A starter with every wall."""
    return trials.start()


@pytest.fixture
def prelude() -> str:
    """The words that `Trial.tried` puts before a program."""
    return PRELUDE


@pytest.fixture
def widened() -> Callable[..., Weaken]:
    """What takes one wall of a ruleset away: the fields that replace its own, added to them where they are places."""

    def weaken(**fields: Any) -> Weaken:
        def widen(whole: landlock.Ruleset) -> landlock.Ruleset:
            added = {n: getattr(whole, n) + v if isinstance(v, tuple) else v for n, v in fields.items()}
            return dataclasses.replace(whole, **added)

        return widen

    return weaken
