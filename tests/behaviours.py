"""The behaviours that a review has to record: their packages, their quiet twins, and what a row has to look like."""

import fnmatch
import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
FOLDER = FIXTURES / "behaviours"
_SHARED = ("server.js", "post.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One row that has to be there; `detail` has a pattern for each member."""

    words: str
    phase: str
    type: str
    collector: str
    detail: Mapping[str, str]
    step: str = ""

    def is_row(self, row: Mapping[str, Any], places: Mapping[str, str]) -> bool:
        """Whether a row of a result is it."""
        said = (row["phase"], row["type"], row["collector"])
        if said != (self.phase, self.type, self.collector) or (self.step and row["step"] != self.step):
            return False
        return all(_fits(row["detail"].get(name), _placed(p, places)) for name, p in self.detail.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One behaviour: how its package is made, what is asked, what has to be recorded."""

    number: int
    name: str
    fact: tuple[Fact, ...]
    differs: tuple[str, ...]  # words that the difference to the quiet twin has to name
    files: tuple[str, ...] = ()
    server: str = ""
    hook: str = ""
    quiet: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)

    def make(self, place: Path, *, quiet: bool) -> Path:
        """Its package, or the quiet twin's, as a new folder below `place`."""
        folder = place / ("twin" if quiet else "package")
        if self.server:
            shutil.copytree(FIXTURES / "servers" / self.server, folder)
        else:
            self._compose(folder)
        if quiet:
            self._quieten(folder)
        return folder

    def _compose(self, folder: Path) -> None:
        folder.mkdir()
        for name in (*_SHARED, *self.files):
            shutil.copyfile(FOLDER / name, folder / Path(name).name)
        if not (folder / "act.js").exists():
            shutil.copyfile(FOLDER / "nothing.js", folder / "act.js")
        about: dict[str, Any] = {"name": "fixture-behaviour", "version": "1.0.0", "bin": {"notes": "server.js"}}
        root = {**about, **({"hasInstallScript": True} if self.hook else {})}
        lock = {"name": about["name"], "version": "1.0.0", "lockfileVersion": 3, "requires": True}
        scripts = {"scripts": {self.hook: "node hook.js"}} if self.hook else {}
        (folder / "package.json").write_text(json.dumps({**about, "private": True, **scripts}))
        (folder / "package-lock.json").write_text(json.dumps({**lock, "packages": {"": root}}))

    def _quieten(self, folder: Path) -> None:
        instead = dict(self.quiet) or {Path(name).name: "" for name in self.files}
        for name, source in instead.items():
            shutil.copyfile(FOLDER / (source or "nothing.js"), folder / name)
        if not (folder / "act.js").exists():
            shutil.copyfile(FOLDER / "nothing.js", folder / "act.js")


def behaviours() -> Iterator[Behaviour]:
    """All of them, as behaviours.toml has them."""
    with (FOLDER / "behaviours.toml").open("rb") as file:
        entries = tomllib.load(file)["behaviour"]
    for entry in entries:
        facts = tuple(Fact(**fact) for fact in entry.pop("fact"))
        files, differs = tuple(entry.pop("files", ())), tuple(entry.pop("differs"))
        yield Behaviour(fact=facts, files=files, differs=differs, **entry)


def _placed(pattern: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern


def _fits(value: Any, pattern: str) -> bool:
    if isinstance(value, list):
        return any(_fits(entry, pattern) for entry in value)
    text = value if isinstance(value, str) else json.dumps(value)
    return value is not None and fnmatch.fnmatchcase(text, pattern)
