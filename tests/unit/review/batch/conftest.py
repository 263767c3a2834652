"""Requests and results as a batch meets them, and a crew that starts nothing."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fumehood.review.batch.crew import Start
from fumehood.review.batch.task import Outcome, Task

Fields = Callable[..., dict[str, Any]]


@pytest.fixture
def fields() -> Fields:
    """The fields of a request; `changes` replace some."""

    def make(**changes: Any) -> dict[str, Any]:
        return {
            "schema_version": 2,
            "target": {"kind": "npm", "name": "@s/p", "version": "1.2.3"},
            "adapter": "node_stdio",
            "action_profile": "mcp_initialize",
            "network_mode": "NONE",
            "credentials": "NONE",
            "question": "what does it do on start?",
            "evidence": ["process", "network"],
            "timeout_seconds": 60,
            **changes,
        }

    return make


@pytest.fixture
def lines(fields: Fields) -> Callable[[int], bytes]:
    """A list of so many requests."""

    def make(count: int) -> bytes:
        return b"".join(json.dumps(fields(question=f"question {n}")).encode() + b"\n" for n in range(count))

    return make


def row(kind: str, collector: str = "strace", phase: str = "EXERCISE", **detail: Any) -> dict[str, Any]:
    return {"sequence": 1, "phase": phase, "step": "exercise", "type": kind, "collector": collector, "detail": detail}


@pytest.fixture
def result() -> Callable[..., bytes]:
    """A `result.json` with as much as a summary reads."""

    def make(state: str = "COMPLETED", rows: list[dict[str, Any]] | None = None, **more: Any) -> bytes:
        value = {
            "request": {},
            "environment": {"harness_version": "0.1.0"},
            "execution": {"status": state, "started_at": "2026-01-01T00:00:00Z", "steps": [{"wall_seconds": 1.25}]},
            "observations": {"items": rows or [], "lost": [{"count": 2}]},
            "coverage": {"tools_listed": 3},
            **more,
        }
        return json.dumps(value).encode()

    return make


@pytest.fixture
def a_row() -> Callable[..., dict[str, Any]]:
    return row


class FakeCrew:
    """Does each task at once, in this thread, by a function of the test's."""

    shares_disk = True

    def __init__(self, perform: Callable[[Task, int], Outcome], slots: int = 2) -> None:
        self.perform, self.free = perform, slots
        self.tasks: list[Task] = []
        self.announced: list[Start] = []
        self.closed = False

    def slots(self) -> int:
        return self.free

    def submit(self, task: Task) -> "Future[Outcome]":
        self.tasks.append(task)
        future: Future[Outcome] = Future()
        try:
            future.set_result(self.perform(task, len(self.tasks)))
        except (OSError, RuntimeError) as error:
            future.set_exception(error)
        return future

    def starts(self) -> list[Start]:
        announced, self.announced = self.announced, []
        return announced

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def crew() -> Callable[..., FakeCrew]:
    return FakeCrew


@pytest.fixture
def leave(result: Callable[..., bytes]) -> Callable[..., None]:
    """Write a result where a task's child would."""

    def write(task: Task, state: str = "COMPLETED", **more: Any) -> None:
        assert task.out is not None
        Path(task.out, "result.json").write_bytes(result(state, **more))

    return write
