"""Bytes as text, with the encoding and the line end named, or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content.encoding import decode

FRENCH = "Le café crème était très bon, où êtes-vous ? À la plage, naïveté.\n"
CHINESE = "这是一个用于测试编码检测的中文文本文件。\n第二行内容、包含标点符号。\n"
JAPANESE = "これは日本語のテキストです。ファイルの文字コードを検出します。\n"
KOREAN = "이것은 한국어 텍스트 파일입니다.\n"
RUSSIAN = "Это русский текст для проверки кодировки файла.\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (FRENCH, "utf-8", "UTF-8"),
        ("plain\n", "ascii", "UTF-8"),
        ("", "ascii", "UTF-8"),
        (FRENCH, "utf-8-sig", "UTF-8 with BOM"),
        (CHINESE, "utf-16", "UTF-16LE with BOM"),
        ("\ufeff" + CHINESE, "utf-16-be", "UTF-16BE with BOM"),
        (CHINESE, "utf-32", "UTF-32LE with BOM"),
        ("\ufeff" + CHINESE, "utf-32-be", "UTF-32BE with BOM"),
        (FRENCH, "utf-16-le", "UTF-16LE"),
        (FRENCH, "utf-16-be", "UTF-16BE"),
        (FRENCH, "latin-1", "ISO-8859-1"),
        ("Größe\n", "latin-1", "ISO-8859-1"),
        ("“coffee” … café for 5 €\n", "cp1252", "Windows-1252"),
        (CHINESE, "gbk", "GB18030"),
        (JAPANESE, "shift_jis", "Shift_JIS"),
        (KOREAN, "euc_kr", "EUC-KR"),
        (RUSSIAN, "cp1251", "Windows-1251"),
        (RUSSIAN, "koi8_r", "KOI8-R"),
    ],
)
def test_an_encoding_is_named_and_the_text_is_exactly_the_one_written(text: str, codec: str, name: str) -> None:
    found = decode(text.encode(codec))
    assert found is not None
    assert found.encoding == name
    assert found.text.decode("utf-8") == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\xff\xfe\x00",  # half a character
        b"\xff\xfea\x00\x00\x00",  # NUL as a character
        b"\xef\xbb\xbf\xff",
        b"\xfe\xff\xd8\x00\x00a",  # half of a pair
        b"\xff\xd8\xff\xe0\x01\x02JFIF",
        "作".encode("gbk"),  # could be many things
        bytes(range(1, 256)),
        b"a\x00b\x00\x01\x00c\x00",  # a control character in what would be UTF-16
        b"a\x00\x00\x00" * 4,
        b"\x81\x8d\x8f" + b" caf\xe9" * 8,  # bytes that Windows-1252 leaves open
        FRENCH.encode() * 3 + b"caf\xe9\n",  # UTF-8 with a broken byte
        FRENCH.encode()[:-1] + b"\xc3\n",
    ],
)
def test_what_is_no_text_in_one_certain_encoding_is_binary(data: bytes) -> None:
    assert decode(data) is None


def test_a_long_line_is_looked_at_where_it_is_not_ascii() -> None:
    text = "x" * 40_000 + "这是一个用于测试编码检测的中文文本文件, " * 1000
    found = decode(text.encode("gbk"))
    assert found is not None
    assert (found.encoding, found.text.decode()) == ("GB18030", text)


def test_noise_is_binary() -> None:
    assert decode(os.urandom(4096) + b"\0") is None
    assert decode(bytes(b or 1 for b in os.urandom(4096))) is None


@pytest.mark.parametrize(
    ("data", "text", "kind", "lines"),
    [
        (b"", b"", "none", 0),
        (b"a", b"a", "none", 1),
        (b"a\n", b"a\n", "lf", 1),
        (b"a\nb", b"a\nb", "lf", 2),
        (b"a\r\nb\r\n", b"a\nb\n", "crlf", 2),
        (b"a\r\nb\n", b"a\nb\n", "mixed", 2),
        (b"a\r\r\nb", b"a\nb", "mixed", 2),
        (b"a\rb", b"a\rb", "cr", 1),
        (b"a\rb\r", b"a\rb", "cr", 1),
        (b"a\rb\nc\r\n", b"a\rb\nc\n", "mixed", 2),
        ("a\r\nb".encode("utf-16"), b"a\nb", "crlf", 2),
    ],
)
def test_line_ends_are_named_and_no_line_keeps_half_of_one(data: bytes, text: bytes, kind: str, lines: int) -> None:
    found = decode(data)
    assert found is not None
    assert (found.text, found.line_end, found.lines) == (text, kind, lines)


def test_a_character_at_the_edge_of_a_buffer_stays_whole() -> None:
    for before in (1021, 1022, 1023, 4095, 8191):
        data = b"x" * before + "€".encode()
        found = decode(data)
        assert found is not None
        assert found.text == data


@given(st.text())
def test_utf_8_comes_back_but_for_carriage_returns_before_line_ends(text: str) -> None:
    found = decode(text.encode("utf-8", "surrogatepass"))
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        return
    assert found is not None
    plain = "\n".join(line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n"))
    assert found.text.decode("utf-8") == plain


@given(st.binary(max_size=200))
def test_whatever_comes_is_decoded_without_replacement_or_refused(data: bytes) -> None:
    found = decode(data)
    if found is not None:
        text = found.text.decode("utf-8")
        assert "\0" not in text
        assert "\ufffd" not in text or "\ufffd".encode() in data or found.encoding != "UTF-8"
        assert not any(line.endswith("\r") for line in text.split("\n"))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.sampled_from(["utf-16", "utf-32"]))
def test_every_text_with_a_mark_is_decoded(text: str, codec: str) -> None:
    found = decode(text.encode(codec))
    assert found is not None
    assert found.text.decode("utf-8") == text


@pytest.mark.parametrize(
    "data",
    [b"a\nb\n", b"a\nb", b"a\r\nb\r\nc", b"a\rb\rc", b"a\rb\r\nc\nd\r", b"\r\n\n\r\n", "é\u2028x\x0c\x85\n\n".encode()],
)
def test_lines_are_counted_as_ripgrep_and_git_count_them(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    rg = [str(Path(sys.prefix, "bin", "rg")), "--no-config", "-n", "", "f"]
    shown = subprocess.run(rg, cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout
    git = ["git", "-c", "core.autocrlf=false", "diff", "--no-index", "--numstat", "/dev/null", "f"]
    counted = subprocess.run(git, cwd=tmp_path, capture_output=True, check=False, timeout=60).stdout
    found = decode(data)
    assert found is not None
    lines = found.text.removesuffix(b"\n").split(b"\n")
    assert [line.partition(b":")[2].rstrip(b"\r") for line in shown.split(b"\n")[: len(lines)]] == lines
    assert shown.rstrip(b"\n").count(b"\n") + 1 <= found.lines == len(lines)
    assert int(counted.split()[0]) == found.lines


def test_lines_of_utf_16_are_counted_as_ripgrep_counts_them(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("a\r\nneedle\nb".encode("utf-16"))
    rg = [str(Path(sys.prefix, "bin", "rg")), "--no-config", "-n", "needle", "f"]
    assert subprocess.run(rg, cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout == b"2:needle\n"
    found = decode((tmp_path / "f").read_bytes())
    assert found is not None
    assert found.text.split(b"\n")[1] == b"needle"
