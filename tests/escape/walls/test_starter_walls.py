"""Each wall around git and ripgrep, tried from inside, and the same attempt with exactly that wall taken away."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.budget import Budget
from fumehood.sandbox import elf
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import Profile
from fumehood.sandbox.started import StarterGoneError

REFUSED = {"EACCES", "EPERM"}


def test_every_wall_is_told(trial: Any) -> None:
    walls = {wall.name: wall.state for wall in trial.starter.containment.walls}
    assert set(walls.values()) == {WallState.ENFORCED}
    assert {"outside_reading", "writing", "executing", "seccomp", "memory", "no_new_privileges"} <= set(walls)


@pytest.mark.threat("T1")
def test_what_lies_outside_is_not_read(trials: Any, widened: Callable[..., Any]) -> None:
    reading = "say([attempt(lambda p=p: open(p).read()) for p in ('inside.txt', '../outside.txt')])"
    assert trials.start().tried(reading) == ["inside\n", "EACCES"]
    assert trials.start(weaken=widened(readable=("/",))).tried(reading) == ["inside\n", "outside\n"]


@pytest.mark.threat("T1")
def test_ripgrep_and_git_read_nothing_outside(trials: Any, widened: Callable[..., Any]) -> None:
    outside = str(trials.root.parent / "outside.txt")
    whole, open_ = trials.start(), trials.start(weaken=widened(readable=("/",)))
    for words in (("rg", "outside", outside), ("git", "diff", "--no-index", "inside.txt", outside)):
        assert b"+outside" not in whole.run(*words)[0]
        assert whole.run(*words)[0] == b""
        assert b"outside" in open_.run(*words)[0]


def test_nothing_is_written(trials: Any, widened: Callable[..., Any]) -> None:
    writing = "say([attempt(lambda: open('inside.txt', 'r+')), attempt(lambda: open('/dev/null', 'r+'))])"
    assert trials.start().tried(writing) == ["EACCES", "OK"]
    assert trials.start(weaken=widened(devices=(str(trials.root),))).tried(writing) == ["OK", "OK"]


def test_nothing_is_made_renamed_or_removed_and_no_right_or_time_is_changed(trials: Any) -> None:
    changing = """
acts = [lambda: os.mkdir('new'), lambda: os.symlink('a', 'b'), lambda: os.rename('inside.txt', 'x'),
        lambda: os.unlink('inside.txt'), lambda: os.truncate('inside.txt', 0), lambda: os.link('inside.txt', 'y')]
changes = [lambda: os.chmod('inside.txt', 0o666), lambda: os.utime('inside.txt'),
           lambda: os.setxattr('inside.txt', 'user.x', b'1')]
say([[attempt(a) for a in acts], [attempt(a) for a in changes]])
"""
    made, changed = trials.start().tried(changing)
    assert set(made) <= REFUSED
    assert set(changed) == {"EPERM"}
    made, changed = trials.start(profile=Profile.REVIEW).tried(changing)
    assert set(made) <= {"EACCES", "EXDEV"}  # Landlock still stands
    assert set(changed) <= {"OK", "ENOTSUP"}  # which does not look at these
    assert "OK" in changed


@pytest.mark.threat("T6")
def test_no_other_program_is_executed(trials: Any, widened: Callable[..., Any], prelude: str) -> None:
    """Tried without the seccomp programs, which would kill whoever tries."""
    becoming = "say(attempt(lambda: os.execv('/usr/bin/true', ['true'])))"
    assert trials.start(profile=None).tried(becoming) == "EACCES"
    words = ("python", "-I", "-S", "-c", prelude + becoming)
    out, ended = trials.start(profile=None, weaken=widened(executable=("/usr/bin",))).run(*words)
    assert (out, ended.status) == (b"", 0)


@pytest.mark.threat("T6")
def test_no_program_replaces_itself_even_by_one_that_may_be_started(trials: Any) -> None:
    words = ("python", "-I", "-S", "-c", "import os; os.execv('/usr/bin/git', ['git', '--version'])")
    out, ended = trials.start().run(*words)
    assert (out, ended.status) == (b"", 128 + signal.SIGSYS)
    out, ended = trials.start(profile=None).run(*words)
    assert (out.startswith(b"git version"), ended.status) == (True, 0)


@pytest.mark.threat("T6")
def test_nothing_is_forked_but_threads_run(trials: Any) -> None:
    forking = """
