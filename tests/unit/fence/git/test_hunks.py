"""fence.git.hunks: hunks are narrowed to what git itself would give, and what stands around them is kept."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.fence.git import hunks

LINES = st.lists(st.sampled_from(["a", "b", "", "+c", "-d", "@@ -1 +1 @@", "\\ x"]), max_size=40)


def difference(folder: Path, old: str, new: str, context: int) -> bytes:
    (folder / "old").write_text(old)
    (folder / "new").write_text(new)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", f"-U{context}", "--inter-hunk-context=0", "old", "new"],
        cwd=folder,
        env={"HOME": "/dev/null", "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        check=False,
        timeout=20,
    )
    at = done.stdout.find(b"\n@@ ")
    return done.stdout[at + 1 :] if at >= 0 else b""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=LINES, new=LINES, context=st.integers(0, 4), end=st.sampled_from(["", "\n"]))
def test_narrowed_hunks_are_those_of_git(
    tmp_path: Path, old: list[str], new: list[str], context: int, end: str
) -> None:
    before, after = ("".join(f"{line}\n" for line in side)[:-1] + end if side else "" for side in (old, new))
    wide = difference(tmp_path, before, after, 1000)
    narrow = difference(tmp_path, before, after, context)
    ours = b"".join(hunk.header + b"\n" + hunk.lines for hunk in hunks.narrowed(wide, context))
    assert ours == re.sub(rb"(?m)^(@@ -\S+ \+\S+ @@)[^\n]*$", rb"\1", narrow)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=LINES, new=LINES, context=st.integers(0, 4))
def test_what_stands_around_a_hunk_joins_it(tmp_path: Path, old: list[str], new: list[str], context: int) -> None:
    before, after = ("".join(f"{line}\n" for line in side) for side in (old, new))
    wide = difference(tmp_path, before, after, 1000)
    body = wide.partition(b"\n")[2]
    for hunk in hunks.narrowed(wide, context):
        assert hunk.before + hunk.lines + hunk.after in body


def test_a_difference_in_several_wide_hunks_and_one_that_was_cut() -> None:
    wide = b"@@ -1,2 +1,2 @@ f\n-a\n+b\n c\n@@ -90 +90 @@\n-x\n+y\n"
    found = list(hunks.narrowed(wide, 3))
    assert [hunk.header for hunk in found] == [b"@@ -1,2 +1,2 @@", b"@@ -90 +90 @@"]
    assert next(hunks.narrowed(wide[:22], 3)).lines == b"-a\n"
    assert list(hunks.narrowed(b"", 3)) == []
    assert list(hunks.narrowed(b"@@ odd\n+a\n", 3)) == []


@pytest.mark.threat("T8")
def test_many_changes_in_one_wide_hunk_cost_what_is_near_them() -> None:
    wide = b"@@ -1,90000 +1,90000 @@\n" + b"".join(b"-%d\n+x\n" % n + b" y\n" * 8 for n in range(9000))
    found = list(hunks.narrowed(wide, 1))
    assert len(found) == 9000
    assert max(len(hunk.before) for hunk in found) <= 8 * limits.DIFF_AROUND_LINES
