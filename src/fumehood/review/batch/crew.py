"""Who carries out the tasks of a batch: an executor, how many it does at once, and what it tells on the way.

Invariant: after `close` nothing that was submitted goes on, or goes on longer than a child needs to end.
"""

import queue
import secrets
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

from fumehood.review.batch.task import Outcome, Task, perform


class Start(NamedTuple):
    """A task began to run: `token` tells one execution of it from another."""

    digest: str
    token: str


class Crew(Protocol):
    """Whatever runs tasks."""

    shares_disk: bool  # whether a child may write into the attempt's folder itself

    def slots(self) -> int:
        """How many tasks run at once now; 0 when nobody is there at the moment."""
        ...

    def submit(self, task: Task) -> "Future[Outcome]":
        """Have a task done."""
        ...

    def starts(self) -> list[Start]:
        """The executions that began since the last call."""
        ...

    def close(self) -> None:
        """End what runs, and wait for that."""
        ...


class LocalCrew:
    """Children of this process, each watched by a thread.

    A review is a process of its own anyway, and a pool of threads does not break when one of those is killed.
    """

    shares_disk = True

    def __init__(self, workers: int) -> None:
        """Nothing is started yet."""
        self._workers = workers
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="review")
        self._stop = threading.Event()
        self._starts: queue.SimpleQueue[Start] = queue.SimpleQueue()

    def slots(self) -> int:
        """One for each worker."""
        return self._workers

    def submit(self, task: Task) -> "Future[Outcome]":
        """Start a child as soon as a thread is free."""
        return self._executor.submit(self._perform, task)

    def starts(self) -> list[Start]:
        """Drain the queue."""
        return drained(self._starts)

    def close(self) -> None:
        """Let go of the children, and wait until they have ended."""
        self._stop.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _perform(self, task: Task) -> Outcome:
        token = secrets.token_hex(8)
        self._starts.put(Start(task.digest, token))
        return perform(task, stop=self._stop.is_set, token=token)


def drained(waiting: "queue.SimpleQueue[Start]") -> list[Start]:
    """What waits in a queue."""
    found = []
    while True:
        try:
            found.append(waiting.get_nowait())
        except queue.Empty:
            return found