import threading
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
ran = []
thread = threading.Thread(target=lambda: ran.append(1)); thread.start(); thread.join()
say([attempt(fork), ran])
"""
    assert trials.start().tried(forking) == ["EPERM", [1]]
    assert trials.start(profile=Profile.REVIEW).tried(forking) == ["OK", [1]]


@pytest.mark.threat("T6")
def test_no_socket_is_made(trials: Any) -> None:
    making = "say([attempt(lambda: socket.socket(f, socket.SOCK_STREAM)) for f in (socket.AF_INET, socket.AF_UNIX)])"
    assert trials.start().tried(making) == ["EAFNOSUPPORT"] * 2
    assert trials.start(profile=Profile.REVIEW).tried(making) == ["OK", "OK"]


def test_tcp_is_refused_by_landlock_too(trials: Any, widened: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connecting = f"say(attempt(lambda: socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))))"
        binding = "say(attempt(lambda: socket.create_server(('127.0.0.1', 0))))"
        whole = trials.start(profile=Profile.REVIEW)
        assert (whole.tried(connecting), whole.tried(binding)) == ("EACCES", "EACCES")
        open_ = trials.start(profile=Profile.REVIEW, weaken=widened(tcp_connect=True, tcp_bind=True))
        assert (open_.tried(connecting), open_.tried(binding)) == ("OK", "OK")


def test_no_signal_reaches_the_server_and_no_abstract_socket(trials: Any, widened: Callable[..., Any]) -> None:
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0walls-test-{os.getpid()}")
        abstract.listen()
        reaching = f"""
one = socket.socket(socket.AF_UNIX)
say([attempt(lambda: os.kill({os.getpid()}, 0)), attempt(lambda: one.connect(chr(0) + 'walls-test-{os.getpid()}'))])
"""
        assert trials.start(profile=Profile.REVIEW).tried(reaching) == ["EPERM", "EPERM"]
        open_ = trials.start(profile=Profile.REVIEW, weaken=widened(scoped=False))
        assert open_.tried(reaching) == ["OK", "OK"]


@pytest.mark.threat("T8")
def test_memory_is_bounded(trial: Any) -> None:
    taking = "say([attempt(lambda: bytearray(size << 20) and 'OK') for size in (64, 600)])"
    assert trial.tried(taking) == ["OK", "MemoryError"]


@pytest.mark.threat("T8")
def test_limits_stand_and_cannot_be_raised(trial: Any) -> None:
    raising = """
