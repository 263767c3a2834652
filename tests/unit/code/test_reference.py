"""docs/reference/code.md says what the code says."""

import re
from pathlib import Path

import msgspec
import pytest

from fumehood.code import messages
from fumehood.code.job import Job, JobLimits, JobResult, State
from fumehood.core import limits

PAGE = (Path(__file__).parents[3] / "docs/reference/code.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]


def row(title: str, name: str) -> str:
    return next(" | ".join(cells) for cells in rows(section(title)) if cells[0] == f"`{name}`")


def test_every_state_is_explained() -> None:
    assert {cells[0] for cells in rows(section("States"))} >= {f"`{state}`" for state in State}


def test_every_field_of_a_job_is_explained() -> None:
    names = {f"`{field.name}`" for field in msgspec.structs.fields(Job)} - {"`limits`"}
    names |= {f"`limits.{field.name}`" for field in msgspec.structs.fields(JobLimits)}
    assert {cells[0] for cells in rows(section("A job"))} == names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("code", f"{limits.CODE_BYTES:,} characters"),
        ("limits.wall_seconds", f"| {limits.CODE_WALL_SECONDS:g} | at most {limits.CODE_WALL_SECONDS_MAX:g}"),
        ("limits.cpu_seconds", f"| {limits.CODE_CPU_SECONDS:g} | at most {limits.CODE_CPU_SECONDS_MAX:g}"),
        ("limits.memory_bytes", f"| {limits.CODE_MEMORY_BYTES // limits.MIB} MiB | "),
        ("limits.output_bytes", f"| {limits.CODE_OUTPUT_BYTES // limits.MIB} MiB | 1 KiB"),
        ("limits.calls", f"| {limits.CODE_CALLS} | 0 to {limits.CODE_CALLS}"),
        ("limits.calls_in_flight", f"| {limits.CODE_CALLS_IN_FLIGHT} | 1 to {limits.CODE_CALLS_IN_FLIGHT}"),
    ],
)
def test_the_limits_of_a_job_are_those_of_the_code(name: str, words: str) -> None:
    assert words in row("A job", name)


def test_every_part_of_a_result_is_explained() -> None:
    for field in msgspec.structs.fields(JobResult):
        assert f"`{field.name}`" in section("States"), field.name


@pytest.mark.parametrize(
    "message",
    [
        messages.ReadyMessage,
        messages.CallMessage,
        messages.LogMessage,
        messages.ResultMessage,
        messages.JobMessage,
        messages.CallResultMessage,
    ],
)
def test_every_message_is_explained_with_its_fields(message: type[msgspec.Struct]) -> None:
    words = row("Messages", str(message.__struct_config__.tag))
    named = set(re.findall(r"`(\w+)`", words))
    assert {field.name for field in msgspec.structs.fields(message)} <= named


def test_the_bounds_of_messages_are_those_of_the_code() -> None:
    text = section("Messages")
    assert f"more than {limits.CODE_DEPTH} containers" in text
    assert f"more than {limits.CODE_ANSWER_BYTES // limits.MIB} MiB" in text
    assert f"at most {limits.CODE_QUERY_CHARACTERS:,} characters" in text
    assert f"1 to {limits.CODE_FOUND_TOOLS_MAX}" in text
    assert f"{limits.CODE_FOUND_TOOLS} by default" in text
    assert f"1 to {limits.CODE_DESCRIBED_TOOLS} names" in text
    assert f"1 to {limits.CODE_NAME_CHARACTERS} printable" in text
    assert f"one line of more than {limits.CODE_MESSAGE_BYTES // limits.KIB} KiB" in section("States")
    assert f"more than {limits.CODE_STDERR_BYTES // limits.KIB} KiB on stderr" in section("States")
    assert f"the first {limits.CODE_LOG_LINES:,}" in section("States")
