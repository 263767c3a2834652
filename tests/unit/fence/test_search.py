"""ripgrep's arguments, and what its output says; its own words were taken down from version 15.2."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import BadPatternError, HarnessError
from fumehood.fence import search
from fumehood.fence.search import Hit, Listed, Located, Policy

POLICY = Policy(denied=("!**/.env", '!**/a"\\b'), generated=("!**/{build,dist}/",))
LOOKED_OVER = rb"""rg: DEBUG|rg::flags::hiargs|crates/core/flags/hiargs.rs:175: using 2 thread(s)
rg: DEBUG|globset|crates/globset/src/lib.rs:506: glob `Glob("**/.env")` converted to regex: `"(?-u)(?i)^(?:/?)$"`
rg: DEBUG|ignore::walk|crates/ignore/src/walk.rs:2011: ignoring ./.env: Ignore(IgnoreMatch(Override(Glob(Matched(Glob { from: None, original: "!**/.env", actual: "**/.env", is_whitelist: true, is_only_dir: false })))))
rg: DEBUG|ignore::walk|crates/ignore/src/walk.rs:2011: ignoring ./x: Ignore(IgnoreMatch(Override(Glob(Matched(Glob { from: None, original: "!**/a\"\\b", actual: "**/a\"\\b", is_whitelist: true, is_only_dir: false })))))
rg: DEBUG|ignore::walk|crates/ignore/src/walk.rs:1998: ignoring ./big2.txt: 700000 bytes
rg: DEBUG|ignore::walk|crates/ignore/src/walk.rs:2011: ignoring ./build: Ignore(IgnoreMatch(Override(Glob(Matched(Glob { from: None, original: "!**/{build,dist}/", actual: "**/{build,dist}", is_whitelist: true, is_only_dir: true })))))
rg: DEBUG|ignore::walk|crates/ignore/src/walk.rs:2011: ignoring ./other: Ignore(IgnoreMatch(Override(Glob(Matched(Glob { from: None, original: "!other", actual: "**/other", is_whitelist: true, is_only_dir: false })))))
rg: DEBUG|rg::haystack|crates/core/haystack.rs:70: ignoring ./link: failed to pass haystack filter: file type: Some(FileType { is_file: false, is_dir: false, is_symlink: true, .. }), metadata: Ok(..)
rg: DEBUG|rg::haystack|crates/core/haystack.rs:70: ignoring ./fifo: failed to pass haystack filter: file type: Some(FileType { is_file: false, is_dir: false, is_symlink: false, .. }), metadata: Ok(..)
rg: ./locked: Permission denied (os error 13)
"""  # noqa: E501 - as ripgrep wrote them

texts = st.text(min_size=1, max_size=60).filter(lambda t: not set(t) & set("\0\n\r"))


@pytest.mark.threat("T6")
@given(pattern=texts, globs=st.lists(texts, max_size=5), path=st.binary(max_size=30))
def test_nothing_that_was_asked_for_becomes_an_option(pattern: str, globs: list[str], path: bytes) -> None:
    asked = search.query(pattern, globs=globs)
    for arguments in (search.listing(asked, POLICY, path), search.locating(asked, [path, b"-x"], 3)):
        options, operands = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
        assert f"--regexp={pattern}" in options
        assert all(isinstance(operand, bytes) and operand.startswith(b"./") for operand in operands)
        own = [o for o in options if not str(o).startswith(("--regexp=", "--glob=", "--iglob="))]
        plain = search.query("a")
        expected = {*search.listing(plain, POLICY, b""), *search.locating(plain, [], 3)}
        assert set(own) <= expected | {"--debug"}


@pytest.mark.parametrize("option", ["--no-config", "--no-ignore", "--no-follow", "--null", "--engine=default"])
def test_both_steps_leave_nothing_to_a_configuration(option: str) -> None:
    asked = search.query("a")
    assert option in search.listing(asked, POLICY, b"src")
    assert option in search.locating(asked, [b"a"], 1)


@pytest.mark.threat("T3")
def test_what_is_denied_stands_behind_the_globs_that_were_asked_for() -> None:
    arguments = [str(one) for one in search.listing(search.query("a", globs=["**/.env"]), POLICY, b"")]
    asked = arguments.index("--glob=/**/.env")
    assert arguments.index("--iglob=!**/.env") > arguments.index("--iglob=!**/{build,dist}/") > asked


def test_a_path_is_always_named_so_that_standard_input_is_never_read() -> None:
    assert search.listing(search.query("a"), POLICY, b"")[-2:] == ("--", b"./")
    assert search.listing(search.query("a"), POLICY, b"src")[-1] == b"./src"


def test_a_search_is_literal_unless_a_regex_is_asked_for() -> None:
    assert "--fixed-strings" in search.listing(search.query("a"), POLICY, b"")
    assert "--fixed-strings" not in search.listing(search.query("a", regex=True), POLICY, b"")


def test_case_counts_unless_it_is_not_asked_for() -> None:
    assert "--case-sensitive" in search.listing(search.query("a"), POLICY, b"")
    assert "--ignore-case" in search.listing(search.query("a", case_sensitive=False), POLICY, b"")


@pytest.mark.parametrize(
    ("asked", "folder", "taken"),
    [
        ("*.py", b"lib", "*.py"),
        ("./*.py", b"", "/*.py"),
        ("/*.py", b"lib", "/lib/*.py"),
        ("src/*.py", b"", "/src/*.py"),
        ("src\\*.py", b"lib", "/lib/src/*.py"),
        ("**/*.py", b"lib", "/lib/**/*.py"),
        ("!src/", b"", "!/src/**"),
        ("!*.md", b"lib", "!*.md"),
        ("./a", b"l[i]b*", "/l\\[i\\]b\\*/a"),
    ],
)
def test_a_glob_is_read_below_the_folder_that_is_looked_through(asked: str, folder: bytes, taken: str) -> None:
    assert f"--glob={taken}" in search.listing(search.query("x", globs=[asked]), POLICY, folder)


def test_what_was_left_out_is_asked_for_only_where_no_glob_leaves_out_most() -> None:
    assert "--debug" in search.listing(search.query("a"), POLICY, b"")
    assert "--debug" not in search.listing(search.query("a", globs=["*.py"]), POLICY, b"")


@pytest.mark.parametrize("text", ["", "a\0b", "a\nb", "a\r", "\ud800", "x" * (limits.PATTERN_CHARACTERS + 1)])
def test_a_pattern_or_glob_that_ripgrep_cannot_take_is_refused(text: str) -> None:
    with pytest.raises(BadPatternError):
        search.query(text)
    with pytest.raises(BadPatternError):
        search.query("a", globs=[text])


def test_too_many_globs_are_refused() -> None:
    with pytest.raises(BadPatternError, match="more than 32"):
        search.query("a", globs=["x"] * (limits.GLOBS + 1))


paths = st.lists(st.binary(min_size=1, max_size=20).filter(lambda p: b"\0" not in p), max_size=10)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(paths=paths, cuts=st.lists(st.integers(0, 300)))
def test_listed_paths_come_out_whole_however_the_output_is_cut(paths: list[bytes], cuts: list[int]) -> None:
    output = b"".join(b"./" + path + b"\0" for path in paths)
    listed = Listed()
    assert [path for chunk in chunks(output, cuts) for path in listed.feed(chunk)] == paths


@given(
    records=st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=20).filter(lambda p: b"\0" not in p),
            st.integers(1, 10**9),
            st.integers(1, 10**9),
            st.integers(0, 10**9),
        ),
        max_size=10,
    ),
    cuts=st.lists(st.integers(0, 600)),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_located_hits_come_out_whole_however_the_output_is_cut(
    records: list[tuple[bytes, int, int, int]], cuts: list[int], end: bytes
) -> None:
    output = b"".join(
        b"./" + path + b"\0%d:%d:%d:[Omitted long line with 1 matches]" % numbers + end
        for path, *numbers_ in records
        for numbers in [tuple(numbers_)]
    )
    located = Located()
    found = [hit for chunk in chunks(output, cuts) for hit in located.feed(chunk)]
    assert found == [(path, Hit(line, column, offset)) for path, line, column, offset in records]


@given(st.lists(st.binary(max_size=400), max_size=8))
@pytest.mark.parametrize("make", [Listed, Located])
def test_hostile_output_gives_results_or_one_error_and_keeps_little(
    make: Callable[[], Listed | Located], output: list[bytes]
) -> None:
    parser = make()
    try:
        for chunk in output:
            list(parser.feed(chunk))
    except HarnessError:
        return
    assert len(parser._rest) <= limits.PATH_BYTES + 1024


@pytest.mark.parametrize("make", [Listed, Located])
def test_a_record_without_end_is_no_record(make: Callable[[], Listed | Located]) -> None:
    parser = make()
    assert list(parser.feed(b"x" * limits.PATH_BYTES)) == []
    with pytest.raises(HarnessError):
        list(parser.feed(b"x" * 1024))


@pytest.mark.parametrize(
    "record",
    [b"x\0\n", b"x\0one:2:3:\n", b"x\0:2:3:\n", b"x\x001:2\n", b"x\0-1:2:3:\n", b"x\0" + b"9" * 19 + b":1:1:\n"],
)
def test_a_record_that_holds_no_place_is_refused(record: bytes) -> None:
    with pytest.raises(HarnessError):
        list(Located().feed(record))


def test_what_was_left_out_is_counted_by_reason() -> None:
    assert search.left_out(LOOKED_OVER, POLICY) == {
        "denied": 2,
        "too_large": 1,
        "generated": 1,
        "special": 1,
        "unreadable": 1,
    }


@given(st.binary(max_size=2000))
def test_any_words_of_ripgrep_give_counts(stderr: bytes) -> None:
    assert sum(search.left_out(stderr, POLICY).values()) <= stderr.count(b"\n") + 1
    search.refusal(stderr)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            b"rg: regex parse error:\n    (?:(?=a)b)\n       ^^^\nerror: look-around, including look-ahead",
            "look-around",
        ),
        (b"rg: regex parse error:\n    (?:(a)\\1)\n\nerror: backreferences are not supported\n", "back-references"),
        (b"rg: regex parse error:\n    (?:(a)\n    ^\nerror: unclosed group\n", "unclosed group"),
        (b'rg: the literal "\\n" is not allowed in a regex\n', "one line"),
        (b"rg: compiled regex exceeds size limit of 104857600\n", "too large"),
        (b"rg: error parsing glob '[a': unclosed character class; missing ']'\n", "glob"),
    ],
)
@pytest.mark.threat("T7")
def test_a_refusal_gives_its_reason(stderr: bytes, words: str) -> None:
    error = search.refusal(stderr)
    assert isinstance(error, BadPatternError)
    assert words in error.message
    assert error.remedy


def test_a_file_that_could_not_be_read_is_no_refusal() -> None:
    assert search.refusal(b"rg: ./locked: Permission denied (os error 13)\n") is None
