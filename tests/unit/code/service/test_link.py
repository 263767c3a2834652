"""code.service.link: what is a message between a backend and a runner, and what is none."""

import contextlib
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code import job as jobs
from fumehood.code.job import BadJobError, CallRecord, Job, JobResult, LogLine, ProgramError, State, Usage
from fumehood.code.service import link
from fumehood.core import limits

pytestmark = pytest.mark.threat("C5")
PUBLISHED = json.loads((Path(__file__).parents[4] / "docs/reference/code-link.schema.json").read_text())
RESULT = JobResult(
    state=State.OK,
    ok=True,
    value={"a": [1, None, "é"]},
    logs=(LogLine(level="log", message="words"),),
    calls=(CallRecord(name="a.b", milliseconds=1.5, outcome="ok", sent_bytes=1, received_bytes=2),),
    usage=Usage(wall_milliseconds=1),
    containment={"memory": "enforced"},
)
FAILED = JobResult(state=State.USER_ERROR, ok=False, error=ProgramError(name="Error", message="no"))
FROM_BACKEND: list[Any] = [
    link.CallResultMessage(id=1, ok=True, value=None),
    link.CallResultMessage(id=2, ok=False, error=link.CallError(code="read_only", message="no", outcome="refused")),
    link.CancelMessage(),
]
FROM_RUNNER: list[Any] = [
    link.CallMessage(id=1, method="run", args=["a.b", {"x": 1}]),
    link.LogMessage(level="warn", message="words"),
    link.ResultMessage(result=RESULT),
    link.ResultMessage(result=FAILED),
    link.BusyMessage(retry_after_seconds=0.5),
    link.RefusedMessage(code="bad_token", message="no"),
]


def first(**changes: Any) -> bytes:
    message = {"type": "job", "token": "t" * 43, "job": {"code": "return 1"}} | changes
    return json.dumps({name: value for name, value in message.items() if value is not None}).encode()


@pytest.mark.parametrize("message", FROM_BACKEND)
def test_what_a_backend_writes_a_runner_reads(message: Any) -> None:
    assert link.read_from_backend(link.write(message)) == message


@pytest.mark.parametrize("message", FROM_RUNNER)
def test_what_a_runner_writes_a_backend_reads(message: Any) -> None:
    assert link.read_from_runner(link.write(message)) == message


def test_a_job_arrives_with_its_token_as_it_was_sent() -> None:
    job = Job(code="return 'é\\u0000'", input=[1, {"a": None}], tools=("a.b",))
    data = link.write(link.JobMessage(token="t" * 43, job=job))
    assert (link.token_of(data), link.read_job(data)) == ("t" * 43, job)


@pytest.mark.parametrize("message", [link.JobMessage(token="t", job=Job(code="x")), *FROM_BACKEND, *FROM_RUNNER])
def test_what_is_written_is_inert_and_fits_the_published_schema(message: Any) -> None:
    data = link.write(message)
    assert data.isascii()
    assert b"\n" not in data
    jsonschema_rs.validate(PUBLISHED, json.loads(data))


def test_the_published_schema_refuses_what_the_reader_refuses() -> None:
    assert json.loads(json.dumps(link.schema())) == PUBLISHED
    for wrong in (
        {"type": "callResult", "id": 1, "ok": True},
        {"type": "callResult", "id": 1, "ok": False, "value": 1},
        {"type": "cancel", "more": 1},
        {"type": "result", "result": {"state": "ok", "ok": False}},
    ):
        assert not jsonschema_rs.is_valid(PUBLISHED, wrong), wrong


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b'{"type":"job"}',
        b'{"type":"job","token":1,"job":{}}',
        b'{"type":"job","token":"","job":{}}',
        b'{"type":"cancel","token":"t"}',
        b'{"type":"job","token":"%s","job":{}}' % (b"t" * (limits.CODE_TOKEN_CHARACTERS + 1)),
        b'{"type":"job","token":"t","job":' + b"[" * 200_000,
        b'{"type":"job","token":"\\ud800","job":{}}',
    ],
)
def test_a_first_message_without_a_token_is_refused_in_words_of_ours(data: bytes) -> None:
    with pytest.raises(link.LinkError, match="no job with a token"):
        link.token_of(data)


