"""What a walk over a project has met: languages, manifests, entry points, tests. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from fumehood.core import limits
from fumehood.serve.overview import languages, manifests

_ENTRY_DEPTH = 4  # folders above an entry point: src/PACKAGE/cmd/main.go
Counted = tuple[int, int]  # lines and bytes


@dataclass(slots=True)
class Language:
    """What is written in one language."""

    files: int = 0
    lines: int = 0
    uncounted: int = 0  # files whose lines are not in `lines`


@dataclass(slots=True)
class Survey:
    """The sum of what was met."""

    files: int = 0
    read_bytes: int = 0
    languages: dict[str, Language] = field(default_factory=dict)
    manifests: list[tuple[tuple[str, ...], str, str]] = field(default_factory=list)  # folders, name, kind
    entries: list[str] = field(default_factory=list)
    test_files: int = 0
    test_folders: Counter[str] = field(default_factory=Counter)

    def reads(self, name: str) -> bool:
        """Whether the lines of a file of this name are to be counted."""
        return languages.language(name) is not None and self.read_bytes < limits.OVERVIEW_READ_BYTES

    def add(self, folders: tuple[str, ...], name: str, counted: Counted | None) -> None:
        """One file; `counted` is None when its lines were not counted."""
        self.files += 1
        spoken = languages.language(name)
        if spoken is not None:
            known = self.languages.setdefault(spoken, Language())
            known.files += 1
            known.lines += counted[0] if counted else 0
            known.uncounted += counted is None
            self.read_bytes += counted[1] if counted else 0
        path = "/".join((*folders, name))
        tested = languages.is_test(folders, name)
        if tested:
            self.test_files += 1
            self.test_folders[languages.test_folder(folders) or "/".join(folders)] += 1
        elif languages.is_entry(name) and len(folders) <= _ENTRY_DEPTH:
            self.entries.append(path)
        if (kind := manifests.kind(name)) is not None:
            self.manifests.append((folders, name, kind))

    def ranked(self) -> list[tuple[str, Language]]:
        """The languages, the one with most lines first."""
        return sorted(self.languages.items(), key=lambda one: (-one[1].lines, -one[1].files, one[0]))

    def nearest(self) -> list[tuple[str, str]]:
        """The manifests to be read, those nearest to the root first: path and kind."""
        chosen = sorted(self.manifests, key=lambda one: (len(one[0]), one))[: limits.OVERVIEW_MANIFESTS]
        return [("/".join((*folders, name)), kind) for folders, name, kind in chosen]
