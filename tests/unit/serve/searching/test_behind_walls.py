"""Both tools through the real starter, and what ripgrep itself is told by its walls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.budget import Budget
from fumehood.fence.search import Listed
from fumehood.sandbox import starter
from fumehood.serve.context import Child, Programs
from fumehood.serve.programs import StarterPrograms
from fumehood.serve.symbols import reader
from fumehood.serve.tools import find_symbol, search_code
from served.plainly import RIPGREP, Served


@pytest.fixture
def walled(here: Served) -> Iterator[Programs]:
    assert RIPGREP
    with starter.start(here.context.access.root_fd, {"rg": Path(RIPGREP)}) as running:
        running.ready()
        yield StarterPrograms(running)


@dataclass
class Swapping:
    """Programs that replace a folder by a link before they start, and tell what ripgrep named then."""

    programs: Programs
    folder: Path
    target: Path

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> Child:
        if not self.folder.is_symlink():
            self.folder.rename(self.folder.with_name("moved"))
            self.folder.symlink_to(self.target)
        return self.programs.start(program, arguments, environment, budget)

    def named(self, arguments: Sequence[str | bytes]) -> list[bytes]:
        with self.start("rg", arguments, {}, Budget(60.0)) as child:
            listed = Listed()
            return [path for chunk in child.chunks() for path in listed.feed(chunk)]


def test_both_tools_answer_through_the_starter(here: Served, walled: Programs) -> None:
    here.put("src/a.py", "def needle(): pass\n")
    here.put(".env", "def needle(): pass\n")
    context = replace(here.context, programs=walled)
    found = search_code.TOOL.run({"pattern": r"def n\w+", "regex": True}, context)
    assert found.facts["matches"] == 1
    assert found.facts["skipped"] == {"denied": 1}
    with reader.start() as symbols:
        answer = find_symbol.TOOL.run({"symbol": "needle"}, replace(context, symbols=symbols))
    definitions: Any = answer.facts["definitions"]
    assert [row["path"] for row in definitions] == ["src/a.py"]


@pytest.mark.threat("T2")
def test_a_folder_that_becomes_a_link_is_read_by_nobody(here: Served, walled: Programs) -> None:
    outside = here.root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("needle\n")
    (here.root / "src").mkdir()
    swapping = Swapping(walled, here.root / "src", outside)
    answer = search_code.TOOL.run({"pattern": "needle", "path": "src"}, replace(here.context, programs=swapping))
    assert answer.facts["files"] == []
    listing: list[str | bytes] = ["--files-with-matches", "--null", "--no-config", "--regexp=needle", "--", b"./src"]
    assert swapping.named(listing) == []  # its walls
    bare = Swapping(here.programs, here.root / "src", outside)
    assert bare.named(listing) == [b"src/secret.txt"]  # and without them; what is opened is refused all the same
    answer = search_code.TOOL.run({"pattern": "needle"}, replace(here.context, programs=bare))
    assert answer.facts["files"] == []
