"""A log that another process writes: kept when it says so, refused when it cannot, and never by a stranger's words."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from audited import Disk, call
from fumehood.core import limits
from fumehood.gateway.audit import files, scribe, writing
from fumehood.gateway.audit.chain import Verified, verify
from fumehood.gateway.audit.faults import AuditError, AuditPlaceError
from fumehood.gateway.audit.saying import ANSWER, KEPT, NUMBER, UNKEPT, Said
from fumehood.gateway.audit.scribe import Scribe
from fumehood.gateway.audit.writer import Wiring
from fumehood.sandbox.containment import WallState

SERVED = {"source": "serve"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "audit.jsonl"


def held(path: Path) -> Verified:
    verdict = verify(line for _, lines in files.lines(path) for line in lines)
    assert isinstance(verdict, Verified), verdict
    return verdict


@pytest.mark.sandbox
@pytest.mark.threat("G1")
def test_records_of_many_threads_are_kept_by_a_process_behind_walls(path: Path) -> None:
    with scribe.start(path, askers=3) as one:
        one.ready()
        (contained,) = one.containments
        assert (contained.route, {wall.state for wall in contained.walls}) == ("audit", {WallState.ENFORCED})
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: one.keep(call(call=number, **SERVED)), range(1, 101)))
        assert held(path).lines == 100
    assert not one.is_alive


@pytest.mark.sandbox
@pytest.mark.threat("G1")
def test_a_writer_that_was_killed_keeps_nothing_more_and_says_so(path: Path) -> None:
    one = scribe.start(path, askers=1)
    one.ready()
    one.keep(call(**SERVED))
    os.kill(one.pid, signal.SIGKILL)
    for _ in range(3):
        with pytest.raises(AuditError, match="the audit log failed"):
            one.keep(call(**SERVED))
    with pytest.raises(AuditError, match="did not end well"):
        one.close()
    assert held(path).lines == 1


@pytest.mark.sandbox
def test_a_place_that_is_refused_is_refused_in_the_same_words(path: Path) -> None:
    path.write_text("nonsense\n")
    path.chmod(0o644)
    with pytest.raises(AuditPlaceError, match="others may read or write it"), scribe.start(path, askers=1) as one:
        one.ready()


Asked = Callable[[], socket.socket]


class Inside:
    """`writing.main` in this very process, which keeps its rights; asked from threads over socket pairs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = Disk()
        self.status = -1

    def run(self, *works: Callable[[socket.socket], None]) -> int:
        """Do each work with a connection of its own; the writer's status."""
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in works]

        def one(ours: socket.socket, work: Callable[[socket.socket], None]) -> None:
            with ours:
                ours.settimeout(limits.AUDIT_ANSWER_SECONDS)
                work(ours)

        wiring = Wiring(write=self.disk.write, sync=self.disk.sync)
        with ThreadPoolExecutor(len(works)) as pool:
            done = [pool.submit(one, ours, work) for (ours, _), work in zip(pairs, works, strict=True)]
            status = writing.main(str(self.path), [theirs.detach() for _, theirs in pairs], wiring)
            for each in done:
                each.result()
        return status


