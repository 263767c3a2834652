"""Canaries are found in every wrapping that is named, nothing is found where none is, and hostile bytes cost little."""

import base64
import gzip
import io
import itertools
import json
import random
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe import canary as canaries
from fumehood.observe.canary import Budget, Canary, Finder, Stream
from fumehood.observe.needles import PIECE

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
VALUES = st.integers(0, 2**64).map(lambda seed: "".join(random.Random(seed).choices(ALPHABET, k=36)).encode())
SECRET = "".join(random.Random(7).choices(ALPHABET, k=36)).encode()
MIB = 1024 * 1024


def budget(left: int = 4 * MIB) -> Budget:
    return Budget(left=left)


def finder(*values: bytes) -> Finder:
    return Finder([Canary(name=f"c{number}", values=(value,)) for number, value in enumerate(values)])


def zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("home/.npmrc", data * 3)
    return made.getvalue()


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


WRAPPINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "reversed": lambda data: data[::-1],
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base32": base64.b32encode,
    "base32hex": base64.b32hexencode,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zip": zipped,
    "percent": lambda data: "".join(f"%{byte:02X}" for byte in data).encode(),
    "base64+gzip": lambda data: base64.b64encode(gzip.compress(data)),
    "hex+gzip": lambda data: gzip.compress(data).hex().encode(),
    "base64+base64": lambda data: base64.b64encode(base64.b64encode(data)),
    "gzip+base64": lambda data: gzip.compress(base64.b64encode(data)),
    "reversed+base64": lambda data: base64.b64encode(data)[::-1],
    "percent+base64": lambda data: "".join(f"%{byte:02x}" for byte in base64.b64encode(data)).encode(),
    "base64+gzip+hex": lambda data: base64.b64encode(gzip.compress(data.hex().encode())),
}
SAME = {"base64url": "base64"}  # without a sign of either alphabet both are one text


@pytest.mark.parametrize("wrapping", sorted(WRAPPINGS))
@given(value=VALUES, before=st.binary(max_size=40), behind=st.binary(max_size=40))
def test_a_value_is_found_in_each_wrapping_wherever_it_stands_inside(
    wrapping: str, value: bytes, before: bytes, behind: bytes
) -> None:
    wrapped = b"{" + WRAPPINGS[wrapping](before + value + behind) + b"}"
    met = finder(value).look(wrapped, budget())
    named = SAME.get(wrapping, wrapping)
    assert [one for one in met if one.name == "c0" and one.whole and one.encoding in (wrapping, named)] != []


@pytest.mark.parametrize("wrapping", sorted(WRAPPINGS))
@given(value=VALUES, other=VALUES)
def test_another_value_in_the_same_wrapping_is_not_taken_for_it(wrapping: str, value: bytes, other: bytes) -> None:
    if other != value:
        assert finder(value).look(WRAPPINGS[wrapping](other), budget()) == frozenset()


@given(st.binary(max_size=4096))
def test_nothing_is_found_in_bytes_that_hold_none(data: bytes) -> None:
    assert finder(SECRET).look(data, budget()) == frozenset()
    assert Stream(finder(SECRET), budget()).feed(data) == frozenset()


@given(st.text(max_size=300))
def test_a_text_without_a_canary_is_not_changed_by_the_veil(text: str) -> None:
    assert finder(SECRET).veil(text) == text


def test_letters_may_have_lost_their_case() -> None:
    for text in (SECRET.lower(), base64.b64encode(SECRET).lower(), SECRET.hex().upper().encode(), SECRET.upper()):
        assert finder(SECRET).look(text, budget()) != frozenset()


def test_a_piece_tells_from_sixteen_characters_on_and_is_said_to_be_one() -> None:
    (met,) = finder(SECRET).look(b"x " + SECRET[:PIECE] + b" y", budget())
    assert (met.encoding, met.whole) == ("plain", False)
    assert finder(SECRET).look(b"x " + SECRET[: PIECE - 1] + b" y", budget()) == frozenset()


def test_long_lines_that_were_broken_are_read_as_one() -> None:
    wrapped = base64.encodebytes(bytes(50) + SECRET + bytes(50))
    for text in (
        wrapped,
        json.dumps({"a": wrapped.decode()}).encode(),
        json.dumps(json.dumps(wrapped.decode())).encode(),
    ):
        met = finder(SECRET).look(text, budget())
        assert "base64" in {one.encoding for one in met}
    assert {one.encoding for one in finder(SECRET).look(base64.encodebytes(gzip.compress(SECRET * 2)), budget())} == {
        "base64+gzip"
    }


def test_data_without_a_header_is_inflated_when_it_is_all_there_is() -> None:
    assert {one.encoding for one in finder(SECRET).look(raw_deflate(b"a" * 99 + SECRET), budget())} == {"deflate"}


def test_labels_of_one_name_are_joined() -> None:
    text = SECRET.hex()
    name = ".".join(text[at : at + 10] for at in range(0, len(text), 10)) + ".mail.example"
    assert finder(SECRET).look(name.encode(), budget()) == frozenset()
    (met,) = finder(SECRET).look_in_name(name.encode(), budget())
    assert (met.encoding, met.whole) == ("hex", True)


@pytest.mark.parametrize("numbered", [False, True])
def test_what_was_split_over_several_names_of_a_domain_is_joined(numbered: bool) -> None:
    text = base64.b32encode(SECRET).decode().rstrip("=").lower()
    pieces = [text[at : at + 12] for at in range(0, len(text), 12)]
    names = [(f"{n}." if numbered else "") + f"{piece}.mail.example" for n, piece in enumerate(pieces)]
    asked = [name.encode() for name in names for _ in range(2)] + [b"www.other.example", b"example"]
    assert all(finder(SECRET).look_in_name(name, budget()) == frozenset() for name in asked)
    met = finder(SECRET).look_in_names(asked, budget())
    assert {(one.encoding, one.whole) for one in met} >= {("base32", True)}


