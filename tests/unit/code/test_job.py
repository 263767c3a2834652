"""code.job: a job is read whole or refused."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code import job
from fumehood.code.job import BadJobError, Job, JobLimits
from fumehood.core import limits

VALIDATOR = jsonschema_rs.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs/reference/code-job.schema.json").read_text(encoding="utf-8"))
)


def test_a_job_has_its_fields_and_the_defaults_of_the_rest() -> None:
    assert job.read({"code": "return 1"}) == Job(code="return 1")
    fields: Any = {"code": "x", "input": [1, {"a": None}], "tools": ["a.b"], "limits": {"calls": 0, "wall_seconds": 1}}
    assert job.read(fields) == Job(
        code="x", input=[1, {"a": None}], tools=("a.b",), limits=JobLimits(calls=0, wall_seconds=1)
    )


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"code": ""},
        {"code": 5},
        {"code": "x" * (limits.CODE_BYTES + 1)},
        {"code": "x", "token": "a"},
        {"code": "x", "tools": [""]},
        {"code": "x", "tools": "a"},
        {"code": "x", "limits": {"calls": limits.CODE_CALLS + 1}},
        {"code": "x", "limits": {"calls": True}},
        {"code": "x", "limits": {"wall_seconds": 0}},
        {"code": "x", "limits": {"cpu_seconds": limits.CODE_CPU_SECONDS_MAX + 1}},
        {"code": "x", "limits": {"memory_bytes": 1}},
        {"code": "x", "limits": {"output_bytes": 1023}},
        {"code": "x", "limits": {"calls_in_flight": 0}},
        {"code": "x", "limits": {"more": 1}},
    ],
    ids=lambda fields: str(fields)[:60],
)
def test_what_is_no_job_is_refused_by_code_and_schema(fields: Any) -> None:
    with pytest.raises(BadJobError, match="not a job"):
        job.read(fields)
    assert not VALIDATOR.is_valid(fields)


def test_a_program_is_measured_in_bytes_as_well() -> None:
    assert job.read({"code": "é" * (limits.CODE_BYTES // 2)}).code
    with pytest.raises(BadJobError, match="65538 bytes"):
        job.read({"code": "é" * (limits.CODE_BYTES // 2 + 1)})


def test_a_refusal_shows_foreign_words_cut_and_inert() -> None:
    with pytest.raises(BadJobError) as caught:
        job.read({"code": "x", "\x1b[2J\u202e" + "k" * 5000: 1})
    assert caught.value.message.isprintable()
    assert caught.value.message.isascii()
    assert len(caught.value.message) < 250


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 500)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["code", "input", "tools", "limits", "calls", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(_values)
def test_a_job_is_read_exactly_when_it_fits_the_published_schema(fields: Any) -> None:
    try:
        job.read(fields)
    except BadJobError:
        fits = False
    else:
        fits = True
    assert fits == VALIDATOR.is_valid(fields)
