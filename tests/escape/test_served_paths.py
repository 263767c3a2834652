"""Every shape of a path that leads out, at every tool, over every transport: nothing of the outside comes back.

An attempt is one call. Two further things are looked at: whether what exists outside can be told from what does not,
and, as a negative control, that the same look finds a leak where a reader without the fence makes one.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from served import attempts, world
from served.attempts import TOOLS, Call
from served.talk import HttpTalk, Talk
from served.world import ABSENT, MARK, MARKED, World

TRANSPORTS = ("stdio, legacy", "stdio, modern", "http, legacy", "http, modern")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world.make(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module", params=TRANSPORTS)
def call(request: pytest.FixtureRequest, ground: World) -> Iterator[Call]:
    kind = HttpTalk if "http" in request.param else Talk
    with kind(ground.root, modern="modern" in request.param) as talk:
        yield talk.call


@pytest.mark.sandbox
@pytest.mark.threat("T1", "T2", "T10")
@pytest.mark.parametrize("tool", TOOLS)
def test_no_path_leads_out_and_none_tells_what_is_there(call: Call, ground: World, tool: str) -> None:
    wrong = []
    present, absent = world.shapes(ground, MARKED), world.shapes(ground, ABSENT)
    for shape in present:
        found = attempts.answer(call, tool, present[shape])
        wrong += [f"{shape}: {leak}" for leak in attempts.leaks(ground, found, present[shape])]
        missing = attempts.answer(call, tool, absent[shape])
        if not attempts.same_but_for_the_name(found, missing):
            wrong.append(f"{shape}: what exists is told from what does not")
    for shape, path in world.inner_shapes().items():
        wrong += [f"{shape}: {leak}" for leak in attempts.leaks(ground, attempts.answer(call, tool, path), path)]
    assert wrong == []


@pytest.mark.sandbox
@pytest.mark.threat("T1", "T2")
def test_without_a_path_the_outside_is_in_no_answer_either(call: Call, ground: World) -> None:
    for tool, arguments in TOOLS.items():
        if tool != "read_file":
            text = json.dumps(call(tool, arguments), ensure_ascii=False)
            assert attempts.leaks(ground, text, "") == [], tool


def test_there_are_enough_attempts(ground: World) -> None:
    shapes = len(world.shapes(ground, MARKED)) + len(world.inner_shapes())
    assert shapes * len(TOOLS) * len(TRANSPORTS) >= 250


def test_a_reader_without_the_fence_is_caught_by_the_same_look(ground: World) -> None:
    def naive(_tool: str, arguments: dict[str, Any]) -> Any:
        place = Path(os.path.normpath(ground.root / arguments["path"]))
        return {"text": place.read_text()[:200], "size": place.stat().st_size, "place": str(place.resolve())}

    text = attempts.answer(naive, "read_file", f"../{MARKED}")
    assert attempts.leaks(ground, text, f"../{MARKED}") == ["content", "size", "place"]
    assert "target" in attempts.leaks(ground, attempts.answer(naive, "read_file", "link_file"), "link_file")
    assert MARK in attempts.answer(naive, "read_file", "hard.txt")


def test_an_answer_that_tells_what_exists_is_caught(ground: World) -> None:
    del ground
    assert attempts.same_but_for_the_name(f"no {MARKED}", f"no {ABSENT}")
    assert not attempts.same_but_for_the_name(f"denied {MARKED}", f"not found {ABSENT}")
