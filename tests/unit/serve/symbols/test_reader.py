"""The child as it runs: what it finds, what it may do, and what becomes of a source that is hostile."""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import CancelledError, TimedOutError, UnsupportedError
from fumehood.serve.context import Definition, Definitions
from fumehood.serve.symbols import child, reader
from fumehood.serve.symbols.reader import SymbolReader

ATTACK = (
    "import sys; sys.path[:0] = sys.argv[3:]; from served import symbolattack; "
    "symbolattack.main(int(sys.argv[1]), sys.argv[2])"
)


SAYING = "import socket,sys; socket.socket(fileno=int(sys.argv[1])).send"


@pytest.fixture(scope="module")
def symbols() -> Iterator[SymbolReader]:
    with reader.start() as running:
        yield running


@pytest.fixture
def attacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Callable[[str], str | None]]]:
    """A child that does what it is told, behind its walls or bare."""
    started: list[SymbolReader] = []

    def start(*, bare: bool) -> Callable[[str], str | None]:
        monkeypatch.setattr(reader, "_PROGRAM", ATTACK.replace("sys.argv[2]", "'bare'") if bare else ATTACK)
        running = reader.start()
        started.append(running)

        def act(what: str) -> str | None:
            found = running.definitions("python", what.encode(), Budget(60.0))
            return None if found is None else found[0].name

        act.reader = running  # type: ignore[attr-defined]  # for tests that look at the processes
        return act

    yield start
    for running in started:
        running.close()


def test_definitions_come_out_of_source_text(symbols: SymbolReader) -> None:
    found = symbols.definitions("python", b"class A:\n    def f(self):\n        pass\n", Budget(60.0))
    assert found == (
        Definition(name="A", kind="class", first_line=1, last_line=3),
        Definition(name="f", kind="method", first_line=2, last_line=3, container="A"),
    )
    assert isinstance(found, Definitions)
    assert found.is_whole


def test_a_source_with_a_fault_says_so(symbols: SymbolReader) -> None:
    found = symbols.definitions("python", b"def f():\n    pass\n\ndef (\n", Budget(60.0))
    assert isinstance(found, Definitions)
    assert not found.is_whole
    assert [one.name for one in found] == ["f"]


def test_a_source_that_is_too_large_or_of_no_language_is_not_parsed(symbols: SymbolReader) -> None:
    assert symbols.definitions("python", b"x" * (limits.SEARCHED_FILE_BYTES + 1), Budget(60.0)) is None
    with pytest.raises(UnsupportedError, match="cobol"):
        symbols.definitions("cobol", b"x", Budget(60.0))


def test_every_thread_is_answered(symbols: SymbolReader) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        found = symbols.definitions("python", f"def f{number}(): pass\n".encode(), Budget(60.0))
        answers[number] = found[0].name if found else ""

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(limits.CALLS_RUNNING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"f{number}" for number in range(limits.CALLS_RUNNING)}