@given(value=VALUES, cuts=st.lists(st.integers(0, 4000), max_size=8))
def test_a_stream_finds_what_stands_across_its_pieces(value: bytes, cuts: list[int]) -> None:
    data = bytes(2000) + base64.b64encode(b"ab" + value) + bytes(2000)
    stream = Stream(finder(value), budget())
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    met = [one for start, end in itertools.pairwise(places) for one in stream.feed(data[start:end])]
    assert any(one.encoding == "base64" and one.whole for one in met)
    assert stream.bytes == len(data)


def test_a_stream_looks_into_one_member_that_spans_its_pieces() -> None:
    noise = random.Random(1).randbytes(200_000)
    data = gzip.compress(noise + SECRET + noise)
    stream = Stream(finder(SECRET), budget())
    met = [one for at in range(0, len(data), 10_000) for one in stream.feed(data[at : at + 10_000])]
    assert ("gzip", True) in {(one.encoding, one.whole) for one in met}


def test_a_stream_gives_up_a_member_that_breaks_off_and_looks_on() -> None:
    data = gzip.compress(random.Random(2).randbytes(20_000).hex().encode())
    stream = Stream(finder(SECRET), budget())
    met = [*stream.feed(data[:9_000]), *stream.feed(b"\xff" * 4_000), *stream.feed(b"k=" + SECRET)]
    assert [(one.encoding, one.whole) for one in met] == [("plain", True)]


def test_what_stands_across_two_windows_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "WINDOW_BYTES", 64)
    assert finder(SECRET).look(bytes(50) + SECRET + bytes(50), budget()) != frozenset()


@pytest.mark.threat("R18")
def test_a_member_that_inflates_without_end_is_cut_at_the_budget_and_said_to_be() -> None:
    bomb = gzip.compress(gzip.compress(bytes(64 * MIB)) * 20)
    given_bytes = budget(MIB)
    assert finder(SECRET).look(bomb, given_bytes) == frozenset()
    assert given_bytes.cut
    assert given_bytes.left <= 0
    stream, left = Stream(finder(SECRET), rest := budget(MIB)), gzip.compress(bytes(64 * MIB))
    assert all(stream.feed(left[at : at + 8192]) == frozenset() for at in range(0, len(left), 8192))
    assert rest.cut


@pytest.mark.threat("R18")
def test_a_member_that_inflates_without_end_is_never_held_whole() -> None:
    bomb, looking = gzip.compress(bytes(64 * MIB)), finder(SECRET)
    tracemalloc.start()
    try:
        looking.look(bomb, budget(MIB))
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.threat("R18")
def test_decoys_made_of_pieces_hide_nothing() -> None:
    decoy = SECRET[:8] + SECRET[9:17] + SECRET[20:28]
    data = decoy * 20_000 + SECRET + decoy * 20_000
    assert {(one.encoding, one.whole) for one in finder(SECRET).look(data, budget())} == {("plain", True)}


@pytest.mark.threat("R18")
def test_a_value_in_noise_is_met() -> None:
    noise = random.Random(3).randbytes(3 * MIB)
    assert ("plain", True) in {(o.encoding, o.whole) for o in finder(SECRET).look(noise + SECRET + noise, budget())}


@pytest.mark.threat("R19")
@pytest.mark.parametrize(
    "wrapping", [name for name in sorted(WRAPPINGS) if name not in ("gzip", "deflate", "zip", "gzip+base64")]
)
@given(value=VALUES, around=st.text(max_size=30))
def test_the_veil_leaves_nothing_that_is_looked_for(wrapping: str, value: bytes, around: str) -> None:
    wrapped = WRAPPINGS[wrapping](b"ab" + value + b"cd").decode()
    looking = finder(value)
    text = f"{around} {wrapped}\n{wrapped} {around}"
    veiled = looking.veil(text)
    assert "[canary:c0]" in veiled
    assert looking.look(veiled.encode("utf-8", "surrogatepass"), budget()) == frozenset()
    assert looking.veil(veiled) == veiled


@pytest.mark.threat("R19")
def test_the_veil_covers_what_stands_across_labels_and_lines() -> None:
    text = SECRET.hex()
    name = ".".join(text[at : at + 20] for at in range(0, len(text), 20)) + ".mail.example"
    assert finder(SECRET).veil(name) == "[canary:c0].mail.example"
    lines = base64.encodebytes(bytes(60) + SECRET).decode()
    assert finder(SECRET).look(finder(SECRET).veil(lines).encode(), budget()) == frozenset()
    url = "/a?" + quote(base64.b64encode(b"\xff" + SECRET + b"\xff\xff"))
    assert "[canary:c0]" in finder(SECRET).veil(url)


def test_a_canary_needs_values_that_cannot_be_met_by_chance_and_tells_only_its_name() -> None:
    for values in ((), (b"short",), (SECRET, b"short")):
        with pytest.raises(ValueError, match="unpredictable"):
            Canary(name="c", values=values)
    assert repr(Canary(name="c", values=(SECRET,))) == "Canary('c')"
    assert Finder([]).look(SECRET, budget()) == frozenset()
    assert Finder([]).overlap == 0
    assert Stream(Finder([]), budget()).feed(SECRET) == frozenset()
