"""Review each fixture folder as a `dir` target, and this repository's own commit as a `git` target from loopback.

Takes no target from outside: what is reviewed is in this repository. Each review has to end in the state that its
fixture is made for, and each result has to fit the published schema. Exit status 1 when one does not.

    python scripts/self_review.py [--out DIR] [NAME …]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FUMEHOOD = Path(sysconfig.get_path("scripts")) / "fumehood"
SERVERS = ROOT / "tests/fixtures/servers"
SAFE = ROOT / "src/fumehood/data/demo/safe"
REPOSITORY = "fumehood/fumehood"

ENDS: dict[str, tuple[str, str]] = {  # fixture → the state in which its review has to end, and the code of its cause
    name: (state, code) for name, (state, code) in tomllib.loads((SERVERS / "ends.toml").read_text("utf-8")).items()
}
NEVER_ANSWER = ("silent", "other-id")  # the shortest limit that a request may ask for is enough to see that


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One review: what it is called, its request, the folder it needs beside it, and how it has to end."""

    name: str
    request: dict[str, Any]
    ends: tuple[str, str]  # state and code
    folder: Path | None = None
    created: str = ""  # a file that EXERCISE has to have created
    environment: dict[str, str] = field(default_factory=dict)


def request(target: dict[str, str], entrypoint: str, *, build: bool, seconds: int) -> dict[str, Any]:
    """A request for one of our own targets; a git target takes version 1, whose network mode is OPEN."""
    git = target["kind"] == "git"
    return {
        "schema_version": 1 if git else 2,
        "target": target,
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "prepare_profile": "npm_build" if build else "NONE",
        "network_mode": "OPEN" if git else "NONE",
        "credentials": "NONE",
        "question": "Does the harness record what this fixture is made to do?",
        "entrypoint": entrypoint,
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": seconds,
    }


def folder_cases() -> list[Case]:
    """One case for each fixture folder. A folder that ENDS does not name is an error, not a silent gap."""
    folders = {path.name: path for path in sorted(SERVERS.iterdir()) if path.is_dir()} | {"safe": SAFE}
    if odd := set(folders) ^ set(ENDS):
        raise SystemExit(f"fixture folders and expected states disagree about: {', '.join(sorted(odd))}")
    cases = []
    for name, folder in folders.items():
        entry = "dist/index.js" if name == "build-required" else "server.js"
        wanted = request(
            {"kind": "dir", "path": "target"},
            entry,
            build=name == "build-required",
            seconds=5 if name in NEVER_ANSWER else 60,
        )
        created = "received.jsonl" if name == "safe" else ""
        cases.append(Case(name=name, request=wanted, ends=ENDS[name], folder=folder, created=created))
    return cases


def commit_cases(forge: str, commit: str) -> list[Case]:
    """The same fixtures, in this repository's own commit, as it comes from a forge."""
    places = {
        "safe": ("src/fumehood/data/demo/safe/server.js", False),
        "build-required": ("tests/fixtures/servers/build-required/dist/index.js", True),
        "noisy": ("tests/fixtures/servers/noisy/server.js", False),
        "failing": ("tests/fixtures/servers/failing/server.js", False),
    }
    target = {"kind": "git", "repository": REPOSITORY, "ref": commit}
    return [
        Case(
            name=f"commit-{name}",
            request=request(target, entry, build=build, seconds=60),
            ends=ENDS[name],
            created="received.jsonl" if name == "safe" else "",
            environment={"FUMEHOOD_REVIEW__FORGE": forge},
        )
        for name, (entry, build) in places.items()
    ]


def problems(result: dict[str, Any], case: Case) -> list[str]:
    """What a result says that the case did not expect."""
    found = []
    state = result["execution"]["status"]
    code = result["errors"][0]["code"] if result["errors"] else ""
    if (state, code) != case.ends:
        errors = "; ".join(str(error.get("message")) for error in result["errors"])
        found.append(f"{state} {code} instead of {' '.join(case.ends)} ({errors})")
    if case.created and case.created not in json.dumps(_created(result)):
        found.append(f"EXERCISE did not create {case.created}: the receipt of what was sent is missing")
    return found


def _created(result: dict[str, Any]) -> list[Any]:
    items = result["observations"]["items"]
    return [o["detail"] for o in items if o["phase"] == "EXERCISE" and o["type"] == "filesystem.created"]


def run(case: Case, out: Path) -> list[str]:
    """Run one review below `out`; what was wrong."""
    place = out / case.name
    place.mkdir(parents=True)
    if case.folder is not None:
        shutil.copytree(case.folder, place / "target", symlinks=True)
    (place / "request.json").write_text(json.dumps(case.request), encoding="utf-8")
    argv = [str(FUMEHOOD), "review", "run", str(place / "request.json"), "--out", str(place / "result")]
    done = subprocess.run(argv, env={**os.environ, **case.environment}, capture_output=True, text=True, check=False)
    file = place / "result/result.json"
    if not file.is_file():
        return [f"no result, exit status {done.returncode}: {done.stderr.strip()[-500:]}"]
    found = problems(json.loads(file.read_text(encoding="utf-8")), case)
    valid = subprocess.run([FUMEHOOD, "review", "validate", file], capture_output=True, text=True, check=False)
    if valid.returncode:
        found.append(f"the result does not fit its schema: {(valid.stdout + valid.stderr).strip()[-500:]}")
    return found


def main() -> int:
    """Run every case, or those that were named; 1 when one of them was wrong."""
    parser = argparse.ArgumentParser(description="Review what this repository controls, and itself.")
    parser.add_argument("--out", type=Path, help="a new folder for requests and results")
    parser.add_argument("names", nargs="*", help="only these cases")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="self-review-"))
    sys.path.insert(0, str(ROOT / "tests"))
    from loopback.forge import LoopbackForge  # noqa: PLC0415 - found by the line above only

    wrong = 0
    with LoopbackForge(out / "forge") as forge:
        commit = forge.clone(REPOSITORY, ROOT)
        for case in [*folder_cases(), *commit_cases(forge.url, commit)]:
            if given.names and case.name not in given.names:
                continue
            found = run(case, out)
            wrong += bool(found)
            print(
                f"{'WRONG' if found else 'ok'}  {case.name}  {' '.join(case.ends)}", *found, sep="\n      ", flush=True
            )
    shutil.rmtree(out / "forge")
    print(f"results below {out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
