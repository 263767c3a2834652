"""Where in the user's program an error was thrown, from what V8 and Deno say. Pure.

A program is one module, imported as a `data:` URL, and PREAMBLE_LINES lines of ours stand before it. So a place in that
module is one of the program, some lines above; every other place is the harness's or Deno's, and is not shown.

Invariants: positions lie in the program and count from 1; texts are cut; the work is linear in what the child said.

Not promised: that a position is true. The program throws what it likes, and writes what stack it likes.

Sources: the stack trace API of V8; observed with Deno 2.9.8.
"""

import re
from typing import Final

from fumehood.code.job import ProgramError
from fumehood.code.messages import Thrown
from fumehood.core import limits

PREAMBLE_LINES: Final = 1  # that the harness puts before the program
PROGRAM_NAME: Final = "program.ts"  # what stands for the URL of its module

# A URL holds no colon after its first one, so that a search never reads a character twice.
_PROGRAM = re.compile(r"data:application/(?:type|java)script;base64,[^\s():\"]*(?::([0-9]{1,7}):([0-9]{1,7}))?")
_OURS = re.compile(
    r"\n[ \t]+at [^\n(]*\(?(?:file:///harness\.js|ext:[\w./]{1,80}):[0-9]{1,7}:[0-9]{1,7}\)?(?=\n| \{|\Z)"
)
_FRAME = re.compile(r"[ \t]*at ")
_ELSEWHERE = re.compile(r"\b(?:file|ext|node|npm|jsr|https?|blob|data|checkin):|[(\s]/")
_NAMED = re.compile(r"([A-Za-z]{1,40}Error): ")
# How Deno refuses each kind of module; its own words name a flag that nobody can give, or a place of ours.
_IMPORTING = re.compile(
    r"Requires import access to \"|npm specifiers were requested|JSR specifiers were requested"
    r"|'import', and 'export' cannot be used|not a dependency and not in import map"
)
_NO_MODULES: Final = "a program imports and exports no module: it has `input`, `tools`, `amcp`, and JavaScript's own"
_FRAMES: Final = 32  # of a stack; V8 gives ten unless it is told otherwise


def read(thrown: Thrown, code: str) -> ProgramError:
    """The error as its author may see it: places are those of the program, and nothing of ours is named."""
    text = thrown.message if thrown.phase == "load" else thrown.stack
    line, column = _first_place(text, code)
    name, message = thrown.name, thrown.message
    if thrown.phase == "load":
        name, message = _loading(message)
    return ProgramError(
        name=name[: limits.CODE_NAME_CHARACTERS],
        message=_message(message, code)[: limits.CODE_ERROR_CHARACTERS],
        line=line,
        column=column,
        stack=_stack(thrown.stack, code),
    )


def logged(text: str, code: str) -> str:
    """A line of `console` as its author may see it: an error in it has the places of the program, and none of ours."""
    return _OURS.sub("", _shown(text, code)) if "base64," in text else text


def _message(message: str, code: str) -> str:
    if _IMPORTING.search(message):
        return _NO_MODULES
    return logged(message, code)


def _loading(message: str) -> tuple[str, str]:
    """Name and message of what could not be read: Deno's drawing of the place is left out, and the place itself."""
    first = message.split("\n", 1)[0]
    place = _PROGRAM.search(first)
    if place:
        first = first[: place.start()].removesuffix(" at ")
    named = _NAMED.match(first)
    return (named[1], first[named.end() :]) if named else ("SyntaxError", first)


def _first_place(text: str, code: str) -> tuple[int | None, int | None]:
    for found in _PROGRAM.finditer(text):
        if found[1]:
            return _place(int(found[1]), int(found[2]), code)
    return None, None


def _place(line: int, column: int, code: str) -> tuple[int, int]:
    """A place of the module as one of the program; what lies beyond its end is its end, before its start its start."""
    lines = code.split("\n")
    line -= PREAMBLE_LINES
    if line < 1:
        return 1, 1
    if line > len(lines):
        return len(lines), len(lines[-1]) + 1
    return line, max(1, column)


def _shown(text: str, code: str) -> str:
    """A text in which the program's module has its short name."""

    def name(found: re.Match[str]) -> str:
        if not found[1]:
            return PROGRAM_NAME
        line, column = _place(int(found[1]), int(found[2]), code)
        return f"{PROGRAM_NAME}:{line}:{column}"

    return _PROGRAM.sub(name, text)


def _stack(stack: str, code: str) -> str:
    """The frames of the program and of what it called by itself."""
    frames: list[str] = []
    for text in stack.split("\n"):
        if len(frames) == _FRAMES or not _FRAME.match(text):
            continue
        shown = _shown(text.strip(), code)
        if not _ELSEWHERE.search(shown):
            frames.append(shown[: limits.CODE_ERROR_CHARACTERS])
    return "\n".join(frames)[: limits.CODE_ERROR_CHARACTERS]
