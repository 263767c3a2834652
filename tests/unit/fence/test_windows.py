"""Paths as Windows reads them, on every system."""

from pathlib import PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import errors
from fumehood.fence import windows

ROOT = r"C:\w\root"
SHARE = r"\\server\share\root"
MAPPED = {"Z:": r"\\server\share"}


@pytest.mark.parametrize(
    ("root", "path", "parts"),
    [
        (ROOT, r"src\a.py", ("src", "a.py")),
        (ROOT, "src/a.py", ("src", "a.py")),
        (ROOT, r".\src\\a.py", ("src", "a.py")),
        (ROOT, r"c:\w\root\a.py", ("a.py",)),
        (ROOT, r"C:/W/ROOT/a.py", ("a.py",)),
        (r"c:\w\root", r"C:\w\root\A.py", ("A.py",)),
        (ROOT, r"\\?\C:\w\root\a.py", ("a.py",)),
        (ROOT, r"\??\C:\w\root\a.py", ("a.py",)),
        (ROOT, "file:///c%3A/w/root/a.py", ("a.py",)),
        (ROOT, "file:///C:/w/root/a%20b.py", ("a b.py",)),
        (ROOT, "file:///C|/w/root/a.py", ("a.py",)),
        (ROOT, "file:/C:/w/root/a.py", ("a.py",)),
        (ROOT, "FILE://localhost/C:/w/root/a.py", ("a.py",)),
        ("C:\\", r"C:\a", ("a",)),
        ("C:\\", "file:///C:", ()),
        (ROOT, ROOT, ()),
        (ROOT, "", ()),
        (SHARE, r"\\SERVER\Share\root\a.py", ("a.py",)),
        (SHARE, "//server/share/root/a.py", ("a.py",)),
        (SHARE, r"\\?\UNC\server\share\root\a.py", ("a.py",)),
        (SHARE, r"Z:\root\a.py", ("a.py",)),
        (SHARE, "file://server/share/root/a.py", ("a.py",)),
        (r"z:\root", r"\\server\share\root\a.py", ("a.py",)),
        (r"\\server\share", r"\\server\share\child\a.py", ("child", "a.py")),
    ],
)
def test_every_spelling_of_a_place_inside_gives_its_components(root: str, path: str, parts: tuple[str, ...]) -> None:
    assert windows.beneath(root, path, mapped=MAPPED) == parts


@pytest.mark.threat("T1")
@pytest.mark.parametrize(
    ("root", "path"),
    [
        (ROOT, r"C:\w\root_sibling\s.txt"),
        (ROOT, r"C:\w"),
        (ROOT, r"D:\w\root\a"),
        (ROOT, r"..\x"),
        (ROOT, r"a\..\..\x"),
        (ROOT, "a/../b"),
        (ROOT, r"C:\w\root\..\x"),
        (ROOT, "C:a.py"),
        (ROOT, r"\w\root\a.py"),
        (ROOT, "/w/root/a.py"),
        (ROOT, r"\\.\C:\w\root\a.py"),
        (ROOT, r"\\.\PhysicalDrive0"),
        (ROOT, r"\\?\Volume{b75e2c83-0000-0000-0000-602f00000000}\w\root\a"),
        (ROOT, r"\\?\GLOBALROOT\Device\HarddiskVolume1\w"),
        (ROOT, r"\\server\share\w\root\a.py"),
        (ROOT, r"\\localhost\C$\w\root\a.py"),
        (ROOT, "file:///C:/w/root/..%2Fx"),
        (ROOT, "file:///C:/w/root/a%00"),
        (ROOT, "file:///C:/w/root/%ff"),
        (ROOT, "file:///C:/w/root/a?b"),
        (ROOT, "file:///w/root/a"),
        (ROOT, "file://server/share/a"),
        (SHARE, r"\\server\other\root\a"),
        (SHARE, r"\\server2\share\root\a"),
        (SHARE, r"\\server"),
        (SHARE, r"Y:\root\a.py"),
        (SHARE, r"\\server\share\root2\a.py"),
    ],
)
def test_whatever_leads_elsewhere_is_refused_in_the_same_words(root: str, path: str) -> None:
    with pytest.raises(errors.OutsideWorkspaceError) as refused:
        windows.beneath(root, path, mapped=MAPPED)
    assert refused.value.message.endswith("leads out of the workspace or through a link")


@pytest.mark.threat("T3")
@pytest.mark.parametrize(
    "name",
    [
        ".env::$DATA",
        "a.txt:stream",
        "ENV~1",
        "PROGRA~1.TXT",
        ".env.",
        "a ",
        "CON",
        "nul.txt",
        "com1",
        "LPT9.x",
        "com¹",
        "CONIN$",
        "aux .txt",
        "a*",
        "a?",
        'a"',
        "a<b",
        "a|b",
        "a\x1fb",
    ],
)
def test_a_name_that_windows_reads_as_another_is_refused(name: str) -> None:
    assert not windows.is_ordinary(name)
    with pytest.raises(errors.RefusedError):
        windows.beneath(ROOT, f"src\\{name}")


@pytest.mark.parametrize("name", ["console", "a.b", ".env", "com", "com10", "nullable.txt", "a~b", "aux-1", "é", "v1~"])
def test_an_ordinary_name_is_ordinary(name: str) -> None:
    assert windows.is_ordinary(name)


def test_a_root_that_is_not_absolute_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="absolute"):
        windows.beneath("w", "a")


@given(st.text("aA.~:/\\*C% \u00b9", max_size=30))
def test_what_is_accepted_lies_below_the_root_by_pathlib_too(path: str) -> None:
    try:
        parts = windows.beneath(ROOT, path)
    except errors.RefusedError:
        return
    joined = PureWindowsPath(ROOT, *parts)
    assert joined.is_relative_to(PureWindowsPath(ROOT))
    assert all(windows.is_ordinary(part) for part in parts)
    if ":" not in path:
        assert PureWindowsPath(ROOT, path) == joined
