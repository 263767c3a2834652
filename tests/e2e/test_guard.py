"""`fumehood guard`: the same server reaches, reads and sees without it what it does not behind it."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.guarded import PYTHON, Guarded, Hall
from fumehood.gateway.audit import chain, files
from loopback.speaking import ERAS

pytestmark = pytest.mark.sandbox


def attempt(server: Guarded, what: str, argument: str = "") -> str:
    """What the server says of one attempt, without the fence."""
    result = server.answer(server.call("attempt", {"what": what, "argument": argument}))["result"]
    return str(result["structuredContent"]["text"])


@contextmanager
def service() -> Iterator[tuple[int, list[bytes]]]:
    """A service of this machine on loopback: its port, and what it was asked."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    opened, _ = listening.accept()
                except OSError:
                    return
                with opened:
                    heard.append(opened.recv(100))
                    opened.sendall(b"canary of a service")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], heard
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("era", ERAS)
def test_a_server_is_used_in_both_eras_and_its_words_are_fenced(hall: Hall, era: str) -> None:
    server = hall.guard(era=era)
    opened = server.open()
    assert "fumehood guard" in opened["instructions"]
    assert [tool["name"] for tool in server.result("tools/list")["tools"]] == ["attempt"]
    result = server.result("tools/call", {"name": "attempt", "arguments": {"what": "say", "argument": "hello"}})
    first, words, last = result["content"][0]["text"].splitlines()
    assert words == "hello"
    assert first.replace("begins", "ends") == last
    status, _, said = server.finish()
    assert status == 0
    assert "server| it begins\n" in said


@pytest.mark.threat("G2")
def test_a_server_reads_nothing_of_a_home(hall: Hall) -> None:
    home = hall.folder("home")
    hall.file("home/canary.txt", "canary of a home")
    hall.file("other.txt", "canary beside it")
    hall.variables["HOME"] = str(home)
    bare, guarded = hall.bare(), hall.guard()
    bare.open()
    guarded.open()
    for path in (home / "canary.txt", hall.place / "other.txt"):
        assert "canary" in attempt(bare, "read", str(path))
        assert attempt(guarded, "read", str(path)).startswith("refused")
    assert attempt(guarded, "listing", str(hall.place)) == "server.py"
    assert attempt(guarded, "folder") == "/home/user"
    assert attempt(guarded, "listing", "/home/user") == ""


@pytest.mark.threat("G2")
def test_a_folder_that_may_be_read_is_read_and_nothing_else(hall: Hall) -> None:
    docs, out = hall.folder("docs"), hall.folder("out", mode=0o777)
    hall.file("docs/a.txt", "canary of docs")
    guarded = hall.guard("--allow-read", str(docs), "--allow-write", str(out))
    guarded.open()
    assert attempt(guarded, "read", f"{docs}/a.txt") == "canary of docs"
    assert attempt(guarded, "write", f"{docs}/b.txt").startswith("refused")
    assert attempt(guarded, "write", f"{out}/b.txt") == "wrote 14"
    assert (out / "b.txt").read_text(encoding="utf-8") == "written inside"
    assert attempt(guarded, "listing", str(hall.place)) == "docs out server.py"
    assert attempt(guarded, "write", f"{hall.place}/c.txt").startswith("refused")
    assert attempt(guarded, "write", "/home/user/d.txt") == "wrote 14"
    assert attempt(guarded, "write", "/usr/e.txt").startswith("refused")


@pytest.mark.threat("G2")
def test_a_link_leads_nowhere_that_was_not_named(hall: Hall) -> None:
    docs = hall.folder("docs")
    hall.file("secret.txt", "canary beside it")
    (docs / "link").symlink_to(hall.place / "secret.txt")
    (hall.place / "linked").symlink_to(docs)
    guarded = hall.guard("--allow-read", f"{hall.place}/linked")
    guarded.open()
    assert attempt(guarded, "listing", f"{hall.place}/linked") == "link"
    assert attempt(guarded, "read", f"{hall.place}/linked/link").startswith("refused")
    assert f"--allow-read {hall.place}/linked is {docs}\n" in guarded.finish()[2]


@pytest.mark.threat("G2")
def test_a_server_sees_the_variables_that_were_named(hall: Hall) -> None:
    value = "canary-" + "of-a-variable"
    hall.variables |= {"GIVEN_NAME": value, "KEPT_NAME": value}
    bare, guarded = hall.bare(), hall.guard("--env", "GIVEN_NAME", "--env", "NOT_SET")
    bare.open()
    guarded.open()
    assert json.loads(attempt(bare, "environment"))["KEPT_NAME"] == value
    seen = json.loads(attempt(guarded, "environment"))
    assert seen["GIVEN_NAME"] == value
    assert set(seen) == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "GIVEN_NAME", *_PYTHONS(seen)}
    said = guarded.finish()[2]
    assert "--env NOT_SET: it is not set" in said
    assert value not in said


