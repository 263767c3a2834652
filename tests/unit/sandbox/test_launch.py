import asyncio
import errno
import os
import signal
import sys
import time

import pytest

from fumehood.core import limits
from fumehood.sandbox import launch

PYTHON = sys.executable


def run_python(program: str, **options: object) -> launch.Completed:
    return launch.run_tool([PYTHON, "-I", "-c", program], **options)  # type: ignore[arg-type]  # options of run_tool


@pytest.mark.threat("R2")
def test_a_child_has_nothing_of_the_parents_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "planted")
    done = launch.run_tool(["/usr/bin/env"], environment={"A": "b"})
    assert done.stdout == b"A=b\n"


def test_a_child_has_no_descriptor_but_the_named_ones() -> None:
    first, second = os.pipe()
    os.set_inheritable(first, True)  # noqa: FBT003  # positional only
    os.set_inheritable(second, True)  # noqa: FBT003  # positional only
    with launch.closing(first, second):
        program = f"import os\nfor n in ({first}, {second}):\n try: os.fstat(n); print(n)\n except OSError: pass"
        done = run_python(program, pass_fds=[second])
    assert done.stdout.split() == [str(second).encode()]


def test_a_child_leads_a_session_of_its_own() -> None:
    assert run_python("import os; print(os.getsid(0) == os.getpid())").stdout == b"True\n"


@pytest.mark.parametrize("argv", [[], ["env"], ["./env"], [""]])
def test_a_relative_program_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="absolute"):
        launch.spawn(argv)


def test_a_missing_program_is_our_fault_and_named() -> None:
    with pytest.raises(launch.StartError, match="/nowhere/at-all: No such file"):
        launch.spawn(["/nowhere/at-all"])


def test_streams_are_kept_apart_and_the_status_is_told() -> None:
    done = run_python("import sys; print(1); print(2, file=sys.stderr); sys.exit(7)")
    assert done == launch.Completed(status=7, stdout=b"1\n", stderr=b"2\n")


def test_a_signal_is_told_as_128_and_its_number() -> None:
    done = run_python("import os; os.kill(os.getpid(), 9)")
    assert done.status == 128 + signal.SIGKILL


def test_a_flooding_tool_is_cut_at_its_bound() -> None:
    done = run_python("import sys; sys.stdout.write('x' * 3_000_000)", output_bytes=1000)
    assert done.stdout == b"x" * 1000


def test_a_tool_that_hangs_is_killed() -> None:
    with pytest.raises(launch.ToolTimeoutError):
        launch.run_tool(["/bin/sleep", "600"], timeout_seconds=0.1)


def test_a_tool_is_not_waited_for_because_its_child_holds_the_pipe() -> None:
    program = "import os,sys\nif os.fork() == 0:\n os.read(%d, 1); os._exit(0)\nprint('done', flush=True)\nos._exit(0)"
    ours, theirs = os.pipe()
    with launch.closing(ours):
        done = run_python(program % ours, pass_fds=[ours])
        os.close(theirs)  # the grandchild ends here
    assert done.stdout == b"done\n"


def test_waiting_is_for_any_number_of_tasks() -> None:
    async def go() -> list[int]:
        process = launch.spawn(["/bin/cat"], streams=launch.Streams(stdin=launch.PIPE))
        try:
            waiters = [asyncio.ensure_future(process.wait()) for _ in range(3)]
            await asyncio.sleep(0)
            assert process.stdin is not None
            process.stdin.close()
            return await asyncio.gather(*waiters)
        finally:
            process.close()

    assert asyncio.run(go()) == [0, 0, 0]


def test_closing_kills_and_reaps() -> None:
    process = launch.spawn(["/bin/sleep", "600"])
    began = time.monotonic()
    assert process.close() == -signal.SIGKILL
    assert time.monotonic() - began < limits.TOOL_SECONDS
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_cannot_be_held_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def refuse(pid: int) -> int:
        pids.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(launch.StartError, match="cannot hold /bin/sleep: Too many open files"):
        launch.spawn(["/bin/sleep", "600"], streams=launch.Streams(stdin=launch.PIPE))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_signal_to_a_process_that_ended_is_dropped() -> None:
    process = launch.spawn(["/bin/true"])
    process.close()
    process.kill()
    assert process.pidfd == -1
    assert process.close() == process.returncode


@pytest.mark.parametrize("name", ["../launch", "no_such_program", "a/b", ""])
def test_only_programs_of_ours_are_started_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="no such program"):
        launch.start_program(name)
