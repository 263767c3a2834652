"""list_directory: what is listed, what is only counted, and what is never looked at."""

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fumehood.core import errors
from fumehood.fence import tree
from fumehood.serve import cursor
from fumehood.serve.tools import read_file
from fumehood.serve.tools.list_directory import TOOL


def test_each_entry_is_a_line_with_kind_size_and_name(asking: Any, ground: Path) -> None:
    (ground / "b.txt").write_text("hello")
    (ground / "a folder").mkdir()
    (ground / "link").symlink_to("b.txt")
    os.mkfifo(ground / "pipe")
    os.link(ground / "b.txt", ground / "c.txt")
    lines, facts = asking.answer(TOOL)
    assert lines == [
        "folder - a folder",
        "file,hard-linked - b.txt",
        "file,hard-linked - c.txt",
        "link - link",
        "other - pipe",
    ]
    assert facts == {"path": ".", "shown": 5, "total": 5, "denied": 0, "hidden": 0}


@pytest.mark.threat("T3")
@pytest.mark.threat("T10")
def test_denied_entries_are_counted_and_not_named(asking: Any, ground: Path) -> None:
    (ground / ".git").mkdir()
    (ground / ".env").write_text("x")
    (ground / "server.pem").write_text("x")
    (ground / "ok").write_text("x")
    for hidden in (False, True):
        lines, facts = asking.answer(TOOL, include_hidden=hidden)
        assert lines == ["file 1 ok"]
        assert (facts["denied"], facts["hidden"], facts["total"]) == (3, 0, 1)
    assert "server.pem" not in str(asking.result(TOOL))


def test_hidden_entries_are_counted_until_they_are_asked_for(asking: Any, ground: Path) -> None:
    (ground / ".editorconfig").touch()
    assert asking.facts(TOOL)["hidden"] == 1
    assert asking.lines(TOOL) == []
    assert asking.lines(TOOL, include_hidden=True) == ["file 0 .editorconfig"]


def test_what_is_not_among_the_entries_is_said_only_where_there_is_some(asking: Any, ground: Path) -> None:
    (ground / "one").touch()
    assert "\n1 entry.\n" in said(asking)
    (ground / ".env").touch()
    assert "\n1 entry; 1 is never served.\n" in said(asking)
    (ground / "server.pem").touch()
    (ground / ".editorconfig").touch()
    (ground / "two").touch()
    assert "\n2 entries; 2 are never served; 1 is hidden: `include_hidden`.\n" in said(asking)
    assert "\n3 entries; 2 are never served.\n" in said(asking, include_hidden=True)


def said(asking: Any, **arguments: Any) -> str:
    return str(asking.result(TOOL, **arguments)["content"][0]["text"])


@pytest.mark.threat("T2")
def test_a_link_shows_nothing_of_its_target(asking: Any, ground: Path) -> None:
    (ground.parent / "outside").write_text("x" * 4242)
    (ground / "to-outside").symlink_to(ground.parent / "outside")
    (ground / "dangling").symlink_to("nowhere")
    result = asking.result(TOOL)
    assert "4242" not in str(result)
    assert "outside" not in str(result).replace("to-outside", "")
    assert asking.lines(TOOL) == ["link - dangling", "link - to-outside"]


