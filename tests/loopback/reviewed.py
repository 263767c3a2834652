"""One review by the command, against peers on loopback, and how it ended."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fumehood.review import result as published
from fumehood.wire import schema

REVIEW_SECONDS = 300.0  # of a test that hangs; none waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """How one review ended."""

    status: int
    result: dict[str, Any]

    @property
    def state(self) -> str:
        return str(self.result["execution"]["status"])

    @property
    def code(self) -> str:
        return str(self.result["errors"][0]["code"]) if self.result["errors"] else ""

    @property
    def steps(self) -> list[str]:
        return [step["name"] for step in self.result["execution"]["steps"]]


ReviewRequest = Callable[[Mapping[str, Any], Mapping[str, str]], Reviewed]


def review(request: Mapping[str, Any], environment: Mapping[str, str], folder: Path) -> Reviewed:
    """Run `fumehood review run` on a request, with settings in the environment; `folder` takes request and result."""
    (folder / "request.json").write_text(json.dumps(dict(request)))
    out = folder / "result"
    argv = [sys.executable, "-m", "fumehood", "review", "run", str(folder / "request.json"), "--out", str(out)]
    everything = {**os.environ, **environment}
    done = subprocess.run(argv, env=everything, capture_output=True, text=True, timeout=REVIEW_SECONDS, check=False)
    assert (out / "result.json").is_file(), done.stderr
    result = json.loads((out / "result.json").read_text())
    assert schema.problems(published.schema(), result) == []
    return Reviewed(status=done.returncode, result=result)
