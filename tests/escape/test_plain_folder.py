"""The walls around a child whose place for writing is an ordinary folder, as on a host that mounts no overlay."""

from typing import Any

import pytest

from fumehood.core.limits import MIB
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import End

pytestmark = pytest.mark.sandbox
Lab = Any
# What is mounted at /var, whether a device or a set-id program works there, and what else can be written.
LOOK = """
import stat, subprocess
mounts = [line.split() for line in open('/proc/self/mountinfo')]
options = next(words[5] for words in mounts if words[4] == '/var')
def device():
    os.mknod('null', 0o600 | stat.S_IFCHR, os.makedev(1, 3))
def setuid():
    import shutil
    shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o6755)
    return subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip()
say(options=options, device=attempt(device), setuid=setuid(), uid=os.getuid(),
    others={p: attempt(lambda: open(p + '/planted', 'w')) for p in ('/', '/usr', '/etc', '/opt', '/dev')},
    home=attempt(lambda: open('/home/mira/notes/file', 'w')), tmp=attempt(lambda: open('/tmp/file', 'w')),
    unshare=apart(lambda: call(272, 0x10000000)))
"""


@pytest.mark.threat("R2")
def test_a_plain_folder_is_the_only_place_that_can_be_written(lab: Lab) -> None:
    outcome = lab.run(LOOK, plain=True)
    said = outcome.said
    assert {"nosuid", "nodev"} <= set(said["options"].split(","))
    assert said["device"] == "EPERM"
    assert said["setuid"] == str(said["uid"])
    assert set(said["others"].values()) <= {"EROFS", "EACCES", "ENOENT"}
    assert (said["home"], said["tmp"]) == ("OK", "OK")
    assert said["unshare"] in {"EPERM", "ENOSPC"}
    assert {wall.name: wall.state for wall in outcome.containment.walls} == {
        wall.name: wall.state for wall in lab.run("say(ok=1)").containment.walls
    }
    assert outcome.state("layer_size") is WallState.ENFORCED


@pytest.mark.threat("R10")
def test_a_plain_folder_that_outgrows_its_bound_ends_the_sandbox(lab: Lab) -> None:
    program = "for n in range(400):\n  open(str(n), 'wb').write(os.urandom(1 << 20)); time.sleep(0.01)\nsay(ok=1)"
    assert lab.run(program, plain=True, layer_bytes=24 * MIB).exit.end is End.LAYER


def test_control_a_plain_folder_within_its_bound_is_left_alone(lab: Lab) -> None:
    program = "open('file', 'wb').write(b'x' * (4 << 20)); time.sleep(0.4); say(ok=1)"
    assert lab.run(program, plain=True, layer_bytes=24 * MIB).said == {"ok": 1}
