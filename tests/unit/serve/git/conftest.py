"""Repositories made by real git, and tools that ask a real git about them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from fumehood.content.passage import Answer, Passage
from fumehood.core.budget import Budget
from fumehood.core.jsonio import JsonValue
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.denylist import Denylist
from fumehood.fence.workspace import Workspace
from fumehood.serve.access import Access
from fumehood.serve.context import Context, Definition, Ended
from fumehood.serve.tool import Tool

GIT = shutil.which("git") or pytest.fail("git is not installed")
# What a developer's git does without any of our closures; only its own global configuration is kept out.
PLAIN = {"HOME": "/dev/null", "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
WRITER = {
    **PLAIN,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
}


class Run:
    """A child of the starter, without the starter's walls."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def chunks(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        while chunk := self._process.stdout.read1(65536):  # type: ignore[attr-defined]  # a BufferedReader
            yield chunk

    def wait(self) -> Ended:
        _, errors = self._process.communicate(timeout=20)
        status = self._process.returncode
        return Ended(status=status if status >= 0 else 128 - status, stderr=errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass
class Starts:
    """Starts git in one folder, and keeps what it was started with."""

    root: Path
    asked: list[tuple[tuple[bytes, ...], dict[str, str]]] = field(default_factory=list)

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> Run:
        budget.check()
        assert program == "git"
        words = tuple(os.fsencode(word) for word in arguments)
        self.asked.append((words, dict(environment)))
        return Run(
            subprocess.Popen(
                [os.fsencode(GIT), *words],
                cwd=self.root,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )


class NoSymbols:
    def definitions(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        raise AssertionError((language, source, budget))


@dataclass(kw_only=True)
class Repo:
    """A folder that is a repository, and the tools over it."""

    root: Path
    context: Context
    programs: Starts

    def git(self, *words: str, env: Mapping[str, str] = WRITER, check: bool = True) -> bytes:
        done = subprocess.run([GIT, *words], cwd=self.root, env=env, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        self.write(files)
        self.git("add", "--all", "--force")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").decode().strip()

    def call(self, tool: Tool, **arguments: JsonValue) -> "Told":
        return Told(tool.run(arguments, self.context))


@dataclass
class Told:
    """An answer as a test reads it: nothing of it is hidden from the test."""

    answer: Answer

    @property
    def text(self) -> str:
        return "".join(_passage(passage) for passage in self.answer.passages) + "\n".join(self.answer.notes)

    @property
    def facts(self) -> dict[str, JsonValue]:
        return self.answer.facts

    @property
    def everything(self) -> str:
        after = "".join(passage.after.reveal().decode() for passage in self.answer.passages)
        return f"{self.text}{self.facts}{after}"


def _passage(passage: Passage) -> str:
    heading = passage.heading.reveal().decode() if passage.heading else ""
    text = passage.text.reveal().decode("utf-8")
    assert text.endswith("\n")
    return f"# {heading}\n{text}"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Repo]]:
    """Open a folder (made where it is not) as a workspace with tools over it."""
    opened = []

    def build(root: Path | None = None, *, init: bool = True, **settings: int) -> Repo:
        folder = root or tmp_path / "work"
        folder.mkdir(parents=True, exist_ok=True)
        held = Workspace.open(folder)
        workspace = held.__enter__()
        opened.append(held)
        programs = Starts(folder)
        context = Context(
            access=Access(workspace, Denylist(), name=folder.name),
            settings=WorkspaceSettings(**settings),  # type: ignore[arg-type]  # a table of keyword arguments
            budget=Budget(30),
            programs=programs,
            symbols=NoSymbols(),
        )
        repo = Repo(root=folder, context=context, programs=programs)
        if init:
            repo.git("init", "-q", "-b", "main")
        return repo

    yield build
    for held in opened:
        held.__exit__(None, None, None)


@pytest.fixture
def repo(make: Callable[..., Repo]) -> Repo:
    """A repository with two commits."""
    made = make()
    made.commit({"a.txt": "one\ntwo\n", "src/b.py": "x = 1\n"}, "First")
    made.commit({"a.txt": "one\nTWO\n"}, "Second: change a\n\nWith a body.")
    return made


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[str], tuple[str, Path]]:
    """A program that leaves a mark when it is run: its command line, and the mark."""

    def plant(name: str) -> tuple[str, Path]:
        mark = tmp_path / "marks" / name
        mark.parent.mkdir(exist_ok=True)
        program = tmp_path / f"run-{name}"
        program.write_text(f"#!{sys.executable} -IS\nopen({str(mark)!r}, 'w').close()\n")
        program.chmod(0o755)
        return str(program), mark

    return plant