@pytest.mark.threat("T14")
@pytest.mark.parametrize(
    ("act", "refused"),
    [
        ("read /etc/hostname", {"EPERM", "EACCES"}),
        ("list /", {"EPERM", "EACCES"}),
        ("write {folder}/x", {"EPERM", "EACCES"}),
        ("run /bin/true", {"EPERM", "EACCES"}),
        ("fork", {"EPERM", "ENOSYS"}),
        ("connect {port}", {"EPERM", "EACCES", "EAFNOSUPPORT"}),
        ("kill {pid}", {"EPERM"}),
    ],
)
def test_an_exploited_grammar_can_do_nothing_and_could_without_the_walls(
    attacked: Callable[..., Callable[[str], str | None]], tmp_path: Path, act: str, refused: set[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        what = act.format(folder=tmp_path, port=listener.getsockname()[1], pid=os.getpid())
        assert attacked(bare=False)(what) in refused
        done = attacked(bare=True)(what)
    assert done not in refused
    assert done is not None or act.startswith("run")  # which then is another program


@pytest.mark.threat("T8")
@pytest.mark.parametrize("act", ["crash", "end", "hang"])
def test_a_source_that_crashes_or_hangs_its_worker_does_not_parse_and_the_next_one_does(
    attacked: Callable[..., Callable[[str], str | None]], monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    ask = attacked(bare=False)
    for seconds, what, answer in ((30.0, "say one", "one"), (0.3, act, None), (30.0, "say two", "two")):
        monkeypatch.setattr(limits, "SYMBOLS_SECONDS", seconds)
        assert ask(what) == answer


@pytest.mark.threat("T8")
def test_a_worker_has_a_bound_of_memory(
    attacked: Callable[..., Callable[[str], str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SYMBOLS_SECONDS", 60.0)
    ask = attacked(bare=False)
    assert ask("eat 64") == str(64 << 20)
    assert ask("eat 600") == "MemoryError"
    assert attacked(bare=True)("eat 600") == str(600 << 20)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.threat("T8")
def test_a_call_out_of_time_or_cancelled_ends_and_its_worker_is_killed(
    attacked: Callable[..., Callable[[str], str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SYMBOLS_SECONDS", 60.0)
    ask = attacked(bare=False)
    running: SymbolReader = ask.reader  # type: ignore[attr-defined]  # set above
    for budget, error in ((Budget(0.4), TimedOutError), (cancelled(), CancelledError)):
        before = set(children(running.pid))
        assert ask("say here") == "here"
        [worker] = set(children(running.pid)) - before
        held = os.pidfd_open(worker)
        with pytest.raises(error):
            running.definitions("python", b"hang", budget)
        assert select.select([held], [], [], 30.0)[0], "the worker of the call before has ended"
        os.close(held)
    assert ask("say again") == "again"


def cancelled() -> Budget:
    budget = Budget(60.0)
    threading.Timer(0.2, budget.cancel).start()
    return budget


def test_nothing_is_left_when_it_is_closed(attacked: Callable[..., Callable[[str], str | None]]) -> None:
    ask = attacked(bare=False)
    ask("say here")
    running: SymbolReader = ask.reader  # type: ignore[attr-defined]  # set above
    [worker] = children(running.pid)
    held = os.pidfd_open(worker)
    running.close()
    assert select.select([held], [], [], 30.0)[0]
    os.close(held)
    with pytest.raises(UnsupportedError):
        running.definitions("python", b"say x", Budget(60.0))


def test_a_child_that_ends_or_refuses_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, word in (
        ("raise SystemExit", "has ended"),
        (
            'import socket,sys; socket.socket(fileno=int(sys.argv[1])).send(b\'{"refused":"no Landlock"}\')',
            "no Landlock",
        ),
        ("import socket,sys; socket.socket(fileno=int(sys.argv[1])).send(b'nonsense')", "has ended"),
    ):
        monkeypatch.setattr(reader, "_PROGRAM", program)
        with reader.start() as running, pytest.raises(UnsupportedError, match=word):
            running.definitions("python", b"x", Budget(60.0))


def test_the_word_of_a_child_that_ended_without_reading_ours_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import select,socket,sys; control = socket.socket(fileno=int(sys.argv[1])); select.select([control], [], [])\n"
        'control.send(b\'{"refused":"no Landlock"}\')'
    )
    monkeypatch.setattr(reader, "_PROGRAM", program)
    with reader.start() as running:
        control = running._control
        control.send(b"w")
        os.waitid(os.P_PIDFD, running._process.pidfd, os.WEXITED | os.WNOWAIT)
        assert b"no Landlock" in running._said()


def test_a_child_that_says_nothing_is_waited_for_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reader,
        "_PROGRAM",
        "import socket,sys; control = socket.socket(fileno=int(sys.argv[1]))\nwhile control.recv(1): pass",
    )
    with reader.start() as running:
        with pytest.raises(TimedOutError):
            running.definitions("python", b"x", Budget(0.1))
        monkeypatch.setattr(limits, "SYMBOLS_START_SECONDS", 0.1)
        with pytest.raises(UnsupportedError, match="did not answer"):
            running.definitions("python", b"x", Budget(60.0))
        monkeypatch.setattr(limits, "SYMBOLS_START_SECONDS", 10.0)


def test_without_a_grammar_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match="no grammar"):
        reader.start()


def answered(data: bytes) -> Definitions | None:
    """What the reader makes of a worker's bytes."""
    ours, theirs = socket.socketpair()
    worker = reader._Worker(ours, -1)
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        found = worker.ask("python", b"x", Budget(60.0))
    worker.close()
    assert found is None or isinstance(found, Definitions)
    return found


def packed(payload: bytes, state: int = child.WHOLE, size: int | None = None) -> bytes:
    return struct.pack(">BI", state, len(payload) if size is None else size) + payload


def test_both_sides_speak_of_the_same() -> None:
    assert (reader._REQUEST.format, reader._ANSWER.format) == (child.REQUEST.format, child.ANSWER.format)
    assert (reader._NONE, reader._WHOLE, reader._PARTLY) == (child.NONE, child.WHOLE, child.PARTLY)
    assert answered(packed(b'[["f","function",1,2,""]]')) == (
        Definition(name="f", kind="function", first_line=1, last_line=2),
    )
    assert answered(packed(b"[]", child.NONE)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1",
        packed(b"[]", 9),
        packed(b"", size=limits.SYMBOLS_ANSWER_BYTES + 1),
        packed(b"[]", size=100),
        packed(b"{}"),
        packed(b'[["f","script",1,1,""]]'),
        packed(b'[["f","function",0,1,""]]'),
        packed(b'[["f","function",1,99999999,""]]'),
        packed(b'[["' + b"f" * 300 + b'","function",1,1,""]]'),
        packed(b'[["f","function",1,1]]'),
        packed(b"[" * 100_000),
    ],
)
@pytest.mark.threat("T14")
def test_an_answer_that_is_none_is_not_believed(data: bytes) -> None:
    with pytest.raises(reader._LostError):
        answered(data)


def test_the_walls_of_a_worker_are_recorded(symbols: SymbolReader, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {wall.name: wall.state for wall in symbols.containment.walls}
    assert states["outside_reading"] == states["seccomp"] == states["memory"] == "enforced"
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert {wall.name: wall.state for wall in reader.walls()}["seccomp"] == "unavailable"


def test_the_grammars_are_loaded_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = reader._PROGRAM.replace(str(reader._LATER_MILLISECONDS), "600000")
    monkeypatch.setattr(reader, "_PROGRAM", patient)
    with reader.start() as unasked:
        assert b"tree_sitter" not in Path(f"/proc/{unasked.pid}/maps").read_bytes()
    assert not Path(f"/proc/{unasked.pid}").exists()
    with reader.start() as asked:
        assert asked.definitions("python", b"a = 1\n", Budget(60.0))
        assert b"tree_sitter" in Path(f"/proc/{asked.pid}/maps").read_bytes()


def test_the_grammars_are_loaded_after_a_while_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PROGRAM", reader._PROGRAM.replace(str(reader._LATER_MILLISECONDS), "0"))
    with reader.start() as running:
        assert select.select([running._control], [], [], 60.0)[0]
        assert "python" in running.ready(Budget(60.0)).languages
