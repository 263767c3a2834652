"""Nothing of the environment of `fumehood review run` reaches a target, in any phase."""

import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Command, request_for
from fumehood.sandbox.probe import host as probe

pytestmark = pytest.mark.sandbox
NAMES = (
    *("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "RUNNER_TEMP", "CI"),
    *("NPM_TOKEN", "npm_config__auth", "NODE_OPTIONS", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD"),
)
PRINTS = "process.stderr.write(JSON.stringify(process.env) + '\\n' + process.argv.join(' ') + '\\n');\n"
READS = """
{
  const fs = require("node:fs");
  const read = (pid) => { try { return fs.readFileSync(`/proc/${pid}/environ`, "latin1"); } catch { return ""; } };
  const each = fs.readdirSync("/proc").filter(Number).map(read);
  process.stderr.write(each.join("\\n").replaceAll("\\0", " ") + "\\n");
}
"""


@pytest.mark.threat("R14")
def test_no_variable_of_the_runner_is_seen_in_any_phase(
    command: Command, target: Callable[..., Path], safe: str
) -> None:
    mark = secrets.token_hex(8)
    planted = {name: f"/tmp/{mark}" for name in NAMES if name not in {"NODE_OPTIONS", "LD_PRELOAD"}}
    planted |= {"NODE_OPTIONS": f"--title={mark}", "LD_PRELOAD": f"/nonexistent/{mark}.so"}
    files = {"hook.js": PRINTS + READS, "build.js": PRINTS + READS, "server.js": PRINTS + READS + safe}
    target(files, scripts={"postinstall": "node hook.js", "build": "node build.js"})
    fields = request_for({"kind": "dir", "path": "target"}, prepare_profile="npm_build")
    ran = command.run(command.request(fields), environment=planted)
    assert ran.status == 0, ran.stderr
    rows = [row for row in ran.result["observations"]["items"] if row["type"] == "output.text"]
    for phase in ("INSTALL", "PREPARE", "EXERCISE"):
        text = "".join(row["detail"]["text"] for row in rows if row["phase"] == phase)
        assert '"HOME":"' in text  # the control: it did print its environment
        assert not [name for name in NAMES if f'"{name}":' in text or f" {name}=" in text]
    for file in ran.out.iterdir():
        assert mark not in file.read_text(encoding="utf-8")


@pytest.mark.threat("R14")
def test_the_same_program_outside_of_a_sandbox_does_see_them(
    command: Command, target: Callable[..., Path], tmp_path: Path
) -> None:
    mark = secrets.token_hex(8)
    place = target({"hook.js": PRINTS + READS})
    node = probe.probe_host({}, quick=True, run_root=tmp_path).tools["node"].path
    environment = command.environment(GITHUB_TOKEN=mark)
    done = subprocess.run([node, place / "hook.js"], env=environment, capture_output=True, text=True, check=True)
    assert mark in done.stderr
