"""What a target may use ends where it is said to end, in the state and with the code that the table names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Bench, Reviewed

pytestmark = pytest.mark.sandbox
Make = Callable[..., Path]
Find = Callable[[str], Reviewed]
MIB = 1024 * 1024
WRITES = """
const fs = require("node:fs");
fs.mkdirSync("many");
for (let file = 0; file < 64; file++) fs.writeFileSync(`many/${file}`, Buffer.alloc(1 << 20, file));
setInterval(() => {}, 1000);
"""
ALLOCATES = """
const kept = [];
setInterval(() => kept.push(Buffer.alloc(16 << 20, 1)), 1);
"""
SLEEPS = "setInterval(() => {}, 1000);\n"
TALKS = 'for (let line = 0; line < 20000; line++) process.stderr.write("a line of twenty bytes\\n");\n'


@pytest.mark.threat("R10")
def test_a_hook_that_writes_without_end_is_ended_by_the_layers_bound(bench: Bench, target: Make) -> None:
    bench.set("sandbox", layer_bytes=16 * MIB)
    review = bench.folder(target({"hook.js": WRITES}))
    assert review.ended == ("TARGET_FAILED", "layer_size")
    assert review.steps == ["fetch", "install"]


@pytest.mark.threat("R10")
def test_a_server_that_takes_memory_without_end_is_ended_by_its_bound(bench: Bench, target: Make) -> None:
    by_cgroup = "memory" in bench.host.cgroups.roots or bench.host.cgroups.version == 2
    # Without a cgroup the kernel refuses memory to each process (RLIMIT_DATA), where Node needs 512 MiB to start.
    bench.set("sandbox", memory_bytes=(256 if by_cgroup else 640) * MIB)
    review = bench.folder(target({"server.js": ALLOCATES}), timeout_seconds=60)
    state, code = review.ended
    assert state == "TARGET_FAILED"
    assert code in ({"memory"} if by_cgroup else {"memory", "exited"})


@pytest.mark.threat("R10")
def test_a_hook_that_sleeps_meets_the_limit_of_its_phase(bench: Bench, target: Make) -> None:
    bench.set("review", install_seconds=4.0)
    review = bench.folder(target({"hook.js": SLEEPS}))
    assert review.ended == ("TIMEOUT", "deadline")
    assert "install" in review.message
    assert "4 s" in review.message


@pytest.mark.long
@pytest.mark.threat("R10")
def test_a_build_that_sleeps_meets_the_limit_of_its_phase(bench: Bench, target: Make) -> None:
    bench.set("review", prepare_seconds=4.0)
    place = target({"build.js": SLEEPS}, scripts={"build": "node build.js"})
    review = bench.folder(place, prepare_profile="npm_build")
    assert review.ended == ("TIMEOUT", "deadline")
    assert review.result["provenance"]["preparation"] == {"profile": "npm_build", "status": "timeout"}


@pytest.mark.threat("R10")
def test_the_job_has_a_limit_that_outranks_its_phases(bench: Bench, target: Make) -> None:
    bench.set("review", job_seconds=5.0)
    review = bench.folder(target({"hook.js": SLEEPS}))
    assert review.ended == ("TIMEOUT", "job")
    assert review.steps[0] == "fetch"


@pytest.mark.threat("R6")
def test_a_silent_server_is_a_time_out(reviewed: Find) -> None:
    assert reviewed("silent").ended == ("TIMEOUT", "no_answer")
    assert reviewed("silent").steps == ["fetch", "install", "exercise"]


def test_output_beyond_the_capture_is_cut_and_counted(bench: Bench, target: Make) -> None:
    review = bench.folder(target({"hook.js": TALKS}))
    assert review.ended == ("COMPLETED", "")
    assert review.result["stop_condition_triggered"] is None
    (text,) = [d for d in review.details("output.text", "INSTALL") if d["dropped_bytes"]]
    assert text["text"].count("a line of twenty bytes\n") > 10_000
    assert text["bytes"] == 20_000 * 23 + text["bytes"] % 23  # what npm itself says about it comes on top
    assert review.result["coverage"]["bytes_captured"] >= 256 * 1024


def test_output_beyond_the_capture_stops_a_review_that_asks_for_it(bench: Bench, target: Make) -> None:
    talks = TALKS + SLEEPS
    review = bench.folder(target({"server.js": talks}), stop_conditions=["output_capture_limit"])
    assert review.ended == ("STOPPED", "output_capture_limit")
    assert review.result["stop_condition_triggered"] == "output_capture_limit"
    assert review.steps == ["fetch", "install", "exercise"]


def test_output_after_the_answer_stops_a_review_that_asks_for_it(bench: Bench, target: Make, safe: str) -> None:
    talks = safe + f"setTimeout(() => {{ {TALKS} }}, 300);\n"
    review = bench.folder(target({"server.js": talks}), stop_conditions=["output_capture_limit"], linger_seconds=20)
    assert review.ended == ("STOPPED", "output_capture_limit")
    assert review.details("protocol.fact")[0]["fact"] == "initialized"
