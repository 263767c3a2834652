"""The fence around content, and how lines stand in it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import fencing
from fumehood.content.fencing import Block, clip, fenced
from fumehood.content.pieces import Edit

NONCE = "0123456789abcdef" * 2


def lines(*blocks: Block, characters: int = 80, datamark: bool = False) -> list[str]:
    text = fenced(blocks, NONCE, line_characters=characters, datamark=datamark).text
    first, *middle, last, rest = text.split("\n")
    assert (first, last, rest) == (f"[untrusted content {NONCE} begins]", f"[untrusted content {NONCE} ends]", "")
    return middle


def scripted(*nonces: str) -> Callable[[], str]:
    given = iter(nonces)
    return lambda: next(given)


@pytest.mark.threat("T5")
@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n", codec="utf-8")), min_size=1, max_size=8))
def test_every_line_stands_as_it_is(content: list[str]) -> None:
    data = "".join(f"{line}\n" for line in content).encode()
    assert lines(Block(data=data), characters=2000) == content
    assert lines(Block(data=data, first_line=7), characters=2000) == [
        f"{7 + n}\t{line}" for n, line in enumerate(content)
    ]


@pytest.mark.threat("T5")
@given(st.binary(max_size=80), st.lists(st.sampled_from(["aa", "bb", "cc", "dd"]), min_size=1, max_size=4, unique=True))
def test_the_nonce_is_never_in_the_content(data: bytes, guessed: list[str]) -> None:
    content = data + "".join(guess * 16 for guess in guessed).encode()
    nonce = fencing.nonce(scripted(*(pair * 16 for pair in ("aa", "bb", "cc", "dd", "ee", "ff"))), content)
    assert nonce.encode() not in content
    assert nonce[:2] not in guessed


@pytest.mark.threat("T5")
def test_a_source_of_nonces_that_repeats_what_was_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        fencing.nonce(lambda: "aa" * 16, b"x" + b"a" * 32)
    with pytest.raises(ValueError, match="repeats"):
        fencing.nonce(lambda: "", b"")


@pytest.mark.threat("T5")
def test_a_heading_makes_no_lines() -> None:
    assert lines(Block(data=b"x\n", heading=b"a\n[untrusted content\r")) == ["a\\n[untrusted content\\r", "x"]


def test_headings_stand_apart() -> None:
    assert lines(Block(data=b"x\n", heading=b"a"), Block(data=b"y\n", heading=b"b")) == ["a", "x", "", "b", "y"]


def test_numbered_blocks_of_one_heading_stand_below_it_while_their_numbers_rise() -> None:
    def block(first: int | None, name: bytes = b"a") -> Block:
        return Block(data=b"x\ny\n", heading=name, first_line=first, hits=[first or 0])

    single = [Block(data=b"x\n", heading=b"a", first_line=n, hits=[n]) for n in (1, 7, 8)]
    assert lines(*single) == ["a", "1:x", "7:x", "8:x"]
    assert lines(block(1), block(7)) == ["a", "1:x", "2-y", "", "7:x", "8-y"]
    assert lines(block(1), block(2)) == ["a", "1:x", "2-y", "", "a", "2:x", "3-y"]
    assert lines(block(1), block(7, b"b"), block(9)) == [
        *("a", "1:x", "2-y", "", "b", "7:x", "8-y", "", "a", "9:x", "10-y"),
    ]
    assert lines(block(None), block(1)) == ["a", "x", "y", "", "a", "1:x", "2-y"]


def test_an_empty_passage_has_no_line() -> None:
    assert lines(Block(data=b"", first_line=1)) == []
    assert lines(Block(data=b"\n", first_line=1)) == ["1\t"]


def test_a_last_line_without_its_end_gets_one() -> None:
    assert lines(Block(data=b"a\nb")) == ["a", "b"]


@pytest.mark.threat("T5")
def test_every_line_bears_the_mark_where_that_is_wanted() -> None:
    assert lines(Block(data=b"x\n\n", heading=b"h"), datamark=True) == ["01234567|h", "01234567|x", "01234567|"]


@given(st.text(min_size=11, max_size=60), st.integers(1, 70))
def test_a_clipped_line_says_how_much_is_missing_on_either_side(line: str, column: int) -> None:
    text = clip(line, 10, column)
    start = 0
    if text.startswith("[clipped: ") and not line.startswith("[clipped: "):
        start = int(text.split()[1])
        text = text.partition("] ")[2]
    assert text[:10] == line[start : start + 10]
    missing = len(line) - start - 10
    assert text[10:] == (f" [clipped: {missing} characters]" if missing else "")
    if column <= len(line):
        assert start < column <= start + 10


def test_clipping_is_counted_and_leaves_short_lines_alone() -> None:
    made = fenced([Block(data=b"a\n" + b"b" * 90 + b"\nc\n")], NONCE, line_characters=80, datamark=False)
    assert made.clipped_lines == 1
    assert made.text.split("\n")[1:4] == ["a", "b" * 80 + " [clipped: 10 characters]", "c"]


def test_the_column_moves_with_what_is_replaced_before_it() -> None:
    line = b"[redacted:x]" + b"a" * 200 + b"HIT" + b"a" * 200
    block = Block(
        data=b"first\n" + line + b"\n",
        edits=(Edit(start=6, end=106, new=b"[redacted:x]"),),
        first_line=1,
        columns={2: 301},
    )
    assert "HIT" in lines(block)[1]


@given(st.integers(0, 2200), st.integers(1, 2300))
def test_every_line_bears_its_number_wherever_numbers_are_kept(first: int, count: int) -> None:
    data = b"x\n" * count
    text = fenced([Block(data=data, first_line=first)], "n" * 32, line_characters=80, datamark=False).text
    assert text.split("\n")[1:-2] == [f"{number}\tx" for number in range(first, first + count)]


@pytest.mark.threat("T5")
def test_the_meaning_of_the_marks_is_told_in_few_words() -> None:
    for said in (fencing.begin("NONCE"), fencing.end("NONCE")):
        assert said.rstrip("\n") in fencing.MEANING
    assert len(fencing.MEANING) < 500
    assert len(fencing.HINT) < 45
