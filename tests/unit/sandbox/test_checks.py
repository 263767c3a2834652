import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fumehood.sandbox.probe.checks import REMEDIES, judge, question_argv, questions
from fumehood.sandbox.probe.query import Answer, ask


def test_nft_is_asked_only_where_there_is_one() -> None:
    asked = [words[0] for words in questions({"nft": Path("/usr/sbin/nft")})]
    assert set(asked) == set(REMEDIES)
    assert "nft" not in [words[0] for words in questions({})]


def test_a_no_that_is_not_known_has_the_remedy_of_its_question() -> None:
    probe = judge("nft", Answer(status=1, stderr="Error: No such file or directory\n"))
    assert not probe.ok
    assert "modprobe" in probe.remedy


def test_a_no_that_is_known_is_explained() -> None:
    probe = judge("user_namespace", Answer(status=1, stderr="setting up uid map: Permission denied\n"))
    assert "AppArmor" in probe.detail


def test_a_yes_says_what_was_seen() -> None:
    assert (
        judge("seccomp", Answer(status=0, stdout="a refused call was refused\n")).detail == "a refused call was refused"
    )


@pytest.mark.sandbox
@pytest.mark.parametrize("question", ["seccomp", "rlimit_data", "prlimit"])
def test_this_host_answers(question: str) -> None:
    answer = ask(question_argv(question, *(["12345"] if question == "prlimit" else [])))
    assert answer.ok, answer.why


@pytest.mark.sandbox
def test_a_host_that_refuses_is_believed() -> None:
    """Negative control: in a process that may make no namespace, the question is answered with no."""
    program = (
        "import resource, os, sys\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
        "os.setuid(54321) if os.getuid() == 0 else None\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    argv = question_argv("prlimit", "0")
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, check=False, timeout=30)
    assert done.returncode == 1
    assert os.strerror(errno.EAGAIN).encode() in done.stderr
    assert ctypes.sizeof(ctypes.c_void_p) in {4, 8}


def test_a_program_that_is_missing_or_late_is_an_answer(tmp_path: Path) -> None:
    missing = ask([tmp_path / "none"])
    assert missing.status is None
    assert "No such file" in missing.why
    late = ask(["/usr/bin/sleep", "30"], seconds=0.01)
    assert (late.status, late.ok) == (None, False)


def test_a_silent_failure_says_its_status() -> None:
    assert ask(["/usr/bin/false"]).why == "ended with status 1"
    assert ask(["/usr/bin/true"]).why == ""