def _PYTHONS(seen: dict[str, str]) -> set[str]:  # noqa: N802 - what the interpreter sets by itself
    return set(seen) & {"LC_CTYPE"}


@pytest.mark.threat("G2")
def test_a_server_reaches_no_service_of_this_machine(hall: Hall) -> None:
    with service() as (port, heard):
        bare, guarded = hall.bare(), hall.guard()
        bare.open()
        guarded.open()
        assert "canary of a service" in attempt(bare, "connect", f"127.0.0.1:{port}")
        assert len(heard) == 1
        assert attempt(guarded, "connect", f"127.0.0.1:{port}").startswith("refused")
        assert attempt(guarded, "connect", f"localhost:{port}").startswith("refused")
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allow-read", "/", "--", PYTHON), "is the whole system"),
        (("--allow-write", "{home}", "--", PYTHON), "is a home as a whole"),
        (("--allow-read", "{runs}", "--", PYTHON), "what fumehood itself is configured by"),
        (("--allow-read", "{home}/.config", "--", PYTHON), "there is nothing"),
        (("--allow-net", "localhost:80", "--", PYTHON), "is loopback"),
        (("--policy", "{place}/policy.toml", "--", PYTHON), "policy.toml, line 2: allow_raed: no such key"),
        (("--policy", "{place}/none.toml", "--", PYTHON), "cannot be read"),
        (("--", "docker", "run", "x"), "a container is started by its daemon"),
        (("--", "no-such-program-here"), "is not found on PATH"),
        (("--", "/etc/passwd"), "is no program"),
        (("--", "{place}/program"), "the server does not see it (add --allow-read {place})"),
        ((PYTHON, "x"), None),
    ],
)
def test_what_is_refused_is_told_with_the_next_step(hall: Hall, words: tuple[str, ...], said: str | None) -> None:
    home = hall.folder("home")
    hall.variables["HOME"] = str(home)
    hall.file("policy.toml", "env = []\nallow_raed = []\n")
    hall.file("program", "#!/bin/sh\n").chmod(0o755)
    names = {"home": str(home), "place": str(hall.place), "runs": str(hall.command.run_root)}
    done = hall.run(*(word.format(**names) for word in words))
    if said is None:  # a command without `--`: python itself fails, for there is no such file
        assert done.returncode == 2
        assert "can't open file" in done.stderr
    else:
        assert done.returncode == 2
        assert said.format(**names) in done.stderr
    assert done.stdout == ""


def test_a_word_that_the_server_would_not_see_is_pointed_out(hall: Hall) -> None:
    done = hall.run("--", PYTHON, hall.server)
    assert f"{hall.server} is there, and the server does not see it: --allow-read shows it" in done.stderr
    assert done.returncode == 2  # python's own


@pytest.mark.root
@pytest.mark.threat("G2")
def test_as_root_a_folder_that_only_root_may_enter_is_refused_with_the_reason(hall: Hall) -> None:
    closed = hall.folder("closed", mode=0o700)
    done = hall.run("--allow-read", str(closed), "--", PYTHON)
    assert done.returncode == 2
    assert f"as root the server runs as a user of its own, who may not enter {closed}" in done.stderr


@pytest.mark.threat("G1")
def test_calls_are_in_the_audit_log_that_the_policy_names(hall: Hall, tmp_path: Path) -> None:
    log = tmp_path / "guard.jsonl"
    hall.file("policy.toml", f'audit_file = "{log}"\nallow_read = ["{hall.server}"]\n')
    server = hall.guard("--policy", f"{hall.place}/policy.toml")
    server.open()
    attempt(server, "say", "a secret word")
    assert server.finish()[0] == 0
    (lines,) = [list(found) for _, found in files.lines(log)]
    assert isinstance(chain.verify(lines), chain.Verified)
    events: list[Any] = [json.loads(line)["event"] for line in lines]
    assert [(one["source"], one["tool"], one["outcome"]) for one in events] == [
        ("guard", "attempt", "begun"),
        ("guard", "attempt", "ok"),
    ]
    assert events[0]["who"] == f"uid:{os.getuid()}"
    assert b"a secret word" not in b"".join(lines)
