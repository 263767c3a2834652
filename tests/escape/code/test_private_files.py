"""A file that is root's alone, inside the root of a child whose Deno permits everything: its mode holds alone."""

import json
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fumehood.code.job import JobResult, State
from fumehood.code.run import Ground
from fumehood.sandbox import launch

pytestmark = [
    pytest.mark.threat("C2"),
    pytest.mark.sandbox,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files that are root's"),
]
UID = 54323
READ = """
const told = [];
for (const name of ["/closed", "/open"]) {
  try { told.push(Deno.readTextFileSync(name)) } catch (error) { told.push(error.name) }
}
return told;
"""
# Runs one child as the user, without pytest, and says what it said.
SCRIPT = """
import asyncio, importlib.util, json, os, sys
sys.path[:0] = {path!r}
spec = importlib.util.spec_from_file_location("lab", {conftest!r})
lab = importlib.util.module_from_spec(spec); sys.modules["lab"] = lab; spec.loader.exec_module(lab)
from dataclasses import replace
from pathlib import Path
place = Path({place!r})
host = lab.probe.probe_host({{}}, quick=True, run_root=place / "runs")
ground = lab.prepare(host, lab.runtime.find({{}}).runtime)
shown = {{f"/{{name}}": place / name for name in ("closed", "open")}}
harness = ground.parts.harness.replace(lab.HYGIENE, b"")
ground = replace(
    ground,
    parts=replace(ground.parts, harness=harness, libraries={{**ground.parts.libraries, **shown}}),
    wiring=lab.Wiring(unsafe_reshape=lab.Permitted()),
)
result = asyncio.run(lab.run_job(lab.Job(code={program!r}), lab.Tools(), ground))
said = {{"uid": os.getuid(), "routes": list(host.routes), "value": result.value, "error": str(result.error)}}
print(json.dumps(said))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's with a closed and an open file, and a folder for runs of the user's."""
    with pytest.raises(KeyError):
        pwd.getpwuid(UID)
    folder = Path(tempfile.mkdtemp(prefix="fumehood-private-", dir="/var/tmp"))
    folder.chmod(0o755)
    for name, mode in (("closed", 0o600), ("open", 0o644)):
        (folder / name).write_text("planted")
        (folder / name).chmod(mode)
    (folder / "runs").mkdir()
    os.chown(folder / "runs", UID, UID)
    yield folder
    shutil.rmtree(folder)


def test_a_file_of_roots_stays_closed_by_each_route(
    place: Path, routed: Ground, permitted: Ground, run: Callable[..., JobResult]
) -> None:
    shown = {f"/{name}": place / name for name in ("closed", "open")}
    parts = replace(permitted.parts, programs=routed.parts.programs, libraries={**routed.parts.libraries, **shown})
    result = run(replace(routed, parts=parts, wiring=permitted.wiring), READ)
    assert (result.state, result.value) == (State.OK, ["PermissionDenied", "planted"]), result.error


def test_a_file_of_roots_stays_closed_for_an_ordinary_users_child(place: Path) -> None:
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    file = place / "script.py"
    file.write_text(
        SCRIPT.format(
            path=[str(Path(launch.__file__).parents[2]), packages],
            conftest=str(Path(__file__).parent / "conftest.py"),
            place=str(place),
            program=READ,
        )
    )
    # A shell stands between: setpriv's own exec still has root's rights.
    drop = ["/usr/bin/setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all", "--"]
    done = launch.run_tool(
        [*drop, "/bin/sh", "-c", '"$@"', "sh", os.path.realpath(sys.executable), "-B", str(file)],
        timeout_seconds=120,
        environment={"HOME": str(place), "PATH": "/usr/bin:/bin"},
    )
    assert done.status == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said == {"uid": UID, "routes": ["user"], "value": ["PermissionDenied", "planted"], "error": "None"}
    assert list((place / "runs").iterdir()) == []
