"""fence.lines: lines are counted, and nothing else is read."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.fence import lines


def counted(folder: Path, name: str, limit: int = 1000) -> tuple[int, int] | None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return lines.count(fd, name, limit)
    finally:
        os.close(fd)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\0"]), max_size=8).map(b"".join))
def test_every_line_counts_the_last_one_too(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    assert counted(tmp_path, "f") == (whole.count(b"\n"), len(data))


@pytest.mark.threat("T8")
def test_links_second_names_large_files_and_what_is_no_file_are_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("one\ntwo\n")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    os.link(outside, folder / "hard")
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "large").write_bytes(b"x" * 1001)
    for name in ("link", "hard", "fifo", "folder", "large", "missing"):
        assert counted(folder, name) is None
    (folder / "plain").write_text("one\ntwo\n")
    assert counted(folder, "plain") == (2, 8), "the negative control"