def test_the_token_is_found_however_wrong_the_job_is() -> None:
    wrong: list[Any] = [None, 1, [], {"code": 1}, {"code": "x", "unknown": 1}, {"code": "x" * (limits.CODE_BYTES + 1)}]
    for job in wrong:
        assert link.token_of(json.dumps({"type": "job", "token": "t", "job": job}).encode()) == "t"


@pytest.mark.parametrize(
    "data",
    [
        first(job=1),
        first(job=None),
        first(more=1),
        first(token=None),
        first()[:-1] + b',"token":"u"}',
        first() + b" 1",
        b"\xef\xbb\xbf" + first(),
        first(job={"code": "x" * (limits.CODE_LINK_JOB_BYTES)}),
    ],
)
def test_a_first_message_that_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(link.LinkError):
        link.read_job(data)


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"code": ""},
        {"code": "x", "more": 1},
        {"code": "x" * (limits.CODE_BYTES + 1)},
        {"code": "x", "input": "x" * (limits.CODE_INPUT_BYTES - 1)},
        {"code": "x", "tools": [str(n) for n in range(limits.CODE_TOOLS + 1)]},
        {"code": "x", "limits": {"wall_seconds": 1e9}},
    ],
)
def test_a_job_that_is_none_is_refused_as_a_job(job: Any) -> None:
    with pytest.raises(BadJobError, match="not a job"):
        link.read_job(first(job=job))


def test_an_input_is_bounded_as_it_is_written_in_utf_8() -> None:
    fits = "é" * ((limits.CODE_INPUT_BYTES - 2) // 2)
    assert jobs.read({"code": "x", "input": fits}).input == fits
    with pytest.raises(BadJobError, match="an input of"):
        jobs.read({"code": "x", "input": fits + "é"})
    with pytest.raises(BadJobError, match="no JSON"):
        jobs.read({"code": "x", "input": "\ud800"})


@pytest.mark.parametrize(
    "words",
    [
        '{"type":"call","id":0,"method":"run","args":[]}',
        '{"type":"call","id":1,"method":"eval","args":[]}',
        '{"type":"call","id":1,"method":"run","args":[1,2,3]}',
        '{"type":"call","id":1,"id":2,"method":"run","args":[]}',
        '{"type":"log","level":"loud","message":""}',
        '{"type":"busy","retry_after_seconds":-1}',
        '{"type":"busy","retry_after_seconds":1e999}',
        '{"type":"refused","code":"Not A Code","message":""}',
        '{"type":"result","result":{"state":"ok","ok":false}}',
        '{"type":"result","result":{"state":"ok","ok":true,"error":{"name":"a","message":"b"}}}',
        '{"type":"result","result":{"state":"user_error","ok":false}}',
        '{"type":"result","result":{"state":"user_error","ok":false,"value":1,"error":{"name":"a","message":"b"}}}',
        '{"type":"result","result":{"state":"well","ok":true}}',
        '{"type":"job","token":"t","job":{"code":"x"}}',
        '{"type":"call","id":1,"method":"run","args":[' + "[" * 70 + "]" * 70 + "]}",
        '{"type":"call","id":1,"method":"run","args":["' + "x" * limits.CODE_LINK_RESULT_BYTES + '"]}',
    ],
)
def test_what_is_no_message_of_a_runner_is_refused(words: str) -> None:
    with pytest.raises(link.LinkError):
        link.read_from_runner(words.encode())


@pytest.mark.parametrize("value", [float("nan"), 1j, "\ud800", object()])
def test_what_is_no_json_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        link.write(link.CallResultMessage(id=1, ok=True, value=value))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_raise_anything_but_our_own(data: bytes) -> None:
    for read in (link.token_of, link.read_job, link.read_from_backend, link.read_from_runner):
        with contextlib.suppress(link.LinkError, BadJobError):
            read(data)


@given(st.text())
def test_foreign_words_are_shown_inert(words: str) -> None:
    assert link.shown(words).isprintable()
    assert len(link.shown(words)) <= 200
