"""core.jsonio: strict, bounded JSON."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_is_dumped_is_parsed_as_the_same_value(value: jsonio.JsonValue) -> None:
    assert jsonio.parse(jsonio.dump(value)) == value


@given(json_values)
def test_a_dump_is_ascii_without_control_characters(value: jsonio.JsonValue) -> None:
    written = jsonio.dump(value)
    assert written.endswith(b"\n")
    assert all(0x20 <= byte <= 0x7E for byte in written[:-1])


@given(json_values, st.sampled_from([None, 2]))
def test_plain_documents_mean_what_the_standard_library_says(value: jsonio.JsonValue, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert jsonio.parse(text.encode()) == json.loads(text)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0dDcC8e-+1.ntfNIa \n', max_size=60).map(str.encode))
def test_any_bytes_give_a_value_that_can_be_written_or_a_refusal(data: bytes) -> None:
    try:
        value = jsonio.parse(data)
    except jsonio.JsonError:
        return
    assert jsonio.parse(jsonio.dump(value)) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0dDcC8e-+19.ntfNIa \n', max_size=60).map(str.encode))
def test_where_it_is_changes_nothing_about_what_is_wrong(data: bytes) -> None:
    def answer(*, locate: bool) -> object:
        try:
            return ("value", repr(jsonio.parse(data, depth=4, locate=locate)))
        except jsonio.JsonError as error:
            return ("refused", error.problem)

    assert answer(locate=False) == answer(locate=True)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,5})?", fullmatch=True))
def test_a_number_is_read_alike_beside_a_large_one(literal: str) -> None:
    def answer(document: str) -> object:
        try:
            value = jsonio.parse(document.encode())
        except jsonio.JsonError as error:
            return error.problem
        assert isinstance(value, list)
        return repr(value[0])

    assert answer(f"[{literal}]") == answer(f'[{literal}, "{"9" * 19}"]')


@given(json_values)
def test_a_line_says_what_a_dump_says(value: jsonio.JsonValue) -> None:
    line = jsonio.line(value)
    assert jsonio.parse(line) == jsonio.parse(jsonio.dump(value))
    assert all(0x20 <= byte < 0x7F for byte in line[:-1])
    assert line.endswith(b"\n")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffé"])
def test_a_line_refuses_half_of_a_surrogate_pair(text: str) -> None:
    with pytest.raises(ValueError, match="surrogate"):
        jsonio.line([text])


_OTHERS = st.sets(st.integers(), max_size=2) | st.binary(max_size=3) | st.dates() | st.decimals() | st.uuids()
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800") | _OTHERS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.floats() | st.none(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(_anything)
def test_a_line_takes_what_a_dump_takes_and_nothing_else(value: object) -> None:
    try:
        dumped = json.loads(jsonio.dump(value))
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            jsonio.line(value)
    else:
        assert json.loads(jsonio.line(value)) == dumped


@pytest.mark.parametrize("value", [{1, 2}, b"a", [object()], {"a": b""}], ids=repr)
def test_a_line_refuses_what_is_no_json(value: object) -> None:
    with pytest.raises(TypeError):
        jsonio.line(value)


def test_a_line_of_something_endless_is_refused_as_a_dump_is() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        jsonio.line(deep)


def test_a_line_refuses_a_number_that_json_has_not() -> None:
    assert jsonio.line([None, "null"]) == b'[null,"null"]\n'
    assert jsonio.line("/dev/null") == b'"/dev/null"\n'
    for value in (math.nan, [math.inf], [1, -math.inf], {"a": math.nan}):
        with pytest.raises(ValueError, match="JSON compliant"):
            jsonio.line(value)


@given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\\", r"\n", "u", "d8", r"\u0041", "x"]), max_size=12))
def test_half_a_surrogate_pair_is_refused_exactly_when_the_text_has_no_utf_8_form(parts: list[str]) -> None:
    document = '"' + "".join(parts) + '"'
    value = json.loads(document)
    try:
        value.encode()
    except UnicodeEncodeError:
        with pytest.raises(jsonio.JsonError, match="half of a surrogate pair"):
            jsonio.parse(document.encode())
    else:
        assert jsonio.parse(document.encode()) == value


@given(st.integers(0, 8), st.integers(1, 8), st.sampled_from(["[]", "{}", "mixed"]))
def test_depth_is_counted_in_containers(deep: int, allowed: int, shape: str) -> None:
    opening = {"[]": ["["] * deep, "{}": ['{"k":'] * deep, "mixed": ["[", '{"[[[":'] * deep}[shape][:deep]
    closing = ["]" if part == "[" else "}" for part in reversed(opening)]
    document = ("".join(opening) + '"[[[[{{{{"' + "".join(closing)).encode()
    if deep <= allowed:
        jsonio.parse(document, depth=allowed)
    else:
        with pytest.raises(jsonio.JsonError, match=f"nested deeper than {allowed}"):
            jsonio.parse(document, depth=allowed)


@pytest.mark.parametrize("document", [b"[" * 50_000, b'{"a":' * 10_000, b"[" * 50_000 + b"]" * 50_000])
def test_a_tower_of_brackets_is_refused_before_anything_recurses(document: bytes) -> None:
    with pytest.raises(jsonio.JsonError, match="nested deeper than 64") as refused:
        jsonio.parse(document, size=len(document))
    assert refused.value.offset in {64, 64 * 5}


@pytest.mark.parametrize(
    ("document", "problem", "line", "column"),
    [
        (b"", "expecting value", 1, 1),
        (b'{"a": 1}{}', "extra data", 1, 9),
        (b"[1] x", "extra data", 1, 5),
        (b'{"a": 1,\n "b": {"c": 2, "c": 3}}', "the key 'c' occurs twice", 2, 16),
        (b'{"a": 1, "\\u0061": 2}', "the key 'a' occurs twice", 1, 10),
        (b'{"a": [{"x": ":"}], "b": "a", "a": 2}', "the key 'a' occurs twice", 1, 31),
        (b"[1,\n NaN]", "NaN is not a JSON number", 2, 2),
        (b'["NaN", Infinity]', "Infinity is not a JSON number", 1, 9),
        (b"[-Infinity]", "-Infinity is not a JSON number", 1, 2),
        (b"[1e999]", "too large", 1, 2),
        (b"[1, 18446744073709551616]", "does not fit 64 bits", 1, 5),
        (b"[-9223372036854775809]", "does not fit 64 bits", 1, 2),
        (b"[" + b"9" * 5000 + b"]", "does not fit 64 bits", 1, 2),
        (b"[0." + b"1" * 5000 + b"]", "more than 64 characters", 1, 2),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark", 1, 1),
        (b'["\xff"]', "not UTF-8", 1, 3),
        (b'["\xed\xa0\x80"]', "not UTF-8", 1, 3),
        (b'["a", "\\ud800"]', "half of a surrogate pair", 1, 8),
        ('["x"]'.encode("utf-16"), "not UTF-8", 1, 1),
        (b'["a\x00b"]', "invalid control character", 1, 4),
        (b"[01]", "expecting ',' delimiter", 1, 3),
        (b"{'a': 1}", "expecting property name", 1, 2),
        (b"// no\n{}", "expecting value", 1, 1),
    ],
)
def test_a_refusal_says_what_and_where(document: bytes, problem: str, line: int, column: int) -> None:
    with pytest.raises(jsonio.JsonError) as refused:
        jsonio.parse(document)
    assert problem in refused.value.problem
    assert (refused.value.line, refused.value.column) == (line, column)
    assert f"line {line}, column {column}" in str(refused.value)


def test_the_size_is_looked_at_first() -> None:
    with pytest.raises(jsonio.JsonError, match="11 bytes, where at most 10 are read"):
        jsonio.parse(b"\xff" * 11, size=10)
    assert jsonio.parse(b'"12345678"', size=10) == "12345678"


@pytest.mark.parametrize("document", [b"[1,1,1,1]", b"[[],[]]", b'{"a":1,"b":[2,3]}'])
def test_a_document_of_too_many_values_is_refused(document: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JSON_VALUES", 4)
    jsonio.parse(document)
    monkeypatch.setattr(limits, "JSON_VALUES", 3)
    with pytest.raises(jsonio.JsonError, match="more than 3 values"):
        jsonio.parse(document)
    assert jsonio.parse(b'",,,,,,[[[[[["') == ",,,,,,[[[[[["


def test_numbers_at_the_edge_are_kept() -> None:
    assert jsonio.parse(b"[18446744073709551615, -9223372036854775808, 1.7976931348623157e308]") == [
        2**64 - 1,
        -(2**63),
        1.7976931348623157e308,
    ]


def test_a_foreign_key_is_cut_and_inert_in_the_message() -> None:
    key = "\\u001b[31m" + "k" * 500
    with pytest.raises(jsonio.JsonError) as refused:
        jsonio.parse(f'{{"{key}": 1, "{key}": 2}}'.encode())
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_json_error_is_a_refusal_with_the_status_of_one() -> None:
    with pytest.raises(RefusedError) as refused:
        jsonio.parse(b"{")
    assert refused.value.exit_status == 2
    assert refused.value.code == "bad_json"
    assert refused.value.remedy


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", {"\udfff": 1}, ["\ude00\ud83d"]])
def test_what_could_not_be_read_back_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON"):
        jsonio.dump(value)


def test_keys_keep_their_order_and_indent_is_only_space() -> None:
    value = {"b": 1, "a": [1, 2]}
    assert jsonio.dump(value) == b'{"b":1,"a":[1,2]}\n'
    assert jsonio.parse(jsonio.dump(value, indent=2)) == value


def test_a_frame_of_the_largest_size_is_read_within_its_bound() -> None:
    document = b"[" + b"[]," * ((limits.FRAME_BYTES - 4) // 3) + b"0]"
    value = jsonio.parse(document, size=limits.FRAME_BYTES)
    assert isinstance(value, list)
    assert len(value) == (limits.FRAME_BYTES - 4) // 3 + 1