def test_a_listing_is_complete_beside_an_unreadable_folder_and_a_name_that_is_not_utf_8(
    asking: Any, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = ground / "locked"
    locked.mkdir()
    monkeypatch.setattr("os.access", lambda name, *_, **__: name != b"locked")  # root would be let in
    (ground / "dangling").symlink_to("nowhere")
    Path(os.fsdecode(os.fsencode(ground) + b"/caf\xe9")).write_text("odd\n")
    (ground / "ok").touch()
    lines = asking.lines(TOOL)
    assert lines == [r"file,escaped 4 caf\xe9", "link - dangling", "folder,unreadable - locked", "file 0 ok"]
    assert asking.lines(read_file.TOOL, path=lines[0].split(" ", 2)[2]) == ["odd"]


@pytest.mark.threat("T10")
def test_what_is_excluded_is_never_looked_at(asking: Any, ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / ".env").write_text("x")
    (ground / ".hidden").write_text("x")
    (ground / "ok").write_text("x")
    looked: list[str] = []
    really = tree.look

    def look(fd: int, name: str) -> tree.Look | None:
        looked.append(name)
        return really(fd, name)

    monkeypatch.setattr(tree, "look", look)
    asking.answer(TOOL)
    assert looked == ["ok"]
    asking.answer(TOOL, include_hidden=True)
    assert looked == ["ok", ".hidden", "ok"]  # the negative control: what is shown is looked at


def test_pages_join_to_the_folder(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, page_entries=7)
    wanted = sorted(f"f{n}" for n in range(30))
    for name in wanted:
        (ground / name).touch()
    seen: list[str] = []
    more: dict[str, str] = {}
    while True:
        lines, facts = asking.answer(TOOL, **more)
        seen += [line.split(" ", 2)[2] for line in lines]
        if "next_cursor" not in facts:
            break
        more = {"cursor": facts["next_cursor"]}
    assert seen == wanted


@pytest.mark.threat("T4")
def test_a_name_that_is_a_credential_neither_leaves_in_a_cursor_nor_ends_the_pages(asking: Any, ground: Path) -> None:
    token = "ghp_" + "x7Kp2Lm9Qr4Tv8Wz1Yb3Nc6Hd5Jf0Gs2EaUi"
    asking.settings = msgspec.structs.replace(asking.settings, page_entries=1)
    for name in (token, "z"):
        (ground / name).touch()
    result = asking.result(TOOL)
    found = result["structuredContent"]["next_cursor"]
    assert "redacted" not in found
    assert asking.lines(TOOL, cursor=found) == ["file 0 z"]
    held = base64.urlsafe_b64decode(found + "==")
    assert token.encode() not in held
    assert base64.b64encode(token.encode())[:40] not in held


def test_a_page_goes_on_after_the_last_name_though_names_come_and_go(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, page_entries=2)
    for name in "bcdef":
        (ground / name).touch()
    page = asking.facts(TOOL)["next_cursor"]
    (ground / "a").touch()
    assert asking.lines(TOOL, cursor=page) == ["file 0 d", "file 0 e"]
    (ground / "a").unlink()
    (ground / "c").unlink()
    assert asking.lines(TOOL, cursor=page) == ["file 0 d", "file 0 e"]
    for name in "bdef":
        (ground / name).unlink()
    assert asking.lines(TOOL, cursor=page) == []


def test_the_longest_odd_name_fits_a_cursor(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, page_entries=1)
    for first in (b"a", b"b"):
        Path(os.fsdecode(os.fsencode(ground) + b"/" + first + b"\xff" * 254)).touch()
    facts = asking.facts(TOOL)
    assert asking.lines(TOOL, cursor=facts["next_cursor"])[0].endswith("b" + r"\xff" * 254)


def test_a_page_holds_no_more_bytes_than_a_reply(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, reply_bytes=4096)
    for n in range(40):
        (ground / f"{n:03}{'x' * 200}").touch()
    lines, facts = asking.answer(TOOL)
    assert 10 < len(lines) < 40
    assert sum(map(len, lines)) <= 4096
    assert facts["total"] == 40


def test_a_folder_larger_than_a_walk_says_so(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, walked_files=5)
    for n in range(9):
        (ground / f"f{n}").touch()
    result = asking.result(TOOL)
    assert result["structuredContent"]["total"] == 5
    assert "there are more than are read" in result["content"][0]["text"]


@pytest.mark.parametrize("position", [{}, {"after": 7}, {"after": "%%%"}, {"after": None}])
def test_a_forged_cursor_is_refused(asking: Any, ground: Path, position: dict[str, Any]) -> None:
    (ground / "a").touch()
    with pytest.raises(errors.BadCursorError):
        asking.answer(TOOL, cursor=cursor.make("list_directory", {}, position))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("file", errors.NotAFolderError),
        ("none", errors.NotFoundError),
        ("link", errors.OutsideWorkspaceError),
        ("..", errors.OutsideWorkspaceError),
        (".git", errors.DeniedPathError),
    ],
)
def test_what_is_no_folder_inside_is_refused(
    asking: Any, ground: Path, path: str, error: type[errors.RefusedError]
) -> None:
    (ground / "file").touch()
    (ground / "link").symlink_to(ground.parent)
    with pytest.raises(error):
        asking.answer(TOOL, path=path)


def test_an_entry_that_goes_away_is_said_to_be_gone(asking: Any, ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "a").touch()
    monkeypatch.setattr(tree, "names", lambda *_, **__: (["a", "b"], 0))
    assert asking.lines(TOOL) == ["file 0 a", "gone - b"]
