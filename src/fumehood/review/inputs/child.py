"""The process that makes inputs: it reads schemas of a target, and gives back arguments.

`sandbox.launch` starts it. It takes all rights from itself (limits of CPU and memory, Landlock without any rule, a
list of allowed system calls), says `{}`, `{"without": […]}` where one wall could not stand that it can do without, or
`{"refused": …}`, and answers one line of JSON with one line of JSON, until its stdin ends.

Threats: a schema that makes a generator spin, recurse or grow. It ends this process, and nothing else.
"""

import json
import os
import resource
import sys
from typing import Any, Final

from fumehood.core import jsonio, limits
from fumehood.core.errors import FumehoodError
from fumehood.review.inputs.generate import generate
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import Profile

NEEDED: Final = ("seccomp",)  # it can open nothing then; Landlock is one wall more where the kernel has it
_LIMITS: Final = (
    (resource.RLIMIT_CPU, limits.INPUT_CPU_SECONDS),
    (resource.RLIMIT_DATA, limits.INPUT_MEMORY_BYTES),
    (resource.RLIMIT_FSIZE, 0),
)


def main(*, unsafe_without_walls: bool = False) -> None:
    """Put up the walls, say so, and serve until the input ends."""
    answer(
        b'{"schema": {}, "seed": 0, "extent": "all", "attempt": 0, "about": ""}'
    )  # warm: nothing can be loaded later
    try:
        walls = confine.confine(confine.Walls(ruleset=landlock.NOTHING, profile=Profile.WORKER, limits=_LIMITS))
    except FumehoodError as error:
        _write(json.dumps({"refused": error.message}).encode())
        return
    missing = [wall for wall in walls if wall.name in NEEDED and wall.state is not WallState.ENFORCED]
    if missing and not unsafe_without_walls:
        _write(json.dumps({"refused": f"{missing[0].name}: {missing[0].why}"}).encode())
        return
    without = [f"{wall.name}: {wall.why}" for wall in walls if wall.state is WallState.UNAVAILABLE]
    _write(json.dumps({"without": without} if without else {}).encode())
    rest = b""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _write(answer(line))


def answer(line: bytes) -> bytes:
    """The answer to one line. Errors: whatever a hostile schema makes of it; the process may end."""
    try:
        asked: Any = jsonio.parse(line, size=2 * limits.INPUT_SCHEMA_BYTES, depth=limits.JSON_DEPTH + 1)
    except jsonio.JsonError as error:
        return json.dumps({"reason": f"the schema is not read: {error.problem}"}).encode()
    how = {name: asked[name] for name in ("extent", "attempt", "about")}
    made = generate(asked["schema"], asked["seed"], **how)
    return json.dumps({"arguments": made.arguments, "notes": made.notes}, allow_nan=False).encode()


def _write(data: bytes) -> None:
    view = memoryview(data + b"\n")
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main(unsafe_without_walls="without-walls" in sys.argv)
