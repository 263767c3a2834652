"""What a call takes does not grow with what it looks through."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from served.talk import Talk

FILES = 40
ALLOWED = 16 * limits.MIB  # a batch of files, their lines and the controls' copies; the files together are 20 MiB


def peak(pid: int) -> int:
    """The most that a process has held so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * limits.KIB for line in lines if line.startswith("VmHWM"))


def search(talk: Talk, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Every page of an answer."""
    page = talk.call("search_code", arguments)["structuredContent"]
    yield page
    while "next_cursor" in page:
        page = talk.call("search_code", {**arguments, "cursor": page["next_cursor"]})["structuredContent"]
        yield page


@pytest.mark.sandbox
@pytest.mark.threat("T8")
def test_a_search_over_endless_lines_is_answered_and_memory_stays_flat(tmp_path: Path) -> None:
    line = "x" * 250_000 + " needle " + "y" * 250_000 + "\n"
    for number in range(FILES):
        (tmp_path / f"{number:02}.js").write_text(line)
    (tmp_path / "large.js").write_text(line * 6)  # 3 MB: passed by, and counted
    (tmp_path / "plain.txt").write_text("a needle\n")
    (tmp_path / "latin.txt").write_bytes(b"un caf\xe9 au lait: needle\n" * 20)
    with Talk(tmp_path) as talk:
        talk.call("search_code", {"pattern": "a needle"})  # whatever is loaded at the first call is loaded now
        before = peak(talk.process.pid)
        pages = list(search(talk, pattern="needle", max_results=200))
        grown = peak(talk.process.pid) - before
    files = [file["path"] for page in pages for file in page["files"]]
    assert files == sorted([*(f"{number:02}.js" for number in range(FILES)), "latin.txt", "plain.txt"])
    assert sum(page["clipped_lines"] for page in pages) == FILES
    assert pages[0]["skipped"]["too_large"] == 1
    assert grown < ALLOWED
