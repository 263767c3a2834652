import pytest

from fumehood.serve.counting import counted, passed_over, share


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (counted(0, "line"), "0 lines"),
        (counted(1, "line"), "1 line"),
        (counted(2, "line"), "2 lines"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(3, "entry", "entries"), "3 entries"),
        (share(3, 3, "file"), "3 files"),
        (share(1, 1, "file"), "1 file"),
        (share(3, 12, "file"), "3 of 12 files"),
        (share(0, 1, "entry", "entries"), "0 of 1 entry"),
    ],
)
def test_a_number_agrees_with_its_noun(said: str, words: str) -> None:
    assert said == words


def test_what_was_passed_over_is_said_in_words_and_only_where_there_is_some() -> None:
    assert passed_over({"links": 1, "denied": 2, "too_large": 1, "generated": 0}) == "2 denied, 1 link, 1 too large"
    assert passed_over({"links": 3}) == "3 links"
    assert passed_over({}) == ""