import resource
names = ('CPU', 'DATA', 'FSIZE', 'NOFILE', 'CORE')
kinds = [getattr(resource, 'RLIMIT_' + name) for name in names]
raised = [attempt(lambda k=k: resource.setrlimit(k, (2**40, 2**40))) for k in kinds]
say([[resource.getrlimit(k)[1] for k in kinds], raised])
"""
    limits, raised = trial.tried(raising)
    assert limits == [80, 512 << 20, 0, 256, 0]
    assert set(raised) <= {"ValueError", "EPERM"} or os.geteuid() == 0


def test_nothing_is_inherited_but_three_streams(trial: Any) -> None:
    with Path("/dev/null").open("rb") as held:
        os.set_inheritable(held.fileno(), True)  # noqa: FBT003 - the standard library has no name for it
        found = trial.tried("say([n for n in range(1024) if attempt(lambda: os.fstat(n)) == 'OK'])")
    assert found == [0, 1, 2]
    streams = "import stat; say([stat.S_IFMT(os.fstat(n).st_mode) for n in range(3)])"
    assert trial.tried(streams) == [0o020000, 0o010000, 0o010000]  # /dev/null and two pipes


def test_the_environment_is_the_one_that_was_given(trial: Any) -> None:
    out, _ = trial.run("python", "-I", "-S", "-c", "import os; print(dict(os.environ))", WORD="x")
    assert b"'WORD': 'x'" in out
    assert b"PATH" not in out


def test_a_program_runs_in_the_root_and_waits_for_no_input(trial: Any) -> None:
    assert trial.tried("say([os.getcwd(), sys.stdin.read()])") == [str(trial.root), ""]


@pytest.mark.threat("T6")
def test_a_repository_whose_external_diff_is_the_loader_runs_nothing(trials: Any) -> None:
    with Path("/usr/bin/git").open("rb") as file:
        program = elf.read(file.read(elf.HEAD_BYTES))
    assert program is not None
    (trials.root / "bin").mkdir()
    planted = trials.root / "bin" / "planted"  # the loader is given the name of the file that was added
    planted.write_bytes(Path("/usr/bin/echo").read_bytes())
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/"}
    who = {f"GIT_{one}_{what}": "x@x" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for step in ("init -q", "commit -qm one --allow-empty", "add .", f"config diff.external {program.loader}"):
        argv = ["/usr/bin/git", "-C", str(trials.root), *step.split()]
        subprocess.run(argv, env=quiet | who, check=True, capture_output=True)
    quiet |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    words = ("git", f"--git-dir={trials.root}/.git", f"--work-tree={trials.root}", "diff", "HEAD", "--", "bin")
    whole = trials.start()
    out, ended = whole.run(*words, **quiet)
    assert (b"/dev/null" in out, ended.status) == (False, 128)
    assert b"+++ b/bin/planted" in (whole.run(*words[:-2], "--no-ext-diff", "--text", **quiet)[0])
    assert whole.run(*words[:3], "log", **quiet)[1].status == 0
    # Either seccomp program alone is enough: here the one that forks, and kills who starts something.
    out, _ = trials.start(profile=Profile.REVIEW).run(*words, **quiet)
    assert b"/dev/null" not in out
    # The same walls of files, without both: the loader may be started, and it starts anything.
    out, ended = trials.start(profile=None).run(*words, **quiet)
    assert (out.startswith(b"/dev/null"), ended.status) == (True, 0)


SERVER = """
import os, sys, time
from pathlib import Path
from fumehood.core.budget import Budget
from fumehood.sandbox import starter
root = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
one = starter.start(root, {"python": Path(sys.argv[2])})
one.ready()
words = ("-I", "-S", "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
children = [one.start("python", words, {}, Budget(600)) for _ in range(3)]
pids = [int(next(child.chunks())) for child in children]
print(one.pid, *pids, flush=True)
time.sleep(600)
"""


@pytest.mark.threat("T8")
def test_a_killed_server_leaves_no_child(trials: Any) -> None:
    argv = [sys.executable, "-c", SERVER, str(trials.root), str(trials.programs["python"])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        held = [os.pidfd_open(int(word)) for word in server.stdout.readline().split()]
        with gone(*held):
            assert len(held) == 4
            assert not ended(held, 0)
            server.kill()
            assert ended(held, 10)


@pytest.mark.threat("T8")
def test_a_killed_starter_leaves_no_child(trials: Any) -> None:
    trial = trials.start()
    words = ("-I", "-S", "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    with trial.starter.start("python", words, {}, Budget()) as child:
        held = os.pidfd_open(int(next(child.chunks())))
        with gone(held):
            os.kill(trial.starter.pid, 9)
            assert ended([held], 10)
        with pytest.raises(StarterGoneError):
            child.wait()
    with pytest.raises(StarterGoneError, match="start the server again"):
        trial.starter.start("python", (), {}, Budget())


@contextlib.contextmanager
def gone(*pidfds: int) -> Iterator[None]:
    """At the end of the block these processes are dead, whatever the test found."""
    try:
        yield
    finally:
        for one in pidfds:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(one, signal.SIGKILL)
            os.close(one)


def ended(pidfds: list[int], seconds: float) -> bool:
    """Whether every process has ended, waiting for each at most so long."""
    return all(bool(select.select([one], [], [], seconds)[0]) for one in pidfds)
