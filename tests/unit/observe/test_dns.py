import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.dns import Question, parse_question

LABELS = st.lists(st.binary(min_size=1, max_size=63), max_size=6)


def query(labels: list[bytes], query_type: int = 1, tail: bytes = b"", flags: bytes = b"\1\0") -> bytes:
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return b"\xab\xcd" + flags + b"\0\1\0\0\0\0\0\0" + name + query_type.to_bytes(2, "big") + b"\0\1" + tail


def test_a_question_is_read_in_lower_case() -> None:
    data = query([b"ReGistry", b"example"], 28)
    assert parse_question(data) == Question(name="registry.example", query_type=28, end=len(data))


def test_an_edns_record_after_the_question_is_left_alone() -> None:
    plain = query([b"a", b"example"])
    question = parse_question(plain + b"\0\0\x29\x04\xd0\0\0\0\0\0\0")
    assert question == Question(name="a.example", query_type=1, end=len(plain))


@pytest.mark.threat("R3")
def test_a_dot_inside_a_label_cannot_pose_as_two_labels() -> None:
    question = parse_question(query([b"registry.example"]))
    assert question is not None
    assert question.name == "registry\\046example"


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"\0" * 11,
            b"\0" * 12,
            b"\0" * 17,
            query([b"a"])[:-1],
            query([b"a"], flags=b"\x81\0"),
            query([b"a"], flags=b"\x28\0"),
        ),
        query([b"a"]).replace(b"\0\1\0\0\0\0\0\0", b"\0\2\0\0\0\0\0\0"),  # two questions
        query([b"a"])[:-1] + b"\3",  # class CHAOS
        b"\0\0\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1",  # a pointer to itself
        query([b"x" * 63] * 4),  # 256 bytes on the wire
        b"\0\0\1\0\0\1\0\0\0\0\0\0" + b"\x3f" * 40,
    ],
)
def test_what_is_not_one_plain_question_is_none(data: bytes) -> None:
    assert parse_question(data) is None


@given(LABELS, st.integers(0, 65535), st.binary(max_size=40))
def test_every_well_formed_question_is_read(labels: list[bytes], query_type: int, tail: bytes) -> None:
    data = query(labels, query_type)
    question = parse_question(data + tail)
    if sum(len(label) + 1 for label in labels) + 1 > 255:
        assert question is None
    else:
        assert question is not None
        assert (question.query_type, question.end) == (query_type, len(data))
        assert question.name.count(".") == max(0, len(labels) - 1)
        assert question.name.isascii()
        assert question.name.isprintable()


@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    question = parse_question(data)
    assert question is None or question.end <= len(data)


@given(LABELS, st.data())
def test_mangled_questions_are_read_or_refused(labels: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(query(labels))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    question = parse_question(cut)
    assert question is None or question.end <= len(cut)
