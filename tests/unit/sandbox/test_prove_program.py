"""The acts of `programs/prove.py`, outside of any sandbox: there they work, which is what makes a refusal a fact."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fumehood.sandbox.launch import PROGRAMS
from fumehood.sandbox.programs import prove
from fumehood.sandbox.proof.proving import read_outcomes


def outcomes(acts: dict[str, object]) -> dict[str, tuple[bool, str]]:
    argv = [sys.executable, "-I", "-S", str(PROGRAMS / "prove.py"), json.dumps(acts)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    found = read_outcomes(done.stdout)
    assert list(found) == list(acts)
    return found


def test_acts_on_what_is_there_work(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0proof-test-{os.getpid()}")
        abstract.listen()
        found = outcomes(
            {
                "read_outside": ["/nowhere", str(tmp_path / "secret")],
                "write_outside": [str(tmp_path / "new")],
                "see_process": os.getpid(),
                "signal_process": os.getpid(),
                "read_environment": os.getpid(),
                "reach_abstract_socket": f"proof-test-{os.getpid()}",
                "reach_loopback_service": ["127.0.0.1", server.getsockname()[1]],
                "see_host_name": os.uname().nodename,
                "open_many": 20,
                "start_many": 3,
                "write_much": [str(tmp_path / "large"), 3 << 20, 0],
                "use_memory": 1 << 20,
                "use_cpu": 0.01,
                "outlast": 0.01,
                "clone_untraced": 0,
            }
        )
    assert {act: worked for act, (worked, _) in found.items() if not worked} == {}
    assert (tmp_path / "large").stat().st_size == 3 << 20


def test_acts_on_what_is_not_there_are_refused_with_the_errno(tmp_path: Path) -> None:
    found = outcomes(
        {
            "read_outside": [str(tmp_path / "none")],
            "read_other_users_file": [],
            "see_process": 2**22 + 1,
            "signal_process": 2**22 + 1,
            "reach_abstract_socket": f"proof-none-{os.getpid()}",
            "see_host_name": "another",
            "reach_message_queue": 1234567,
        }
    )
    assert {act: detail for act, (_, detail) in found.items()} == {
        "read_outside": "ENOENT",
        "read_other_users_file": "EINVAL",
        "see_process": "ENOENT",
        "signal_process": "ESRCH",
        "reach_abstract_socket": "ECONNREFUSED",
        "see_host_name": "ENOENT",
        "reach_message_queue": "ENOENT",
    }


def test_an_act_that_is_killed_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prove.ACTS, "die", lambda _: os.kill(os.getpid(), 9))
    assert prove.attempt("die", 0) == (False, "killed by SIGKILL")


def test_a_machine_without_a_table_of_calls_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "NUMBERS", {})
    with pytest.raises(OSError, match="no table"):
        prove.number_of("clone")
