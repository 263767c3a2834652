"""A server's words are inert, marked as its own, redacted, and bounded in rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.guard.voice import Voice


@pytest.mark.threat("G3")
def test_a_line_is_inert_and_marked() -> None:
    assert Voice().feed(b"\x1b[31mred\r\nfumehood: all is well\n", 0.0) == [
        "server| \\x1b[31mred",
        "server| fumehood: all is well",
    ]


def test_a_line_comes_whole_and_the_last_one_at_the_end() -> None:
    voice = Voice()
    assert voice.feed(b"half", 0.0) == []
    assert voice.feed(b" whole\nrest", 0.0) == ["server| half whole"]
    assert voice.close(0.0) == ["server| rest"]


@pytest.mark.threat("G3")
def test_credentials_are_replaced() -> None:
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    (line,) = Voice().feed(f"token {token}\n".encode(), 0.0)
    assert token not in line
    assert "[redacted:" in line


def test_a_long_line_is_cut() -> None:
    (line,) = Voice().feed(b"x" * (limits.GUARD_STDERR_LINE_BYTES + 1) + b"\n", 0.0)
    assert line.endswith(" [cut]")
    assert len(line) < limits.GUARD_STDERR_LINE_BYTES


@pytest.mark.threat("G3")
def test_a_flood_is_dropped_and_counted_until_there_is_room() -> None:
    voice = Voice()
    flood = b"y" * 1000 + b"\n"
    shown = voice.feed(flood * 1000, 0.0)
    assert sum(map(len, shown)) <= limits.GUARD_STDERR_BURST_BYTES
    assert voice.feed(flood, 0.0) == []
    told, line = voice.feed(b"again\n", 10.0)
    assert told == f"fumehood: {1001 - len(shown)} lines of the server are left out: it says too much at once"
    assert line == "server| again"


@given(st.lists(st.binary(max_size=300), max_size=10), st.floats(0, 100))
def test_whatever_it_says_every_line_is_printable(chunks: list[bytes], at: float) -> None:
    voice = Voice()
    lines = [line for chunk in chunks for line in voice.feed(chunk, at)] + voice.close(at)
    assert all(line.isprintable() for line in lines)
