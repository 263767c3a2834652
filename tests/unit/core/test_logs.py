"""core.logs: one chain for every record, inert and without credentials."""

import datetime as dt
import fcntl
import io
import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits, logs
from fumehood.core.untrusted import Untrusted


class StoppedClock:
    def monotonic(self) -> float:
        return 0.0

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 11, 29, 12, 0, tzinfo=dt.UTC)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    stream = io.StringIO()
    logging.captureWarnings(capture=False)  # a command that an earlier test ran may have left it on
    logs.configure("debug", stream=stream, clock=StoppedClock())
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def formatted(message: str, **extra: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": message, **extra})
    text = logs.JsonFormatter(StoppedClock()).format(record)
    assert text.isascii()
    assert text.isprintable()
    value: dict[str, Any] = json.loads(text)
    return value


def test_a_record_is_one_json_object_with_what_was_given_besides(stream: io.StringIO) -> None:
    logging.getLogger("fumehood.review").info("phase ended", extra={"phase": "INSTALL", "seconds": 1.5, "kept": [1]})
    assert lines(stream) == [
        {
            "time": "2026-11-29T12:00:00.000Z",
            "level": "info",
            "logger": "fumehood.review",
            "event": "phase ended",
            "phase": "INSTALL",
            "seconds": 1.5,
            "kept": [1],
        }
    ]


def test_a_librarys_own_handlers_are_replaced_and_its_records_take_the_same_chain(stream: io.StringIO) -> None:
    foreign = logging.getLogger("foreign.library")
    own = io.StringIO()
    foreign.addHandler(logging.StreamHandler(own))
    foreign.propagate = False
    logs.configure("info", stream=stream, clock=StoppedClock())
    foreign.warning("from %s", "there")
    foreign.debug("too quiet")
    assert own.getvalue() == ""
    assert [line["event"] for line in lines(stream)] == ["from there"]


def test_warnings_take_the_same_chain(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", UserWarning, stacklevel=1)
    assert "old" in lines(stream)[-1]["event"]
    assert lines(stream)[-1]["logger"] == "py.warnings"


@pytest.mark.threat("R17")
@pytest.mark.parametrize(
    "key", ["token", "GITHUB_TOKEN", "api_key", "apiKey", "password", "Authorization", "set-cookie", "client_secret"]
)
def test_a_value_under_a_credentials_key_is_not_written(key: str) -> None:
    value = formatted("x", **{key: "s3cr3t"}, headers={key: "s3cr3t", "host": "h"}, all=[{key: ["s3cr3t"]}])
    assert "s3cr3t" not in json.dumps(value)
    assert value["headers"]["host"] == "h"


@pytest.mark.threat("R17")
@pytest.mark.parametrize(
    "message",
    [
        "Authorization: Bearer s3cr3ts3cr3ts3cr3t",
        "authorization=s3cr3ts3cr3t",
        "sent token=s3cr3ts3cr3t&x=1",
        '{"password": "s3cr3ts3cr3t"}',
        "fetching https://user:s3cr3ts3cr3t@host.example/x",
        "NPM_TOKEN=s3cr3ts3cr3t npm ci",
    ],
)
def test_what_looks_like_a_credential_in_a_message_is_not_written(message: str) -> None:
    value = formatted(message)
    assert "s3cr3t" not in json.dumps(value)
    assert logs.REDACTED in value["event"]


def test_a_credential_that_the_cut_goes_through_is_not_written() -> None:
    filler = "x" * (limits.LOG_TEXT_CHARS - 30)
    value = formatted(f"{filler} https://user:s3cr3ts3cr3ts3cr3t@host.example/x")
    assert "s3cr3t" not in json.dumps(value)


def test_ordinary_text_passes_unchanged() -> None:
    for message in ("tokens counted: 5 of 7", "GET https://host.example:443/path", "a basic review", "x@y.example"):
        assert formatted(message)["event"] == message


@given(st.text(max_size=50), st.dictionaries(st.text(st.characters(categories=["Ll"]), min_size=9), st.text()))
def test_any_record_is_one_inert_line(message: str, extra: dict[str, Any]) -> None:
    formatted(message.replace("%", ""), **{"z" + key: value for key, value in extra.items()})


def test_content_that_nobody_opened_stays_closed() -> None:
    value = formatted("x", said=Untrusted(b"hello there", source="stderr"))
    assert value["said"] == "<Untrusted 11 bytes from stderr>"


def test_a_record_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"a": deep}
    value = formatted("m" * 10**6, deep=deep, wide=list(range(10**5)), thing=object())
    assert len(json.dumps(value)) < 2 * limits.LOG_TEXT_CHARS
    assert value["thing"] == "<object>"


def test_arguments_that_do_not_fit_their_message_do_not_end_anything(stream: io.StringIO) -> None:
    logging.getLogger("foreign").warning("%s and %s", "one")  # noqa: PLE1206 - that is the point
    assert "arguments do not fit" in lines(stream)[0]["event"]


def test_an_error_carries_its_traceback_in_the_same_line(stream: io.StringIO) -> None:
    try:
        int("password=s3cr3ts3cr3t")
    except ValueError:
        logging.getLogger("fumehood").exception("unexpected error")
    (line,) = lines(stream)
    assert "ValueError" in line["traceback"]
    assert "s3cr3t" not in stream.getvalue()


def test_a_stream_that_is_gone_ends_nothing() -> None:
    closed = io.StringIO()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logs.configure("info", stream=closed, clock=StoppedClock())
    closed.close()
    logging.getLogger("x").error("lost")
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.threat("T8")
@pytest.mark.parametrize("more", [0, 5], ids=["whole lines", "a torn line"])
def test_a_log_that_nobody_reads_holds_nothing_up_and_says_later_what_was_lost(more: int) -> None:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 16 * 1024)  # one long line and a part of the next
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        handler = logs.UnhurriedHandler(stream)
        handler.setFormatter(logs.JsonFormatter(StoppedClock()))

        def write(count: int) -> None:
            for number in range(count):
                text = {f"more_{n}": "y" * 1900 for n in range(more)}
                handler.emit(logging.makeLogRecord({"name": "x", "msg": f"{number} " + "y" * 1900, **text}))

        writer = threading.Thread(target=write, args=(200,), daemon=True)
        writer.start()
        writer.join(30)
        assert not writer.is_alive()
        os.set_blocking(reading, False)
        unread = reader.read()
        write(1)
        *first, torn = unread.split(b"\n")
        lost, last = filter(None, reader.read().split(b"\n"))
    kept = [json.loads(line) for line in first]
    assert [one["event"].split()[0] for one in kept] == [str(number) for number in range(len(kept))]
    assert bool(torn) == bool(more)
    assert json.loads(lost)["lost"] == 200 - len(kept) > 0
    assert json.loads(last)["event"].startswith("0 ")
