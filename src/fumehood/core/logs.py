"""The log: one JSON object a line on stderr, for our own records and for those of libraries.

Invariants: every record goes through this one chain, whoever made it; a value under a key that looks like a
credential's is replaced; no control character reaches the terminal (the lines are ASCII JSON); a record that cannot
be written never ends what it is about. Content of targets is not logged by fumehood at all, arguments of tools only
with `log.tool_arguments`.

Imported late: `--help` needs none of it.
"""

import json
import logging
import os
import re
import select
import sys
import traceback
from typing import TextIO

from fumehood.core import limits
from fumehood.core.clock import Clock, SystemClock, rfc3339
from fumehood.core.untrusted import Untrusted

REDACTED = "[redacted]"
_CREDENTIAL = re.compile(
    r"token|secret|passw|api.?key|credential|authori[sz]ation|cookie|private.?key|session.?id|signature", re.IGNORECASE
)
# `Bearer x`, `token=x`, `"password": "x"`, `https://user:x@host` inside a message that somebody else formatted
_IN_TEXT = (
    re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{16,}"),
    re.compile(
        r"(?i)\b([A-Za-z0-9_-]{0,40}(?:token|secret|password|passwd|api[_-]?key|authorization|cookie))"
        r"([\"']?\s{0,3}[=:]\s{0,3}[\"']?)(?!bearer\b|basic\b)[^\s\"',;&]{1,4096}"
    ),
    re.compile(r"(://[^/\s:@]{1,200})(:)[^/\s@]{1,1000}(?=@)"),
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, *, stream: TextIO | None = None, clock: Clock | None = None) -> None:
    """Make this chain the only one: every handler of every logger is replaced by one on the root."""
    handler = UnhurriedHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(clock or SystemClock()))
    root = logging.getLogger()
    for name in ["", *list(logging.Logger.manager.loggerDict)]:
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            logger.removeHandler(old)
        logger.propagate = True
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # a line that cannot be written is lost, and nothing else


def ensure() -> None:
    """Set the chain up, with its default level, unless it is."""
    if not any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers):
        configure("warning")


class UnhurriedHandler(logging.StreamHandler[TextIO]):
    """Writes lines, and waits for nobody who does not read them: what finds no room is lost, and told once there is."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`; to one that has no descriptor as every handler does."""
        super().__init__(stream)
        self._lost = 0
        self._torn = False  # a line went out in part

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, or count it."""
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError, AttributeError):
            super().emit(record)
            return
        lines = [*([""] if self._torn else []), *([self.format(self._lines_lost())] if self._lost else [])]
        data = memoryview("\n".join([*lines, self.format(record), ""]).encode())
        rest = data
        try:
            # A descriptor that is ready takes so much without waiting (pipe(7)).
            while rest and _is_ready(descriptor, 0.0 if self._lost else limits.LOG_WAIT_SECONDS):
                rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
        except OSError:
            self.handleError(record)
        self._lost = self._lost + 1 if rest else 0
        self._torn = 0 < len(rest) < len(data) or (self._torn and len(rest) == len(data))

    def _lines_lost(self) -> logging.LogRecord:
        told = {"levelno": logging.WARNING, "levelname": "WARNING", "msg": "nobody read the log", "lost": self._lost}
        return logging.makeLogRecord({"name": __name__, **told})


def _is_ready(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(seconds * 1000))


class JsonFormatter(logging.Formatter):
    """A record as one line: time, level, logger, event, then what was given as `extra`."""

    def __init__(self, clock: Clock) -> None:
        """Take the time from `clock`."""
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, object] = {
            "time": rfc3339(self._clock.now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _message(record),
        }
        for key, value in vars(record).items():
            if key not in _STANDARD:
                line[key] = _shown(key, value, 0)
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = _text("".join(traceback.format_exception(*record.exc_info)), limits.LOG_TRACEBACK_CHARS)
        return json.dumps(line, ensure_ascii=True)


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except (TypeError, ValueError, LookupError, AttributeError) as error:  # a library's arguments that do not fit
        message = f"{record.msg!s} (arguments do not fit: {type(error).__name__})"
    return _text(message, limits.LOG_TEXT_CHARS)


def _shown(key: str, value: object, depth: int) -> object:  # noqa: PLR0911 - one answer for each kind of value
    """A value as JSON, redacted by its key, bounded in depth and size."""
    if _CREDENTIAL.search(key):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _text(value, limits.LOG_TEXT_CHARS)
    if isinstance(value, Untrusted):
        return repr(value)
    if isinstance(value, dict) and depth < limits.LOG_DEPTH:
        first = list(value.items())[: limits.LOG_ITEMS]
        return {_text(str(name), 200): _shown(str(name), entry, depth + 1) for name, entry in first}
    if isinstance(value, list | tuple | set | frozenset) and depth < limits.LOG_DEPTH:
        return [_shown(key, entry, depth + 1) for entry in list(value)[: limits.LOG_ITEMS]]
    return f"<{type(value).__name__}>"


def _text(text: str, characters: int) -> str:
    """Text cut and without what looks like a credential's value; replaced before the cut, which could hide its end."""
    kept = text[: 2 * characters]
    for pattern in _IN_TEXT:
        kept = pattern.sub(rf"\1\2{REDACTED}", kept)
    return kept if len(kept) <= characters and len(text) <= characters else kept[:characters] + "…"
