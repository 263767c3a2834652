import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fumehood.sandbox.egress import Mode, Policy, Rule

if TYPE_CHECKING:
    from escape.egress.conftest import Hood

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("R3")]
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture
def service() -> Iterator[int]:
    """A service on the host's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def abstract() -> Iterator[str]:
    """A service on an abstract Unix socket of the host's network namespace."""
    name = "fumehood-test-" + secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        yield name


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_of_the_hosts_network_is_reachable_and_without_the_namespace_it_is(
    hood: "Hood", mode: Mode, service: int, abstract: str
) -> None:
    program = (
        "def unix(name):\n"
        "    with socket.socket(socket.AF_UNIX) as s:\n"
        "        try: s.connect('\\0' + name); return 'reached'\n"
        "        except OSError as error: return type(error).__name__\n"
        f"say(tcp=ask('127.0.0.1', {service}, read=False), unix=unix({abstract!r}),"
        " interfaces=[name for _, name in socket.if_nameindex()])"
    )
    policy = Policy(mode=mode, rules=(Rule(host="public.example", port=443),))
    done = hood.run(policy, program)
    refused = "ConnectionRefusedError"
    assert done.said == {"tcp": refused, "unix": refused, "interfaces": ["lo"]}
    control = hood.run_in_the_hosts_network(program)
    assert (control["tcp"], control["unix"]) == ("sent", "reached")


def children() -> set[str]:
    """The processes whose parent is this one."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:  # ended meanwhile
            continue
        if parent == str(os.getpid()):
            found.add(stat.parent.name)
    return found


def test_no_process_of_the_engine_is_left(hood: "Hood") -> None:
    before = children()
    hood.run(Policy(mode=Mode.OPEN), "say()")
    assert children() - before == set()


@pytest.mark.root
def test_an_ordinary_user_has_the_same_engine() -> None:
    if os.geteuid() != 0:
        pytest.skip("is an ordinary user already")
    setpriv = shutil.which("setpriv")
    assert setpriv
    # setpriv alone gives a false green: its first exec still has root's rights, so a shell comes between.
    argv = [setpriv, "--reuid=61235", "--regid=61235", "--clear-groups", "--inh-caps=-all", "/bin/sh", "-c"]
    pytest_argv = f"{sys.executable} -m pytest -q -p no:cacheprovider {HERE} && id -u"
    done = subprocess.run(
        [*argv, f"cd {ROOT} && {pytest_argv}"],
        capture_output=True,
        timeout=240,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if b"Permission denied" in done.stderr and b"passed" not in done.stdout:
        pytest.skip("this checkout lies where another user may not read")
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert done.stdout.strip().endswith(b"61235")
