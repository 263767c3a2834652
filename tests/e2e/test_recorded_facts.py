"""What a target does is in the result: the fact, in the right phase, from the right collector, and nothing invented."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Bench, Command, Reviewed, request_for

pytestmark = pytest.mark.sandbox
Find = Callable[[str], Reviewed]
Make = Callable[..., Path]

LARGEST = 80 * 1024 * 1024  # an ordinary review peaks at 45 MiB; kept whole, the line alone would be 60 more
PEAK = """
import re, sys
from fumehood.cli.main import main
try:
    main()
finally:
    print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
"""


@pytest.mark.threat("R4")
def test_a_key_that_a_hook_plants_is_recorded_with_its_mode_and_its_writer(reviewed: Find) -> None:
    review = reviewed("hook-writer")
    created = {d["path"]: d for d in review.details("filesystem.created", "INSTALL", "layer")}
    key = created[f"{review.home}/.ssh/authorized_keys"]
    assert (key["mode"], key["kind"]) == ("0600", "file")
    assert created[f"{review.home}/.ssh"]["mode"] == "0700"
    programs = {d["process"]: d["argv"] for d in review.details("process.exec", "INSTALL") if d["outcome"] == "started"}
    assert programs[key["process"]] == ["node", "hook.js"]
    assert set(review.changes("INSTALL")) == {
        f"{review.home}/.ssh",
        f"{review.home}/.ssh/authorized_keys",
        f"{review.home}/planted-in-home.txt",
        f"{review.workspace}/hook-outcomes.json",
        "/tmp/planted-in-tmp.txt",
    }
    assert review.changes("EXERCISE") == {}


@pytest.mark.threat("R4")
def test_a_failed_exec_is_recorded_with_where_it_was_looked_for(reviewed: Find) -> None:
    failed = [d for d in reviewed("hook-writer").details("process.exec", "INSTALL") if d["outcome"] != "started"]
    (sudo,) = failed
    assert sudo["argv"] == ["sudo", "-n", "true"]
    assert sudo["outcome"] == "ENOENT"


@pytest.mark.threat("R4")
def test_a_write_that_a_wall_refused_is_recorded_as_refused(reviewed: Find) -> None:
    refused = reviewed("hook-writer").details("filesystem.refused", "INSTALL")
    assert [(d["path"], d["outcome"]) for d in refused] == [("/usr/share/planted-by-hook-writer.txt", "EROFS")]


def test_hooks_are_counted_as_declared_and_as_run(reviewed: Find) -> None:
    counted = {name: reviewed(name).result["coverage"] for name in ("hook-writer", "safe")}
    assert (counted["hook-writer"]["hooks_declared"], counted["hook-writer"]["hooks_run"]) == (1, 1)
    assert (counted["safe"]["hooks_declared"], counted["safe"]["hooks_run"]) == (0, 0)


@pytest.mark.threat("R5")
def test_a_child_that_outlives_its_parent_is_recorded_and_ended(reviewed: Find) -> None:
    review = reviewed("forking")
    started = {tuple(d["argv"][1:3]): d["process"] for d in review.details("process.exec", "EXERCISE")}
    late = started["late.js", "0.5"]
    (created,) = review.details("filesystem.created", "EXERCISE", "layer")
    assert (created["path"], created["process"]) == (f"{review.workspace}/late.json", late)
    ends = {d["process"]: d["status"] for d in review.details("process.exit", "EXERCISE")}
    assert ends[started["middle.js", "0.5"]] == 0


LEAVES = """
const { spawn } = require("node:child_process");
spawn(process.execPath, ["middle.js"], { detached: true, stdio: "ignore" }).unref();
"""
MIDDLE = """
const { spawn } = require("node:child_process");
spawn(process.execPath, ["late.js"], { detached: true, stdio: "ignore" }).unref();
"""
LATE = 'setTimeout(() => require("node:fs").writeFileSync("late.txt", "late"), 300); setInterval(() => {}, 1000);'


@pytest.mark.threat("R5")
def test_a_child_of_a_hook_is_watched_for_the_linger_and_ended_after_it(bench: Bench, target: Make) -> None:
    place = target({"hook.js": LEAVES, "middle.js": MIDDLE, "late.js": LATE})
    review = bench.folder(place, linger_seconds=3)
    assert review.ended == ("COMPLETED", "")
    assert review.changes("INSTALL") == {f"{review.workspace}/late.txt": "created"}
    late = next(d["process"] for d in review.details("process.exec", "INSTALL") if d["argv"][1:] == ["late.js"])
    ended = {d["process"]: d["signal"] for d in review.details("process.exit", "INSTALL")}
    assert ended[late] == "SIGKILL"
    assert review.rows("filesystem.created", "EXERCISE", "layer")[0]["detail"]["path"].endswith("received.jsonl")


@pytest.mark.threat("R4")
def test_what_slips_past_some_tracers_is_recorded_or_refused(reviewed: Find) -> None:
    review = reviewed("untraced")
    created = set(review.changes("EXERCISE"))
    folder = review.workspace
    assert {f"{folder}/raw-openat.txt", f"{folder}/static-wrote.txt"} <= created  # a raw call, and a static program
    assert f"{folder}/untraced-child.txt" not in created
    refused = {(d["call"], d["error"]): d for d in review.details("process.refused", "EXERCISE") if "usual" not in d}
    assert set(refused) == {("clone", "EPERM"), ("io_uring_setup", "ENOSYS")}
    assert "CLONE_UNTRACED" in refused["clone", "EPERM"]["arguments"]
    static = next(d for d in review.details("process.exec", "EXERCISE") if d["argv"] == ["./static-program"])
    writers = {d["path"]: d["process"] for d in review.details("filesystem.created", "EXERCISE", "layer")}
    assert writers[f"{folder}/static-wrote.txt"] == static["process"]


def test_an_ordinary_server_has_no_refused_call_that_is_not_nodes_own(reviewed: Find) -> None:
    assert [d for d in reviewed("safe").details("process.refused", "EXERCISE") if "usual" not in d] == []


def test_noise_on_stdout_is_counted_and_quoted(reviewed: Find) -> None:
    review = reviewed("noisy")
    (noise,) = review.details("protocol.noise")
    assert noise == {"lines": 3, "first": "=== noisy server 1.0.0 ==="}
    assert review.collector("protocol", "EXERCISE")["counts"]["noise_lines"] == 3
    assert reviewed("safe").rows("protocol.noise") == []


@pytest.mark.threat("R6")
def test_a_flood_of_notifications_is_counted_and_listed_in_part(reviewed: Find) -> None:
    review = reviewed("flooding")
    assert review.result["coverage"]["frames_received"] == 200_001
    assert len(review.rows("protocol.frame")) <= 500
    kinds = {(d["direction"], d["kind"]) for d in review.details("protocol.frame")}
    assert ("received", "response") in kinds  # the answer is not lost in the flood


@pytest.mark.threat("R6")
@pytest.mark.parametrize("name", ["huge-line", pytest.param("flooding", marks=pytest.mark.long)])
def test_a_peer_without_measure_costs_little_memory(
    server_folder: Callable[[str], Path], command: Command, name: str
) -> None:
    request = command.request(request_for({"kind": "dir", "path": name}))
    (command.place / name).symlink_to(server_folder(name))
    ran = command.run(request, program=("-c", PEAK))
    assert ran.result["coverage"]["frames_received"] >= 1
    assert int(ran.stderr.splitlines()[-1]) * 1024 < LARGEST


@pytest.mark.threat("R4")
def test_what_a_package_manager_does_at_start_is_in_exercise(reviewed: Find) -> None:
    review = reviewed("nested-install")
    npm = [
        d for d in review.details("process.exec", "EXERCISE") if "install" in d["argv"] and d["outcome"] == "started"
    ]
    assert npm
    assert "registry.example" in {d["name"] for d in review.details("network.dns", "EXERCISE")}
    assert review.rows("network.dns", "INSTALL") == []


ODD = {
    *("two\\nlines", "carriage\\rreturn", "\\x1b[2J\\x1b[31mred", "not-\\xff\\xfe-\\xc3("),
    *("-rf", " leading and trailing ", "zero\\u200bwidth", "\\u202etxt.exe"),
}


@pytest.mark.threat("R11")
def test_names_of_every_kind_are_recorded_and_inert(reviewed: Find) -> None:
    review = reviewed("odd-names")
    names = {path.rpartition("/odd/")[2] for path in review.changes("EXERCISE")}
    assert names >= ODD
    assert len(names) == 12
    active = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e<]")
    assert not [d["path"] for d in review.details("filesystem.created") if active.search(d["path"])]


LOUD = ("odd-names", "error-reply")


@pytest.mark.threat("R11")
@pytest.mark.parametrize("name", ["noisy", *(pytest.param(n, marks=pytest.mark.long) for n in LOUD)])
def test_no_escape_reaches_a_terminal(server_folder: Callable[[str], Path], command: Command, name: str) -> None:
    (command.place / name).symlink_to(server_folder(name))
    ran = command.run(command.request(request_for({"kind": "dir", "path": name})))
    for text in (ran.stdout, ran.stderr):
        assert not re.search(r"[^\n\x20-\x7e…]", text), text
    for file in sorted(ran.out.iterdir()):
        own = r"\u00b7\u00d7\u2026\u2190\u2192\u2212\u25cf" if file.suffix == ".html" else ""  # of the page's own words
        assert re.fullmatch(rf"[\n\x20-\x7e{own}]*", file.read_text(encoding="utf-8")), file.name
