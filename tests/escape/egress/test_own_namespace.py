import json
import subprocess
import sys

import pytest

# In a network namespace made for this test, so that a failure reroutes nothing of the host's.
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from fumehood.sandbox import launch
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.netns import ListenerHelper

async def main():
    child = launch.spawn(["/usr/bin/cat"], streams=launch.Streams(stdin=launch.PIPE))
    with ListenerHelper.start(Policy(mode=Mode.OPEN), Path("/usr/sbin/nft")) as helper:
        inside = await helper.open(child.pid)
    child.close()
    routes = Path("/proc/net/fib_trie").read_text()
    print(json.dumps([sorted(inside.sockets), inside.notes, "0.0.0.0/0" in routes]))

asyncio.run(main())
"""


@pytest.mark.sandbox
@pytest.mark.threat("R3")
def test_for_a_child_without_a_namespace_of_its_own_nothing_is_opened_or_routed() -> None:
    argv = ["/usr/bin/unshare", "--map-root-user", "--net", sys.executable, "-c", PROGRAM]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    sockets, notes, routed = json.loads(done.stdout)
    assert (sockets, routed) == ([], False)
    assert "own network namespace" in notes[0]


OUTWARD = "ip link add out0 type veth peer name out1 && ip link set out0 up && exec /usr/bin/cat"
READY = """
    while Path(f"/proc/{child.pid}/comm").read_text() != "cat\\n":
        await asyncio.sleep(0.01)
"""


@pytest.mark.sandbox
@pytest.mark.threat("R3")
def test_a_namespace_with_an_interface_that_leads_out_is_left_alone() -> None:
    assert b"an interface that leads out of it" in in_a_namespace(OUTWARD).stderr


PLAIN = "ip link set lo up && exec /usr/bin/cat"
WITHOUT_IPV6 = f"echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; {PLAIN}"
TWICE = """
    with ListenerHelper.start(Policy(mode=Mode.OPEN), None) as again:
        await again.open(child.pid)
"""


def in_a_namespace(shell: str, then: str = "") -> "subprocess.CompletedProcess[bytes]":
    """Run the program on a child that prepares a namespace of its own with `shell`."""
    child = f'["/usr/bin/unshare", "--net", "/bin/sh", "-c", {shell!r}]'
    program = PROGRAM.replace('["/usr/bin/cat"]', child).replace("    with Listener", f"{READY}    with Listener")
    program = program.replace("    child.close()", f"{then}    child.close()")
    argv = ["/usr/bin/unshare", "--map-root-user", "--net", sys.executable, "-c", program]
    return subprocess.run(argv, capture_output=True, check=False, timeout=60, env={"PATH": "/usr/sbin:/usr/bin:/bin"})


@pytest.mark.sandbox
def test_a_host_without_ipv6_is_noted_and_ipv4_is_served() -> None:
    sockets, notes, _ = json.loads(in_a_namespace(WITHOUT_IPV6).stdout)
    assert sockets == ["catch4", "dns4", "packet:other", "packet:tcp", "udp4"]
    assert [note.partition(":")[0] for note in notes] == ["no IPv6 inside"]


@pytest.mark.sandbox
def test_a_namespace_in_which_ipv4_cannot_be_set_up_is_an_error() -> None:
    assert b"File exists" in in_a_namespace(PLAIN, TWICE).stderr
