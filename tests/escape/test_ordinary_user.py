"""The same walls for an ordinary user, started from a process without root's rights.

`setpriv` alone would give a false green: its first exec still has root's rights. So a shell stands between.
"""

import json
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.sandbox import launch

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the same tests directly"),
]
UID = 54321
# Runs the laboratory as the user, without pytest: a few acts, each with its control.
SCRIPT = """
import importlib.util, json, os, sys
sys.path[:0] = {path!r}
spec = importlib.util.spec_from_file_location("lab", {conftest!r})
module = importlib.util.module_from_spec(spec); sys.modules["lab"] = module; spec.loader.exec_module(module)
from pathlib import Path
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.spec import Bounds, ProcessLimits, Route, TraceMode
root = Path({root!r}) / "runs"
host = probe.probe_host({{}}, quick=True, run_root=root)
lab = module.Lab(host=host, route=Route.USER)
STAY = "for _ in range(2):\\n if os.fork() == 0: os.setsid(); signal.pause()\\nwhile True: signal.pause()"
MEMORY = "kept = [bytearray(8 << 20) for _ in range(24)]; say(done=1)"
TREE = "for _ in range(8):\\n if os.fork() == 0:\\n  kept = bytearray(24 << 20)\\n  signal.pause()\\nsignal.pause()"
FORKS = (
    "n = 0\\nfor _ in range(60):\\n try: child = os.fork()\\n except OSError: n += 1; continue\\n"
    " if child == 0: signal.pause()\\nsay(refused=n)"
)
LATE = "if os.fork() == 0: time.sleep(0.2); open('/tmp/late', 'w').close(); os._exit(0)\\nsys.exit(6)"
WHO = (
    "say(uid=os.getuid(), pids=sum(map(str.isdigit, os.listdir('/proc'))), unshare=call(272, 0x10000000),"
    " shadow=attempt(lambda: open('/etc/passwd', 'w')))"
)
small = ProcessLimits(memory_bytes=96 << 20)
who = lab.run(WHO)
print(json.dumps({{
    "uid": os.getuid(),
    "routes": [route.value for route in host.routes],
    "who": who.said,
    "walls": {{wall.name: wall.state.value for wall in who.containment.walls}},
    "deadline": lab.run(STAY, wall_seconds=0.5).exit.end.value,
    "traced": lab.run(STAY, wall_seconds=0.5, trace=TraceMode.PLAIN).exit.end.value,
    "lingered": sorted(lab.run(LATE, linger_seconds=20.0).upper),
    "large": str(lab.run(MEMORY, limits=small).exit.end.value),
    "large_free": lab.run(MEMORY).said,
    "tree": lab.run(TREE, limits=small, wall_seconds=30.0).exit.end.value,
    "forks": lab.run(FORKS, limits=ProcessLimits(processes=30)).said["refused"],
    "left": sorted(path.name for path in root.iterdir()),
}}))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fumehood-user-", dir="/var/tmp"))
    folder.chmod(0o755)
    os.chown(folder, UID, UID)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.threat("R2")
@pytest.mark.threat("R10")
def test_the_walls_stand_for_an_ordinary_user(place: Path) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(UID)
    source, tests = Path(launch.__file__).parents[2], Path(__file__).parent
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    script = SCRIPT.format(path=[str(source), packages], conftest=str(tests / "conftest.py"), root=str(place))
    file = place / "script.py"
    file.write_text(script, encoding="utf-8")
    drop = ["/usr/bin/setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all", "--"]
    python = os.path.realpath(sys.executable)
    done = launch.run_tool(
        [*drop, "/bin/sh", "-c", '"$@"', "sh", python, "-B", str(file)],
        timeout_seconds=120,
        environment={"HOME": str(place), "PATH": "/usr/bin:/bin"},
    )
    assert done.status == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["uid"] == said["who"]["uid"] == UID
    assert said["routes"] == ["user"]
    assert said["who"] == {"uid": UID, "pids": 2, "shadow": "EROFS", "unshare": "EPERM"}
    assert set(said["walls"].values()) <= {"enforced", "not_requested"}, said["walls"]
    assert said["deadline"] == said["traced"] == "deadline"
    assert said["lingered"] == ["tmp/late"]
    assert said["large"] in {"exited", "memory"}  # RLIMIT_DATA: a MemoryError, or the poll was quicker
    assert said["large_free"] == {"done": 1}
    assert said["tree"] == "memory"
    assert said["forks"] >= 30
    assert said["left"] == []
