"""The tasks of a batch on a Dask cluster: one review for each unit of the resource `review` that a worker offers.

Invariants: a worker is used only when it has this version of fumehood; files come back as bounded bytes and are written
by the batch; a task that Dask runs again, because its worker died, tells of that with another token; a review whose
batch has gone ends within a look of its worker.

Not promised, and said in docs/limits/batch.md: anything against whoever may connect to the scheduler. Dask runs what
its clients send, on every worker, and the batch unpickles what comes back. So the scheduler stays on loopback, or
behind TLS with certificates of both sides, and never under the uid that runs targets.

Source: Dask's documentation of worker resources, `Client.get_executor` and TLS/SSL.
"""

import contextlib
import ipaddress
import queue
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Future
from importlib import metadata
from typing import Any, Final
from urllib.parse import urlsplit

import distributed

from fumehood.core import limits
from fumehood.core.errors import RefusedError, UnsupportedError
from fumehood.review.batch.crew import Start, drained
from fumehood.review.batch.task import Outcome, Task, perform

RESOURCE: Final = "review"
RETRIES: Final = 2  # of a task that raises; a worker's death is the scheduler's own count
_RUNNING: Final = frozenset({"executing", "long-running"})


class SchedulerRefusedError(RefusedError):
    """The address of a scheduler is not one that a batch is sent to."""

    code = "scheduler_refused"


class ClusterError(UnsupportedError):
    """A cluster cannot carry out reviews as it is."""

    code = "cluster"


def check(url: str, *, unsafe_plain: bool) -> str:
    """The address of a scheduler: on this host, or behind TLS, unless the operator takes the plain way aloud."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in {"tcp", "tls"} and parts.hostname and parts.port and not (parts.path or parts.query)
    except ValueError:
        named = False
    if not named:
        raise SchedulerRefusedError(f"{url[:200]!a} is no scheduler", remedy="write tcp://HOST:PORT or tls://HOST:PORT")
    if parts.scheme == "tcp" and not unsafe_plain and not _is_own(parts.hostname or ""):
        raise SchedulerRefusedError(
            f"{url[:200]!a} is plain and elsewhere: whoever reaches that port runs code on every worker, and here",
            remedy="use tls:// with certificates of both sides, or say --unsafe-plain-scheduler on a private network",
        )
    return url


class ClusterCrew:
    """A client of a scheduler."""

    shares_disk = False

    def __init__(self, url: str) -> None:
        """Connect. Errors: `ClusterError` when nobody answers, or no worker fits."""
        try:
            self._client = distributed.Client(url, timeout=limits.BATCH_SLOTS_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"no scheduler at {url}: {error}"[:400], remedy="see whether it runs") from None
        self._starts: queue.SimpleQueue[Start] = queue.SimpleQueue()
        self._topic = f"fumehood-{secrets.token_hex(8)}"
        self._looked = 0.0
        self._slots = 0
        try:
            self._refuse_other_versions()
            self._client.subscribe_topic(self._topic, self._started)
            self._executor = self._client.get_executor(resources={RESOURCE: 1}, retries=RETRIES, pure=False)
        except BaseException:
            self._client.close()
            raise

    def slots(self) -> int:
        """What the workers of this moment offer, as known some seconds ago."""
        now = time.monotonic()
        if not self._slots or now - self._looked > limits.BATCH_SLOTS_SECONDS:
            self._looked, self._slots = now, offered(self._client.scheduler_info(n_workers=-1))
        return self._slots

    def submit(self, task: Task) -> Future[Outcome]:
        """Have it done by whichever worker has a unit free."""
        future: Future[Outcome] = self._executor.submit(perform_there, task, self._topic)
        return future

    def starts(self) -> list[Start]:
        """Drain what the workers told."""
        return drained(self._starts)

    def close(self) -> None:
        """Withdraw what was submitted; each worker then ends its child."""
        with contextlib.suppress(OSError, TimeoutError):
            self._executor.shutdown(wait=False)
        self._client.close()

    def _started(self, event: tuple[float, Mapping[str, str]]) -> None:
        self._starts.put(Start(event[1]["digest"], event[1]["token"]))

    def _refuse_other_versions(self) -> None:
        """One worker of another version would make results that cannot be told apart by their folder."""
        deadline = time.monotonic() + limits.BATCH_SLOTS_SECONDS
        while not self.slots():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"no worker offers the resource `{RESOURCE}`",
                    remedy=f"start each with: dask worker … --resources {RESOURCE}=N --nthreads N",
                )
            time.sleep(limits.BATCH_LOOK_SECONDS)
        own = version()
        found: dict[str, str] = self._client.run(version)
        other = {address: said for address, said in found.items() if said != own}
        if other:
            address, said = next(iter(other.items()))
            raise ClusterError(
                f"worker {address} has {said}, this is {own} ({len(other)} of {len(found)} workers differ)",
                remedy="install the same versions everywhere",
            )


def offered(info: Mapping[str, Any]) -> int:
    """Units of our resource that all workers offer together."""
    return int(sum(worker.get("resources", {}).get(RESOURCE, 0) for worker in info["workers"].values()))


def version() -> str:
    """The versions that have to agree between a batch and its workers."""
    return f"fumehood {metadata.version('fumehood')}, distributed {metadata.version('distributed')}"


def perform_there(task: Task, topic: str) -> Outcome:
    """What a worker runs. It tells of its start, and ends its child when nobody waits for it any more."""
    worker = distributed.get_worker()
    key = worker.get_current_task()
    token = secrets.token_hex(8)
    worker.log_event(topic, {"digest": task.digest, "token": token})
    own = metadata.version("fumehood")
    if own != task.harness:
        words = f"worker {worker.address} has fumehood {own}, the batch {task.harness}"
        return Outcome(token=token, status=UnsupportedError.exit_status, words=words.encode())

    def unwanted() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state not in _RUNNING

    return perform(task, stop=unwanted, token=token)


def _is_own(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
