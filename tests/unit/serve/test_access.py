"""serve.access: from a path as asked to bytes, or to words that tell nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import errors
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.denylist import Denylist
from fumehood.fence.workspace import Workspace
from fumehood.serve.access import Access


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("hello")
    (tmp_path / "ws/.env").write_text("inside but denied")
    (tmp_path / "ws_sibling").mkdir()
    (tmp_path / "ws_sibling/s.txt").write_text("outside")
    (tmp_path / "other name").symlink_to("ws")
    return tmp_path / "ws"


@contextmanager
def opened(root: Path, judge: Callable[[bytes, bytes], bool] = lambda *_: False, **settings: Any) -> Iterator[Access]:
    with Access.opened(root, WorkspaceSettings(**settings), judge) as access:
        yield access


def said(act: Callable[[], object]) -> str:
    """The code and words of a refusal, without the path as it was asked for."""
    with pytest.raises(errors.RefusedError) as refused:
        act()
    return f"{refused.value.code} {refused.value.message.split(chr(39), 2)[2]} {refused.value.remedy}"


@pytest.mark.parametrize(
    ("asked", "clean"),
    [
        ("src/a.py", b"src/a.py"),
        ("./src//./a.py", b"src/a.py"),
        ("src/", b"src"),
        (".", b"."),
        ("./", b"."),
        ("", b"."),
        (r"caf\xe9", b"caf\xe9"),
        ("é", "é".encode()),
        ("..a/b..", b"..a/b.."),
    ],
)
def test_a_path_is_made_clean(root: Path, asked: str, clean: bytes) -> None:
    with opened(root) as access:
        assert access.relative(asked) == clean
        assert access.relative(f"{root}/{asked}") == clean


@pytest.mark.threat("T1")
def test_both_spellings_of_the_root_lead_inside_and_answers_use_neither(root: Path) -> None:
    linked = root.parent / "other name"
    with opened(linked) as access:
        assert access.name == "ws"
        for spelling in (linked, root):
            assert access.relative(f"{spelling}/src/a.py") == b"src/a.py"
            assert access.relative(str(spelling)) == b"."
            assert access.read(f"{spelling}/src/a.py", 100) == b"hello"


OUTSIDE = [
    "../ws_sibling/s.txt",
    "../ws_sibling/none.txt",
    "src/../../ws_sibling/s.txt",
    "src/../a.py",
    "none/../../x",
    "/etc/passwd",
    "/none",
    "{root}_sibling/s.txt",
    "{root}/../ws_sibling/s.txt",
    "link",
    "missing",
    "folder/s.txt",
    "folder/none.txt",
    "up/ws_sibling/s.txt",
    "proc/self/environ",
    "loop",
    "/proc/self/fd/0",
]


@pytest.fixture
def linked(root: Path) -> Path:
    links: dict[str, str | Path] = {
        "link": "../ws_sibling/s.txt",
        "missing": "../ws_sibling/none.txt",
        "folder": root.parent / "ws_sibling",
        "up": "..",
        "proc": "/proc",
        "loop": "loop",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


@pytest.mark.threat("T1")
@pytest.mark.threat("T2")
@pytest.mark.threat("T10")
@pytest.mark.parametrize("follow", [False, True])
def test_whatever_leads_out_is_refused_in_the_same_words_there_or_not(linked: Path, follow: bool) -> None:
    with opened(linked, unsafe_follow_links=follow) as access:
        words = {said(lambda path=path: access.read(path.format(root=linked), 100)) for path in OUTSIDE}  # type: ignore[misc]  # the default binds the loop's value
        words |= {said(lambda path=path: access.folder(path.format(root=linked)).__enter__()) for path in OUTSIDE}  # type: ignore[misc]  # likewise
    one = "leads out of the workspace 'ws' or through a link ask for a path inside, relative to its root"
    assert words == {f"outside_workspace  {one}"}


@pytest.mark.threat("T10")
def test_a_refusal_names_the_path_as_asked_and_no_absolute_one(linked: Path) -> None:
    with opened(linked) as access:
        for path in ("link", "none", ".env", "src", "../x"):
            with pytest.raises(errors.RefusedError) as refused:
                access.read(path, 100)
            assert repr(path) in refused.value.message
            assert str(linked.parent) not in str(refused.value)


@pytest.mark.threat("T1")
@pytest.mark.parametrize("path", ["src/a.py\0", "src/a.py\0/../../etc/passwd", "\0", "a/f\0/../../etc/passwd"])
def test_a_nul_is_refused_for_itself_and_nothing_is_cut_off(root: Path, path: str) -> None:
    with opened(root) as access, pytest.raises(errors.OutsideWorkspaceError, match="NUL"):
        access.read(path, 100)


@pytest.mark.threat("T8")
@pytest.mark.parametrize("name", ["zero", "null", "full", "random", "tty"])
def test_a_device_is_refused_and_not_read(name: str) -> None:
    with opened(Path("/dev")) as access, pytest.raises(errors.RefusedError) as refused:
        access.read(name, 100)
    assert refused.value.code in ("not_a_file", "unreadable")


def test_half_of_a_surrogate_pair_names_nothing(root: Path) -> None:
    with opened(root) as access, pytest.raises(errors.NotFoundError):
        access.relative("a\ud800")


@pytest.mark.threat("T3")
@pytest.mark.parametrize(
    "path", [".env", ".ENV", "src/../.env", "a/.env/b", ".env.", "ENV~1", ".env::$DATA", "{root}/.env"]
)
def test_a_denied_name_is_refused_before_it_is_looked_at(
    root: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens: list[object] = []
    monkeypatch.setattr("fumehood.fence.openat2.open_beneath", lambda *a, **_: opens.append(a))
    with opened(root) as access, pytest.raises(errors.RefusedError) as refused:
        access.read(path.format(root=root), 100)
    assert refused.value.code == ("outside_workspace" if ".." in path else "denied_path")
    assert opens == []


@pytest.mark.threat("T3")
def test_a_denied_name_is_refused_in_the_same_words_there_or_not(root: Path) -> None:
    with opened(root) as access:
        assert said(lambda: access.read(".env", 100)) == said(lambda: access.read("none/.env", 100))


@pytest.mark.threat("T3")
def test_what_the_operator_denies_is_denied(root: Path) -> None:
    with opened(root, denied_globs=("*.py",)) as access, pytest.raises(errors.DeniedPathError):
        access.read("src/a.py", 100)
    with opened(root, denied_folders=("src",)) as access, pytest.raises(errors.DeniedPathError), access.folder("src"):
        pass
    with opened(root) as access:
        assert access.read("src/a.py", 100) == b"hello"


@pytest.mark.threat("T3")
def test_a_content_on_the_list_is_refused_by_the_name_on_disk(root: Path) -> None:
    judged: list[tuple[bytes, bytes]] = []

    def judge(name: bytes, data: bytes) -> bool:
        judged.append((name, data))
        return data == b"hello"

    (root / "ok").write_text("ok")
    with opened(root, judge) as access:
        assert access.read("./ok", 100) == b"ok"
        assert said(lambda: access.read("src//a.py", 100)) == said(lambda: access.read(".env", 100))
    assert judged == [(b"ok", b"ok"), (b"src/a.py", b"hello")]


@pytest.mark.threat("T3")
@pytest.mark.threat("T2")
def test_a_followed_link_is_judged_by_where_it_leads(root: Path) -> None:
    (root / "to_env").symlink_to(".env")
    (root / "to_git").symlink_to(".git")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("x")
    (root / "to_a").symlink_to("src/a.py")
    (root / "to_src").symlink_to("src")
    (root / "gone").symlink_to("nowhere")
    with opened(root, unsafe_follow_links=True) as access:
        assert access.read("to_a", 100) == b"hello"  # the control that the setting does something
        assert access.read("to_src/a.py", 100) == b"hello"
        for path in ("to_env", "to_git/config"):
            with pytest.raises(errors.DeniedPathError):
                access.read(path, 100)
        with pytest.raises(errors.DeniedPathError), access.folder("to_git"):
            pass
        with pytest.raises(errors.NotFoundError):
            access.read("gone", 100)
    with opened(root) as access, pytest.raises(errors.OutsideWorkspaceError):
        access.read("to_a", 100)


@pytest.mark.threat("T1")
def test_a_second_name_is_refused_but_in_the_operators_folders(root: Path) -> None:
    (root / "cache/deep").mkdir(parents=True)
    (root / "cached").mkdir()
    for place in ("cache/deep/h", "cached/h", "h"):
        os.link(root.parent / "ws_sibling/s.txt", root / place)
    with opened(root, hard_link_folders=("./cache/",)) as access:
        assert access.read("cache/deep/h", 100) == b"outside"  # what the operator has let in
        for path in ("cached/h", "h"):
            with pytest.raises(errors.HardLinkError):
                access.read(path, 100)
    with opened(root, hard_link_folders=(".",)) as access:
        assert access.read("h", 100) == b"outside"


@pytest.mark.threat("T11")
@pytest.mark.parametrize("word", ["/", "//", "/etc", "..", "../x", "cache/../.."])
def test_a_folder_of_second_names_that_is_not_inside_ends_the_start(root: Path, word: str) -> None:
    with pytest.raises(errors.RefusedError, match="hard_link_folders"), opened(root, hard_link_folders=("cache", word)):
        pass


def test_a_file_that_was_replaced_while_it_was_opened_is_not_judged_by_a_name_that_is_not_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "to_env").symlink_to(".env")
    really = os.fstat
    with opened(root, unsafe_follow_links=True) as access:

        def fstat(fd: int) -> os.stat_result:
            (root / ".env").unlink(missing_ok=True)  # its name in /proc ends in ` (deleted)` now
            return really(fd)

        monkeypatch.setattr(os, "fstat", fstat)
        with pytest.raises(errors.NotFoundError):
            access.read("to_env", 100)


def test_without_proc_no_link_is_followed_and_plain_names_are_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def readlink(*_: object) -> bytes:
        raise FileNotFoundError

    (root / "to_a").symlink_to("src/a.py")
    monkeypatch.setattr(os, "readlink", readlink)
    with opened(root) as access:
        assert access.read("src/a.py", 100) == b"hello"
    with opened(root, unsafe_follow_links=True) as access, pytest.raises(errors.NotFoundError):
        access.read("to_a", 100)


def test_the_parts_are_there_for_who_needs_them(root: Path) -> None:
    with Workspace.open(root) as workspace:
        access = Access(workspace, Denylist(), name="ws")
        assert access.root_fd == workspace.root_fd
        assert access.denies(b"a/.env")
        assert access.denylist.denies(b".env")
        assert access.read("src/a.py", 100) == b"hello"
        with access.folder("") as folder:
            assert sorted(os.listdir(folder)) == [".env", "src"]  # noqa: PTH208 - a descriptor has no Path
        with pytest.raises(errors.TooLargeError):
            access.read("src/a.py", 4)


@given(st.text("ab./\\\0~\u2024\uff0e", max_size=30))
def test_a_clean_path_never_climbs(path: str) -> None:
    access = Access(Workspace(-1, (b"/w/root",)), Denylist(), name="root")
    try:
        clean = access.relative(path)
    except errors.RefusedError as refused:
        assert refused.remedy  # noqa: PT017 - whether it raises depends on the path
        return
    parts = clean.split(b"/")
    assert b".." not in parts
    assert b"" not in parts
    assert parts == [b"."] or b"." not in parts


@pytest.mark.threat("T8")
def test_a_file_that_opens_and_cannot_be_read_is_refused() -> None:
    with opened(Path("/proc/self")) as access, pytest.raises(errors.UnreadableError, match="mem"):
        access.read("mem", 1000)
