import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import control
from fumehood.content.control import ControlledContent
from fumehood.core.untrusted import Untrusted

KEY = "AKIA" + "ABCDEFGH23456723"


def test_what_is_shown_is_redacted_and_inert() -> None:
    untrusted = Untrusted(f"\x1b[31m{KEY}\x1b[0m\n".encode(), source="stderr")
    shown = control.control(untrusted)
    assert shown.text == r"\x1b[31m[redacted:aws-access-key]\x1b[0m\n"
    assert (shown.source, shown.cut_bytes, dict(shown.hits)) == ("stderr", 0, {"aws-access-key": 1})
    assert control.inert(untrusted) == shown.text


def test_lines_are_kept_where_they_are_asked_for() -> None:
    assert control.inert(Untrusted(b"a\n\tb\x07", source="stderr"), lines=True) == "a\n\tb\\x07"


@pytest.mark.threat("R11")
@pytest.mark.parametrize("limit", range(1, 60))
def test_a_cut_shows_no_part_of_a_credential(limit: int) -> None:
    untrusted = Untrusted(b"key " + KEY.encode() + b" " + b"x" * 100, source="stderr")
    shown = control.control(untrusted, limit_bytes=limit)
    assert "AKI" not in shown.text
    assert bool(shown.hits) == (limit > 4)
    assert shown.cut_bytes == len(untrusted) - limit


def test_a_private_key_is_replaced_however_early_it_is_cut() -> None:
    block = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + "MIIabc\n" * 400 + "-----END RSA PRIVATE " + "KEY-----\nend"
    text = control.inert(Untrusted(block.encode(), source="stdout"), limit_bytes=200)
    assert text.startswith("[redacted:private-key] [cut: ")
    assert control.inert(Untrusted(block.encode(), source="stdout")) == r"[redacted:private-key]\nend"


def test_nobody_else_makes_controlled_content() -> None:
    with pytest.raises(TypeError, match=r"content\.control"):
        ControlledContent(object(), text="x", source="y", hits={}, cut_bytes=0)


def test_its_repr_shows_no_content() -> None:
    shown = control.control(Untrusted(b"hush", source="stderr"))
    assert repr(shown) == "<ControlledContent 4 characters from stderr>"


@given(st.binary(max_size=400), st.integers(1, 200))
def test_every_text_is_bounded_and_printable(data: bytes, limit: int) -> None:
    shown = control.control(Untrusted(data, source="s"), limit_bytes=limit)
    assert shown.text.isprintable()
    assert len(shown.text) <= 30 * limit + 60
