import json
import subprocess
import sys

import pytest

# In a network namespace made for this test, so that a failure reroutes nothing of the host's.
PROGRAM = """
import asyncio, json, os, sys
from pathlib import Path
from fumehood.sandbox import launch
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.netns import ListenerHelper

async def main():
    child = launch.spawn(["/usr/bin/cat"], streams=launch.Streams(stdin=launch.PIPE))
    with ListenerHelper.start(Policy(mode=Mode.OPEN), Path("/usr/sbin/nft")) as helper:
        inside = await helper.open(child.pid, os.geteuid(), {7: 64})
    child.close()
    routes = Path("/proc/net/fib_trie").read_text()
    print(json.dumps([sorted(inside.sockets), inside.notes, inside.limits, "0.0.0.0/0" in routes]))

asyncio.run(main())
"""


@pytest.mark.sandbox
@pytest.mark.threat("R3")
def test_a_child_without_a_namespace_of_its_own_gets_limits_and_nothing_is_opened_or_routed() -> None:
    argv = ["/usr/bin/unshare", "--map-root-user", "--net", sys.executable, "-c", PROGRAM]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    sockets, notes, limits, routed = json.loads(done.stdout)
    assert (sockets, limits, routed) == ([], {"7": 64}, False)
    assert "own network namespace" in notes[0]


OUTWARD = "ip link add out0 type veth peer name out1 && ip link set out0 up && exec /usr/bin/cat"
READY = """
    while Path(f"/proc/{child.pid}/comm").read_text() != "cat\\n":
        await asyncio.sleep(0.01)
"""


@pytest.mark.sandbox
@pytest.mark.threat("R3")
def test_a_namespace_with_an_interface_that_leads_out_is_left_alone() -> None:
    child = f'["/usr/bin/unshare", "--net", "/bin/sh", "-c", {OUTWARD!r}]'
    program = PROGRAM.replace('["/usr/bin/cat"]', child).replace("    with Listener", f"{READY}    with Listener")
    argv = ["/usr/bin/unshare", "--map-root-user", "--net", sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=60, env={"PATH": "/usr/sbin:/usr/bin:/bin"})
    assert b"an interface that leads out of it" in done.stderr
