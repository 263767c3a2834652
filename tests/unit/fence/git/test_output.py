"""fence.git.names, history, patch and words: what git wrote, read without guessing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.fence.git import history, names, patch, words
from fumehood.fence.git.names import Change, FormatError

ZERO, ONE = b"0" * 40, b"1" * 40
PATHS = st.binary(min_size=1, max_size=20).filter(lambda path: b"\0" not in path)


def raw(path: bytes, status: bytes = b"M", *, old: bytes | None = None, modes: bytes = b"100644 100644") -> bytes:
    first = b"" if old is None else old + b"\0"
    return b":" + modes + b" " + ZERO + b" " + ONE + b" " + status + b"\0" + first + path + b"\0"


def commit(number: int, message: bytes = b"m\n", changes: bytes = b"") -> bytes:
    fields = [b"%040x" % number, b"", b"Ada", b"a@b", b"2026-01-01T00:00:00+00:00", message]
    return b"\0".join(fields) + b"\0\0" + (b"\n" + changes if changes else b"")


@given(st.lists(PATHS, max_size=5), st.binary(max_size=10).filter(lambda rest: not rest.startswith(b":")))
def test_names_are_read_and_the_rest_is_kept(paths: list[bytes], rest: bytes) -> None:
    changes, left = names.parse(b"".join(raw(path) for path in paths) + rest)
    assert [change.path for change in changes] == paths
    assert left == rest


def test_a_rename_has_both_names_and_kinds_are_told() -> None:
    (renamed, link, module), _ = names.parse(
        raw(b"new", b"R100", old=b"old")
        + raw(b"l", b"T", modes=b"100644 120000")
        + raw(b"s", b"A", modes=b"000000 160000")
    )
    assert (renamed.status, renamed.paths, renamed.is_link, renamed.is_submodule) == (
        "R",
        (b"old", b"new"),
        False,
        False,
    )
    assert (link.is_link, link.is_submodule) == (True, False)
    assert (module.is_link, module.is_submodule) == (False, True)


@pytest.mark.parametrize(
    "data", [b":x\0a\0", raw(b"a")[:-3], raw(b"", b"A"), raw(b"x", b"Z"), raw(b"new", b"R100"), b":" + raw(b"merge")]
)
def test_what_is_not_the_raw_format_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        names.parse(data)


@given(st.lists(PATHS, min_size=1, max_size=4), st.data())
def test_names_that_were_cut_are_not_guessed_at(paths: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(raw(path) for path in paths)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    changes, left = names.parse(cut, complete=False)
    assert [change.path for change in changes] == paths[: len(changes)]
    assert len(changes) < len(paths)
    assert left == b""


@given(PATHS)
def test_a_quoted_name_is_one_line_and_ascii_names_stay(path: bytes) -> None:
    quoted = names.quoted(path)
    assert b"\n" not in quoted
    assert (quoted == path) is (not quoted.startswith(b'"'))


@given(
    st.lists(
        st.tuples(st.binary(max_size=20).filter(lambda m: b"\0" not in m), st.lists(PATHS, max_size=3)), max_size=4
    )
)
def test_commits_with_any_messages_and_names_are_read(entries: list[tuple[bytes, list[bytes]]]) -> None:
    output = b"".join(
        commit(number, message, b"".join(raw(path) for path in paths))
        for number, (message, paths) in enumerate(entries)
    )
    read = history.parse(output)
    assert [int(entry.commit, 16) for entry in read] == list(range(len(entries)))
    assert [entry.message for entry in read] == [message.strip(b"\n") for message, _ in entries]
    assert [[change.path for change in entry.changes] for entry in read] == [paths for _, paths in entries]


@given(st.data())
def test_a_log_that_was_cut_gives_whole_commits_only(data: st.DataObject) -> None:
    whole = b"".join(commit(n, b"message", raw(b":odd") + raw(b"b")) for n in range(3))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    read = history.parse(cut, complete=False)
    assert len(read) < 3
    assert list(read) == list(history.parse(whole)[: len(read)])


@pytest.mark.parametrize(
    "output",
    [
        b"abc",
        commit(1)[:-1],
        commit(1).replace(b"\0\0", b"\0x\0"),
        commit(1).replace(b"0000", b"zzzz"),
        commit(1, changes=raw(b"a")).removesuffix(b"a\0"),
        commit(1, changes=b":no\0a\0"),
        b"\0" * 7,
    ],
)
def test_what_is_no_log_is_refused(output: bytes) -> None:
    with pytest.raises(FormatError):
        history.parse(output)


def test_of_a_commit_with_many_names_the_first_are_read_and_all_are_counted() -> None:
    many = b"".join(raw(b"%d" % number) for number in range(limits.LOG_CHANGES + 7))
    first, second = history.parse(commit(1, changes=many) + commit(2, changes=raw(b"a")))
    assert (len(first.changes), first.changed) == (limits.LOG_CHANGES, limits.LOG_CHANGES + 7)
    assert (len(second.changes), second.changed) == (1, 1)


def test_a_broken_date_is_left_out() -> None:
    assert history.parse(commit(1).replace(b"2026", b"2026" * 20))[0].date == ""


def section(path: bytes, body: bytes, *, old: bytes | None = None) -> bytes:
    change = Change(status="M", path=path, old_path=old or path, old_mode=0, new_mode=0)
    return patch.header(change) + b"index 0..1 100644\n--- a\n+++ b\n" + body


HUNK = b"@@ -1 +1 @@ f()\n-a\n+b\n\\ No newline at end of file\n"


@given(st.lists(PATHS, min_size=1, max_size=4, unique=True))
def test_lines_are_given_to_the_name_above_them(paths: list[bytes]) -> None:
    output = b"".join(raw(path) for path in paths) + b"\0" + b"".join(section(path, HUNK) for path in paths)
    found = patch.lines(output)
    assert [(one.change.path, one.lines, one.added, one.removed) for one in found] == [(p, HUNK, 1, 1) for p in paths]


@pytest.mark.threat("T3")
def test_lines_of_a_name_that_is_not_in_the_list_are_refused() -> None:
    with pytest.raises(FormatError, match="another name"):
        patch.lines(raw(b"a") + b"\0" + section(b".env", HUNK))
    with pytest.raises(FormatError, match="another name"):
        patch.lines(raw(b"a") + b"\0" + section(b"a", HUNK) + section(b".env", HUNK))
    with pytest.raises(FormatError, match="without a header"):
        patch.lines(raw(b"a") + b"\0+secret\n")
    with pytest.raises(FormatError, match="another name"):
        patch.lines(raw(b"a") + b"\0diff --cc a\n@@@ -1 -1 +1 @@@\n++x\n")


def test_names_without_lines_and_bytes_and_odd_lines() -> None:
    output = raw(b"a") + raw(b"b") + raw(b"c") + b"\0"
    output += (
        section(b"b", b"")[:-12] + b"Binary files a/b and b/b differ\n" + section(b"c", HUNK + b"* Unmerged path x\n")
    )
    first, second, third = patch.lines(output)
    assert (first.lines, first.added, first.removed) == (b"", 0, 0)
    assert (second.lines, second.added, second.removed) == (b"", None, None)
    assert third.lines == HUNK


def test_lines_that_were_cut_are_said_to_be() -> None:
    output = raw(b"a") + raw(b"b") + b"\0" + section(b"a", HUNK) + section(b"b", HUNK)
    cut = patch.lines(output[:-40], complete=False)
    assert [one.cut for one in cut] == [False, True]
    assert cut[1].lines in HUNK
    assert patch.lines(b"", complete=False) == ()


def test_numbers_of_lines_belong_to_their_names() -> None:
    output = raw(b"a") + raw(b"new", b"R099", old=b"old") + raw(b"bin")
    numbers = b"1\t2\ta\0" + b"3\t4\t\0old\0new\0" + b"-\t-\tbin\0"
    found = patch.counts(output + numbers)
    assert [(one.change.path, one.added, one.removed) for one in found] == [
        (b"a", 1, 2),
        (b"new", 3, 4),
        (b"bin", None, None),
    ]
    for wrong in (numbers[:-6], b"1\t2\tz\0", b"1\t2\ta\0" + b"3\t4\t\0old\0other\0", numbers + b"1\t1\tx\0", b"x"):
        with pytest.raises(FormatError):
            patch.counts(output + wrong)
    assert len(patch.counts(output + numbers[:-3], complete=False)) == 2
    assert len(patch.counts(output + numbers[:-9], complete=False)) == 1


@given(st.binary(max_size=60))
def test_text_becomes_utf8_and_what_was_replaced_is_counted(data: bytes) -> None:
    text, replaced = words.utf8(data)
    assert text.decode("utf-8") == data.decode("utf-8", "replace")
    assert (replaced == 0) is (text == data)


def test_a_replacement_character_that_was_there_is_not_counted() -> None:
    assert words.utf8("\ufffd".encode() + b"\xff") == ("\ufffd\ufffd".encode(), 1)


@given(st.text(max_size=30).map(str.encode), st.integers(1, 40))
def test_a_cut_loses_nothing_and_splits_no_character(data: bytes, limit: int) -> None:
    shown, rest = words.cut(data, limit)
    assert shown + rest == data
    assert len(shown) <= limit
    shown.decode("utf-8")


@given(st.binary(max_size=30))
def test_lines_end_with_a_line_feed(data: bytes) -> None:
    text = words.lines(data)
    assert text == b"" or text.endswith(b"\n")
    assert b"\r\n" not in text
