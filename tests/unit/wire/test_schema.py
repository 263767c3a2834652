"""wire.schema: every problem, linear patterns, no reference followed outside."""

from pathlib import Path

import pytest

from fumehood.wire import schema


def test_every_problem_is_found_with_its_path_and_keyword() -> None:
    rules = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"maxLength": 1, "type": "string"}}},
        "required": ["c"],
        "additionalProperties": False,
    }
    found = schema.problems(rules, {"a": "x", "b": ["y", "zz", 1], "d": 1})
    assert {(problem.path, problem.keyword) for problem in found} == {
        ((), "required"),
        ((), "additionalProperties"),
        (("a",), "type"),
        (("b", 1), "maxLength"),
        (("b", 2), "type"),
    }
    assert all(problem.message for problem in found)


def test_a_value_that_fits_has_no_problem() -> None:
    assert schema.problems({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 1) == []


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(a*)*b"])
def test_a_pattern_that_backtracks_elsewhere_is_answered(pattern: str) -> None:
    assert schema.problems({"pattern": pattern}, "a" * 50_000 + "!") != []


@pytest.mark.parametrize("pattern", ["(?=a)a", "(?<!b)a", r"(a)\1"])
def test_a_pattern_that_needs_backtracking_is_no_schema_of_ours(pattern: str) -> None:
    with pytest.raises(ValueError, match="regex"):
        schema.problems({"pattern": pattern}, "a")


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x.json", "file:///etc/hostname", "urn:other"])
def test_a_reference_that_leads_outside_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="leads out of the schema"):
        schema.problems({"$ref": reference}, 1)


def test_a_file_that_exists_is_not_read_either(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"const": 1}')
    with pytest.raises(ValueError, match="leads out of the schema"):
        schema.problems({"$ref": (tmp_path / "s.json").as_uri()}, 1)


def test_what_is_no_schema_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not valid"):
        schema.problems({"type": "nonsense"}, 1)
