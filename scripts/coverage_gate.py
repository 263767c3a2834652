"""Fail when a module's branch coverage is below its gate. Reads coverage's JSON report."""

import json
import sys
from pathlib import Path

GATE = 80.0
# Modules whose code runs in another process, where coverage does not look: the tests that hold them are named.
ELSEWHERE: dict[str, str] = {
    "sandbox/programs/hostprobe.py": "tests/unit/sandbox/test_checks.py, tests/escape/test_hosts.py",
    "sandbox/programs/listeners.py": "tests/escape/egress",
    "sandbox/programs/prove.py": "tests/unit/sandbox/test_prove_program.py, tests/escape/test_proof.py",
    "sandbox/programs/starter.py": "tests/escape/walls, tests/unit/sandbox/test_starter.py",
    "serve/symbols/child.py": "tests/unit/serve/symbols",
    "sandbox/programs/walled.py": "tests/unit/serve/test_standing.py",
}


def main(path: str) -> int:
    """Print the modules below the gate; 1 when there are any."""
    files = json.loads(Path(path).read_text(encoding="utf-8"))["files"]
    low = []
    for name, entry in sorted(files.items()):
        short = name.removeprefix("src/fumehood/")
        percent = entry["summary"]["percent_covered"]
        if short not in ELSEWHERE and percent < GATE:
            low.append(f"{short}: {percent:.0f} % of lines and branches, gate {GATE:.0f} %")
    print("\n".join(low) if low else f"coverage: {len(files)} modules, each at or above {GATE:.0f} %")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
