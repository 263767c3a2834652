"""review.inputs.maker and child: inputs are made in a process of their own."""

import asyncio
import os
from typing import Any

import pytest

from fumehood.core import jsonio, limits
from fumehood.review.inputs import child, maker
from fumehood.review.inputs.generate import ALL, REQUIRED
from fumehood.review.inputs.made import Made, NotMade
from fumehood.sandbox import confine

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SAYS_SO = "import sys; print('{}', flush=True); sys.stdin.readline()"


def made_of(*schemas: Any) -> list[Made | NotMade]:  # any JSON value
    """What one maker makes of one schema after another; without walls where this host has none."""

    async def talk() -> list[Made | NotMade]:
        async with maker.maker(unsafe_without_walls=confine.landlock_abi() == 0) as opened:
            return [await opened.make(schema, 1, ALL) for schema in schemas]

    return asyncio.run(talk())


def test_arguments_come_from_the_child_and_are_checked() -> None:
    made, again = made_of(SCHEMA, SCHEMA)

    assert made == again == Made(arguments={"path": "{workspace}/package.json"}, valid=True)


def test_a_child_that_dies_costs_one_schema_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = f"{maker._PROGRAM.replace('child.main', 'child.answer = crash; child.main')}".replace(
        "from fumehood", "import os\ncrash = lambda line: b'{}' if b'{}' in line else os.abort()\nfrom fumehood", 1
    )
    monkeypatch.setattr(maker, "_PROGRAM", dies)

    lost, other = made_of(SCHEMA, {})

    assert lost == NotMade(reason="the child that makes inputs ended")
    assert other == NotMade(reason="the child that makes inputs said what is no answer")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ('import sys; print(\'{"refused": "no wall"}\', flush=True); sys.stdin.read()', "no wall"),
        (f"{SAYS_SO}; print('[]', flush=True); input()", "no answer"),
        (f"{SAYS_SO}; print('{{', flush=True); input()", "no answer"),
        (f"{SAYS_SO}; print('x' * 2**20); input()", "ended"),
        ("import time; print('{}', flush=True); time.sleep(60)", "did not answer"),
    ],
)
def test_a_child_that_does_not_answer_as_it_should_is_ended(
    program: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "_PROGRAM", program)
    monkeypatch.setattr(limits, "INPUT_SECONDS", 1.0)

    (lost,) = made_of(SCHEMA)

    assert isinstance(lost, NotMade)
    assert reason in lost.reason


def test_children_are_started_so_often_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "_PROGRAM", "pass")
    monkeypatch.setattr(limits, "INPUT_STARTS", 1)

    assert made_of(SCHEMA, SCHEMA)[1] == NotMade(reason="the schemas before this one ended too many children")


def test_a_schema_that_is_too_large_or_too_deep_is_told_and_ends_nothing() -> None:
    deep: dict[str, Any] = {}
    for _ in range(limits.JSON_DEPTH + 2):
        deep = {"properties": deep}

    large, nested, made = made_of({"description": "x" * limits.INPUT_SCHEMA_BYTES}, deep, SCHEMA)

    assert large == NotMade(reason=f"the schema has more than {limits.INPUT_SCHEMA_BYTES} bytes")
    assert isinstance(nested, NotMade)
    assert "nested deeper" in nested.reason
    assert isinstance(made, Made)


@pytest.mark.threat("R33")
def test_a_child_that_spins_is_ended_by_its_limit_of_cpu_and_the_next_schema_has_its_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spin = "def spin(line):\n    while b'spin' in line: pass\n    return own(line)\n"
    program = maker._PROGRAM.replace("child.main", f"own = child.answer\n{spin}\nchild.answer = spin\nchild.main")
    monkeypatch.setattr(maker, "_PROGRAM", program)
    monkeypatch.setattr(limits, "INPUT_SECONDS", 20.0)  # what ends it is the kernel

    lost, made = made_of({"description": "spin"}, SCHEMA)

    assert lost == NotMade(reason="the child that makes inputs ended")
    assert isinstance(made, Made)


def test_arguments_that_never_fit_are_the_first_ones_and_marked() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string", "not": {"type": "string"}}}, "required": ["a"]}

    (made,) = made_of(schema)

    assert isinstance(made, Made)
    assert made.valid is False
    assert made.notes == ("not_followed: not",)


def test_validity_is_unknown_where_a_schema_cannot_be_checked() -> None:
    assert maker.check(5, {}) == (None, "not a JSON Schema")
    assert maker.check({"$ref": "http://x.example/"}, {})[0] is None
    assert maker.check({"properties": {"a": {"pattern": "(?=a)"}}}, {"a": "b"})[0] is None
    assert maker.check({"required": ["a"]}, {}) == (False, "does not fit required")


def test_a_tool_is_called_with_all_members_where_that_is_more_than_the_required_ones() -> None:
    assert maker.extents(SCHEMA) == (ALL,)
    assert maker.extents({"type": "object"}) == (ALL,)
    assert maker.extents({"properties": {"a": {}}}) == (REQUIRED, ALL)
    assert maker.extents(5) == (ALL,)


def test_the_child_answers_a_line_and_names_what_it_cannot_read() -> None:
    asked = {"schema": SCHEMA, "seed": 1, "extent": ALL, "attempt": 0, "about": "read_file"}

    answer = jsonio.parse(child.answer(jsonio.dump(asked)))

    assert answer == {"arguments": {"path": "{workspace}/package.json"}, "notes": []}
    assert b"reason" in child.answer(b"{")


def test_the_child_serves_until_its_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = jsonio.dump({"schema": SCHEMA, "seed": 1, "extent": ALL, "attempt": 0, "about": "read_file"})
    parts, said = [asked[:10], asked[10:] + asked, b""], bytearray()

    def write(_: int, data: bytes) -> int:
        said.extend(data[:5])
        return len(data[:5])

    monkeypatch.setattr(confine, "confine", lambda _: ())
    monkeypatch.setattr(os, "read", lambda *_: parts.pop(0))
    monkeypatch.setattr(os, "write", write)

    child.main(unsafe_without_walls=True)

    lines = bytes(said).splitlines()
    assert lines[0] == b"{}"
    assert lines[1] == lines[2]
    assert len(lines) == 3


@pytest.mark.parametrize(("said", "without"), [("{}", ()), ('{"without": ["landlock: none"]}', ("landlock: none",))])
def test_a_wall_that_the_child_could_do_without_is_told(
    said: str, without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = '{"arguments": {}, "notes": []}'
    program = f"import sys; print({said!r}, flush=True); sys.stdin.readline(); print({answer!r}, flush=True)"
    monkeypatch.setattr(maker, "_PROGRAM", program)

    async def talk() -> tuple[str, ...]:
        async with maker.maker() as opened:
            assert isinstance(await opened.make({}, 1, ALL), Made)
            return opened.without

    assert asyncio.run(talk()) == without
