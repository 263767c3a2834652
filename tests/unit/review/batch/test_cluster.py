"""review.batch.cluster: who may be a scheduler, and what a worker does. tests/e2e/test_cluster.py has real ones."""

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.review.batch import cluster, task
from fumehood.review.batch.cluster import ClusterCrew, ClusterError, SchedulerRefusedError
from fumehood.review.batch.crew import Start
from fumehood.review.batch.task import Outcome, Task

TASK = Task(digest="d", request=b"{}", beside="/", harness="0.1.0")


@pytest.mark.parametrize(
    "url", ["tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:1", "tls://far.example:8786"]
)
def test_a_scheduler_on_this_host_or_behind_tls_is_taken(url: str) -> None:
    assert cluster.check(url, unsafe_plain=False) == url


@pytest.mark.threat("R40")
@pytest.mark.parametrize("url", ["tcp://far.example:8786", "tcp://10.0.0.1:8786", "tcp://127.0.0.1.far.example:1"])
def test_a_plain_scheduler_elsewhere_is_refused_unless_said_aloud(url: str) -> None:
    with pytest.raises(SchedulerRefusedError, match="runs code"):
        cluster.check(url, unsafe_plain=False)
    assert cluster.check(url, unsafe_plain=True) == url


@pytest.mark.parametrize(
    "url", ["", "far.example:1", "tcp://x", "http://127.0.0.1:1", "tcp://h:1/x", "tcp://h:99999", "tcp://[x"]
)
def test_what_is_no_scheduler_is_refused(url: str) -> None:
    with pytest.raises(SchedulerRefusedError, match="no scheduler"):
        cluster.check(url, unsafe_plain=True)


@given(st.text(max_size=60))
def test_whatever_is_typed_is_an_address_or_refused(text: str) -> None:
    try:
        cluster.check(text, unsafe_plain=False)
    except SchedulerRefusedError as error:
        assert str(error).isascii()  # noqa: PT017 - either end is fine, and this one has a form


class FakeClient:
    """What a batch uses of Dask's client, without a scheduler."""

    def __init__(self, *, workers: list[dict[str, Any]], versions: list[str]) -> None:
        self.workers, self.versions = workers, versions
        self.handlers: dict[str, Any] = {}
        self.submitted: list[Any] = []
        self.closed = self.shut = False
        self.wishes: dict[str, Any] = {}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": dict(enumerate(self.workers))}

    def run(self, function: Any) -> dict[str, str]:
        assert function is cluster.version
        return {f"tcp://worker{n}": version for n, version in enumerate(self.versions)}

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        self.handlers[topic] = handler

    def get_executor(self, **wishes: Any) -> "FakeClient":
        self.wishes = wishes
        return self

    def submit(self, *words: Any) -> Future[Outcome]:
        self.submitted.append(words)
        return Future()

    def shutdown(self, *, wait: bool) -> None:
        assert not wait
        self.shut = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    fake = FakeClient(workers=[{"resources": {"review": 2}}, {"resources": {}}, {}], versions=[cluster.version()])
    monkeypatch.setattr("distributed.Client", lambda *_, **__: fake)
    monkeypatch.setattr(limits, "BATCH_SLOTS_SECONDS", 0.0)
    monkeypatch.setattr(limits, "BATCH_LOOK_SECONDS", 0.0)
    yield fake
    assert fake.closed


def test_a_batch_takes_one_unit_for_each_review_and_hears_of_each_start(client: FakeClient) -> None:
    crew = ClusterCrew("tcp://127.0.0.1:1")
    assert crew.slots() == 2
    assert client.wishes == {"resources": {"review": 1}, "retries": cluster.RETRIES, "pure": False}
    crew.submit(TASK)
    ((function, sent, topic),) = client.submitted
    assert (function, sent) == (cluster.perform_there, TASK)
    client.handlers[topic]((0.0, {"digest": "d", "token": "t"}))
    assert crew.starts() == [Start("d", "t")]
    crew.close()
    assert client.shut


def test_a_cluster_without_a_worker_for_reviews_is_named(client: FakeClient) -> None:
    client.workers = [{"resources": {}}]
    with pytest.raises(ClusterError, match="no worker offers"):
        ClusterCrew("tcp://127.0.0.1:1")


def test_a_worker_of_another_version_is_named(client: FakeClient) -> None:
    client.versions.append("fumehood 0.0.1, distributed 1")
    with pytest.raises(ClusterError, match=r"worker1 has fumehood 0\.0\.1.*1 of 2"):
        ClusterCrew("tcp://127.0.0.1:1")


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr("distributed.Client", refused)
    with pytest.raises(ClusterError, match="no scheduler at"):
        ClusterCrew("tcp://127.0.0.1:1")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker in which one task runs."""
    told: list[Any] = []
    state = SimpleNamespace(tasks={"key": SimpleNamespace(state="executing")})
    made = SimpleNamespace(
        address="tcp://worker",
        state=state,
        told=told,
        get_current_task=lambda: "key",
        log_event=lambda topic, message: told.append((topic, message)),
    )
    monkeypatch.setattr("distributed.get_worker", lambda: made)
    return made


def test_a_worker_tells_of_its_start_and_stops_when_nobody_waits(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def perform(one: Task, *, stop: task.Stop, token: str) -> Outcome:
        assert one is TASK
        seen.append(stop())
        worker.state.tasks["key"].state = "cancelled"
        seen.append(stop())
        worker.state.tasks.clear()
        seen.append(stop())
        return Outcome(token=token, status=0)

    monkeypatch.setattr(cluster, "perform", perform)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.1.0")
    done = cluster.perform_there(TASK, "topic")
    assert seen == [False, True, True]
    assert worker.told == [("topic", {"digest": "d", "token": done.token})]


def test_a_worker_that_came_later_with_another_version_does_nothing(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.0.1")
    done = cluster.perform_there(TASK, "topic")
    assert done.status == 3
    assert done.words == b"worker tcp://worker has fumehood 0.0.1, the batch 0.1.0"
    assert len(worker.told) == 1
