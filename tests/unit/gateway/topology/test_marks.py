"""What a server's tools may do is the operator's word, and the worse one where it says nothing."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology import marks
from fumehood.gateway.topology.model import Server
from fumehood.gateway.topology.patterns import fits, fits_any

COMMAND = Server(command=("x",))
ONLINE = Server(command=("x",), policy=GuardPolicy(allow_net=("example.com:443",)))
INSIDE = Server(command=("x",), policy=GuardPolicy(allow_private_net=("git.corp.example:443",)))
REMOTE = Server(url="https://example.com/mcp")
FOLDER = Server(workspace="/srv")


@pytest.mark.parametrize(
    ("server", "writes", "sends"),
    [
        (COMMAND, True, False),
        (ONLINE, True, True),
        (INSIDE, True, True),
        (REMOTE, True, True),
        (FOLDER, False, False),
    ],
)
def test_a_tool_that_nobody_spoke_of_is_taken_for_the_worse_one(server: Server, *, writes: bool, sends: bool) -> None:
    assert marks.writes(server, "anything") is writes
    assert marks.sends(server, "anything") is sends
    assert not marks.is_trusted(server)


@pytest.mark.parametrize("kind", ["command", "url", "workspace"])
def test_what_is_listed_is_what_counts(kind: str) -> None:
    kinds = {"command": ("x",), "url": "https://example.com/mcp", "workspace": "/srv"}
    server = Server(**{kind: kinds[kind]}, reads=("get_*",), egress=("post",), trust="trusted")  # type: ignore[arg-type]  # one of three
    assert not marks.writes(server, "get_file")
    assert marks.writes(server, "put_file")
    assert marks.sends(server, "post")
    assert not marks.sends(server, "get_file")
    assert marks.is_trusted(server)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "axbxc", True),
        ("a*b*c", "axc", False),
        ("a**c", "ac", True),
        ("read", "reading", False),
        ("*x*x", "x", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_star_fits_anything_and_nothing_else_does(pattern: str, name: str, *, expected: bool) -> None:
    assert fits(pattern, name) is expected
    assert fits_any(("other", pattern), name) is expected
    assert not fits_any((), name)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_patterns_mean_what_the_shell_means(pattern: str, name: str) -> None:
    assert fits(pattern, name) == fnmatch.fnmatchcase(name, pattern)


def test_a_hostile_name_takes_no_time() -> None:
    assert not fits("*a" * 50 + "*b", "a" * 100_000)