@pytest.fixture
def inside(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    monkeypatch.setattr(writing, "_walls", lambda _folder: ())
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield Inside(path)
    for number, handler in before.items():
        signal.signal(number, handler)


def opened(one: socket.socket) -> None:
    assert msgspec.json.decode(one.recv(limits.AUDIT_LINE_BYTES), type=Said).words == ""


def ask(one: socket.socket, number: int, **more: object) -> tuple[int, int, bytes]:
    """Send a record; number, state and words of its answer."""
    one.send(NUMBER.pack(number) + msgspec.json.encode(call(**SERVED | more)))
    answer = one.recv(limits.AUDIT_LINE_BYTES)
    heard, state = ANSWER.unpack_from(answer)
    return heard, state, answer[ANSWER.size :]


@pytest.mark.threat("G1")
def test_an_answer_names_its_record_and_a_denial_is_on_the_disk_by_then(inside: Inside) -> None:
    def work(one: socket.socket) -> None:
        opened(one)
        assert ask(one, 7) == (7, KEPT, b"")
        syncs = inside.disk.syncs
        assert ask(one, 8, decision="denied_path") == (8, KEPT, b"")
        assert inside.disk.syncs > syncs

    assert inside.run(work) == 0
    assert held(inside.path).lines == 2


@pytest.mark.threat("G1")
def test_a_full_disk_refuses_and_is_tried_again(inside: Inside) -> None:
    def work(one: socket.socket) -> None:
        opened(one)
        inside.disk.room = 0
        heard, state, words = ask(one, 1)
        assert (heard, state) == (1, UNKEPT)
        assert b"No space left on device" in words
        inside.disk.room = 1 << 20
        assert ask(one, 2)[1] == KEPT

    assert inside.run(work) == 0
    assert held(inside.path).lines == 1


def test_what_could_not_be_synced_is_told_by_the_status(inside: Inside) -> None:
    def work(one: socket.socket) -> None:
        opened(one)
        inside.disk.broken = True
        assert ask(one, 1)[1] == KEPT

    assert inside.run(work) == 1


@pytest.mark.threat("G1")
@pytest.mark.parametrize(
    "message",
    [
        b"x",
        b"12345678" + b"{}",
        b"12345678" + msgspec.json.encode(call(source="gateway")),
        b"12345678" + msgspec.json.encode(call(who="root", **SERVED)),
        b"12345678" + b" " * 60_000,
        b"12345678" + b"[" * 3000,
    ],
)
def test_nonsense_and_the_words_of_another_end_that_connection_alone(inside: Inside, message: bytes) -> None:
    ended = threading.Event()

    def hostile(one: socket.socket) -> None:
        opened(one)
        one.send(message)
        assert one.recv(10) == b""
        ended.set()

    def ordinary(one: socket.socket) -> None:
        assert ended.wait(limits.AUDIT_ANSWER_SECONDS)
        assert ask(one, 1)[1] == KEPT

    assert inside.run(hostile, ordinary) == 0
    assert held(inside.path).lines == 1


@pytest.mark.threat("G1")
def test_what_was_sent_before_an_asker_left_is_kept(inside: Inside) -> None:
    """It leaves answers unread, which the kernel tells the other side as an error."""

    def work(one: socket.socket) -> None:
        opened(one)
        for number in range(1, 6):
            one.send(NUMBER.pack(number) + msgspec.json.encode(call(call=number, **SERVED)))

    assert inside.run(work) == 0
    assert held(inside.path).lines == 5


def test_a_log_that_cannot_be_opened_is_told_on_the_first_connection(inside: Inside) -> None:
    inside.path.mkdir()

    def work(one: socket.socket) -> None:
        said = msgspec.json.decode(one.recv(limits.AUDIT_LINE_BYTES), type=Said)
        assert said.refused
        assert "the audit log is refused" in said.words

    assert inside.run(work) == 1


class Ended:
    """As much of a process as is asked for: one that has ended well."""

    pid, returncode = 1, 0

    def __init__(self) -> None:
        self.pidfd = os.open("/dev/null", os.O_RDONLY)

    def close(self) -> int:
        os.close(self.pidfd)
        return 0


def test_a_log_that_another_process_writes_is_waited_for_a_little_and_then_refused(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()

    def first(one: socket.socket) -> None:
        opened(one)

    with contextlib.ExitStack() as stack:
        stack.enter_context(files.locked(inside.path))
        looked = asyncio.sleep

        async def once(seconds: float) -> None:
            stack.close()
            let_go.set()
            await looked(seconds)

        monkeypatch.setattr("asyncio.sleep", once)
        assert inside.run(first) == 0
    assert let_go.is_set()
    monkeypatch.setattr(limits, "AUDIT_TURN_SECONDS", 0)

    def refused(one: socket.socket) -> None:
        said = msgspec.json.decode(one.recv(limits.AUDIT_LINE_BYTES), type=Said)
        assert (said.refused, "another process writes it" in said.words) == (True, True)

    with files.locked(inside.path):
        assert inside.run(refused) == 1


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Scribe, socket.socket]]:
    """A handle whose writer is this test."""
    monkeypatch.setattr(limits, "AUDIT_ANSWER_SECONDS", 0.05)

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, Scribe(Ended(), [ours]) as one:  # type: ignore[arg-type]  # see there
        yield one, theirs


def test_who_gets_no_answer_in_time_is_refused_and_a_late_one_is_nobody_elses(
    silent: tuple[Scribe, socket.socket],
) -> None:
    one, writer = silent
    with pytest.raises(AuditError, match="does not answer"):
        one.keep(call())
    writer.send(ANSWER.pack(1, KEPT))
    writer.send(ANSWER.pack(2, UNKEPT) + b"the audit log failed: it is full")
    with pytest.raises(AuditError, match="it is full"):
        one.keep(call())
    writer.send(ANSWER.pack(3, KEPT))
    one.keep(call())


def test_who_waits_too_long_for_a_turn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_ANSWER_SECONDS", 0.05)
    with Scribe(Ended(), []) as one, pytest.raises(AuditError, match="too many wait"):  # type: ignore[arg-type]  # see there
        one.keep(call())


def test_an_answer_that_is_none_is_no_word_that_the_log_is_open(silent: tuple[Scribe, socket.socket]) -> None:
    one, writer = silent
    writer.send(b"nonsense")
    with pytest.raises(AuditError, match="was not opened"):
        one.ready()
