"""Hosts that lack a part: the review says what it could not see, or why it cannot be made at all."""

import asyncio
import dataclasses
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import Settings
from fumehood.observe.layers import UNREAD
from fumehood.observe.model import CollectorState, Kind
from fumehood.review import operator, request, source
from fumehood.review.folder import OutputFolder
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.review.result import ReviewResult
from fumehood.review.run import Job, review
from fumehood.review.source import Wishes
from fumehood.review.states import State
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Probe
from fumehood.sandbox.probe import host as probe
from loopback.forge import LoopbackForge
from loopback.packages import Package, from_folder
from loopback.registry import LoopbackRegistry
from loopback.repositories import Made

pytestmark = pytest.mark.sandbox
NOBODY = Remote.parse("http://127.0.0.1:9/")  # the fixtures here have no dependencies: nobody is asked
Review = Callable[..., ReviewResult]
RUN = frozenset({"process", "at_seconds"})  # members that each run has its own of
WRITTEN = frozenset({Kind.FILE_CREATED, Kind.FILE_CHANGED})


@pytest.fixture(scope="module")
def host() -> Iterator[HostFacts]:
    """What this host has, with run folders of this module's own."""
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield probe.with_digests(probe.probe_host({}, quick=True, run_root=Path(name) / "runs"))


@pytest.fixture
def review_on(server_folder: Callable[[str], Path], tmp_path: Path) -> Review:
    """Review a fixture server, or another folder, on a host with these facts."""

    def run(host: HostFacts, name: str | Path, **wishes: Any) -> ReviewResult:
        folder = server_folder(name) if isinstance(name, str) else name
        named = source.parse(f"dir:{folder}")
        made = source.request(named, Wishes(entrypoint="server.js", question="What does it do?", **wishes))
        return made_on(host, request.convert(made), folder, tmp_path)

    return run


def made_on(
    host: HostFacts, asked: request.ReviewRequest, beside: Path, place: Path, remote: Remote = NOBODY
) -> ReviewResult:
    job = Job(
        request=asked,
        beside=beside,
        host=host,
        settings=Settings(),
        sources=Sources(registry=remote, forge=remote, ca_file=None),
        clock=SystemClock(),
        chance=random.Random(7),
        progress=lambda _: None,
    )
    with OutputFolder(Path(tempfile.mkdtemp(dir=place))) as folder:
        return asyncio.run(review(job, folder))


def without(host: HostFacts, *names: str) -> HostFacts:
    """The same host without some programs, as the probe tells it."""
    gone = tuple(Probe(name=name, ok=False, detail=f"{name}: gone for a test") for name in names)
    tools = {name: tool for name, tool in host.tools.items() if name not in names}
    return dataclasses.replace(host, tools=tools, probes=(*host.probes, *gone))


def collectors(result: ReviewResult, name: str) -> dict[str, CollectorState]:
    return {str(c.phase): c.state for c in result.collectors if c.name == name}


@pytest.mark.threat("R12")
def test_a_host_without_strace_is_reviewed_and_each_phase_says_that_nothing_was_traced(
    host: HostFacts, review_on: Review
) -> None:
    lesser = review_on(without(host, "strace"), "hook-writer")
    assert lesser.execution.status is State.COMPLETED
    states = collectors(lesser, "strace")
    assert {"FETCH", "INSTALL", "EXERCISE"} <= set(states)
    assert set(states.values()) == {CollectorState.UNAVAILABLE}
    assert all("gone for a test" in c.why for c in lesser.collectors if c.name == "strace")
    assert any("strace" in text and "gone for a test" in text for text in lesser.limitations)
    assert {step.trace for step in lesser.execution.steps} == {None}
    assert lesser.coverage.hooks_run is None  # not 0: nobody looked
    written = [row.detail["path"] for row in lesser.observations.items if row.type in WRITTEN]
    assert any(str(path).endswith(".ssh/authorized_keys") for path in written)  # the layer has it all the same


def test_control_with_strace_the_same_review_is_traced(host: HostFacts, review_on: Review) -> None:
    whole = review_on(host, "hook-writer")
    assert CollectorState.UNAVAILABLE not in collectors(whole, "strace").values()
    assert not any("strace" in text for text in whole.limitations)
    assert whole.coverage.hooks_run == 1


@pytest.mark.threat("R12")
def test_a_host_without_nft_says_what_its_listeners_do_not_catch(host: HostFacts, review_on: Review) -> None:
    lesser = review_on(without(host, "nft"), "hook-writer", network="OPEN")
    assert lesser.execution.status is State.COMPLETED
    egress = {str(c.phase): c for c in lesser.collectors if c.name == "egress"}
    assert egress["INSTALL"].state is CollectorState.DEGRADED
    assert "nft" in egress["INSTALL"].why
    whole = review_on(host, "hook-writer", network="OPEN")
    assert "nft" not in next(c.why for c in whole.collectors if c.name == "egress" and c.phase == "INSTALL")


@pytest.mark.threat("R10")
def test_a_host_without_cgroups_says_how_memory_was_bounded_instead(host: HostFacts, review_on: Review) -> None:
    facts = CgroupFacts(version=None, roots={}, why="/sys/fs/cgroup: gone for a test")
    lesser = review_on(dataclasses.replace(host, cgroups=facts), "safe")
    assert lesser.execution.status is State.COMPLETED
    for record in lesser.containment:
        memory = next(wall for wall in record.walls if wall.name == "memory")
        assert "RLIMIT_DATA" in memory.how
        assert "poll" in memory.how
        assert "gone for a test" in memory.why


def test_a_host_without_git_refuses_a_git_target_and_names_the_package(host: HostFacts, tmp_path: Path) -> None:
    named = source.parse("github:owner/server@" + "0123456789" * 4)
    asked = request.convert(source.request(named, Wishes(entrypoint="server.js", question="What does it do?")))
    with pytest.raises(UnsupportedError, match="install the package git"):
        made_on(without(host, "git"), asked, tmp_path, tmp_path)


def test_a_host_without_git_reviews_a_folder(host: HostFacts, review_on: Review) -> None:
    assert review_on(without(host, "git"), "safe").execution.status is State.COMPLETED


def test_a_host_without_node_cannot_review_and_names_the_extra(
    host: HostFacts, review_on: Review, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=r"fumehood\[review\]"):
        review_on(without(host, "node"), "safe")
    with pytest.raises(UnsupportedError, match=r"fumehood\[review\]"):  # npm would be asked for its registry
        operator.sources(Settings(), without(host, "node"), {"HOME": str(tmp_path)})


def test_a_program_that_the_operator_named_is_used_and_the_result_says_so(host: HostFacts, review_on: Review) -> None:
    chosen = {name: host.tools[name].path for name in ("bwrap", "node", "setpriv", "strace")}
    facts = probe.with_digests(probe.probe_host(chosen, quick=True, run_root=host.run_root))
    result = review_on(facts, "safe")
    assert result.execution.status is State.COMPLETED
    origins = {tool.name: (tool.path, tool.origin) for tool in result.environment.tools}
    assert {name: origins[name] for name in chosen} == {name: (str(path), "operator") for name, path in chosen.items()}
    assert all(tool.sha256 for tool in result.environment.tools)


def facts(result: ReviewResult) -> set[str]:
    """What layers or snapshots say of the file system, without which of the two said it, and who."""
    rows = [row for row in result.observations.items if row.collector in {"layer", "snapshot"}]
    return {repr((row.phase, row.type, {k: v for k, v in row.detail.items() if k not in RUN})) for row in rows}


@pytest.mark.threat("R4")
@pytest.mark.parametrize("name", ["hook-writer", "link-swapping"])
def test_copies_tell_the_same_facts_as_overlays(host: HostFacts, review_on: Review, name: str) -> None:
    by_layers = review_on(host, name)
    by_copies = review_on(dataclasses.replace(host, no_overlay="gone for a test"), name)
    assert by_copies.execution.status is by_layers.execution.status
    assert facts(by_copies) == facts(by_layers) != set()
    assert {str(c.phase) for c in by_copies.collectors if c.name == "layer"} == set()
    assert collectors(by_copies, "snapshot") == collectors(by_layers, "layer")
    assert any("gone for a test" in text for text in by_copies.limitations)
    assert not any("overlay" in text for text in by_layers.limitations)


HOOK = """
cd "$HOME"
mkfifo fifo
mknod forged c 0 0 2>/dev/null
ln -s / out; ln -s ../../../../etc up; ln -s nowhere loose
mkdir -p deep/$(printf 'd/%.0s' $(seq 100)) locked/inner remade/sub swapped both
echo hidden > locked/inner/hidden
echo one > remade/sub/one; echo two > remade/two; echo three > swapped/three; echo four > gone; echo five > kept
ln kept both/second
truncate -s 40M holes
printf 'odd' > "$(printf 'new\\nline \\033[31m')"
chmod 4755 kept; chmod 0 locked/inner/hidden locked/inner locked
"""
# Says what it finds, then changes it: deletes, remakes, swaps kinds, follows nothing.
SERVER = """
const fs = require("node:fs"), path = require("node:path"), home = require("node:os").homedir();
const seen = [];
const look = (folder) => {
  for (const name of fs.readdirSync(folder).sort()) {
    const file = path.join(folder, name), s = fs.lstatSync(file);
    if (name === ".npm" || s.isFIFO() || s.isCharacterDevice()) continue;
    const link = s.isSymbolicLink() ? fs.readlinkSync(file) : "";
    const mode = s.mode.toString(8), mine = s.uid === process.getuid();
    seen.push([file, mode, s.isFile() ? s.size : 0, link, mine].join(" "));
    if (s.isDirectory()) { fs.chmodSync(file, 0o700); look(file); fs.chmodSync(file, s.mode & 0o7777); }
  }
};
look(home);
process.chdir(home);
fs.writeFileSync("seen.txt", seen.join("\\n"));
fs.rmSync("gone");
fs.rmSync("remade", { recursive: true }); fs.mkdirSync("remade"); fs.writeFileSync("remade/two", "two\\n");
fs.rmSync("swapped", { recursive: true }); fs.writeFileSync("swapped", "a file");
fs.rmSync("out"); fs.mkdirSync("out"); fs.writeFileSync("out/inside", "x");
fs.appendFileSync("both/second", "more");
fs.chmodSync("locked", 0o700); fs.chmodSync("locked/inner", 0o700); fs.chmodSync("locked/inner/hidden", 0o600);
fs.writeFileSync("locked/inner/hidden", "changed");
fs.chmodSync("locked/inner", 0); fs.chmodSync("locked", 0);
require("./answer.js");
"""


@pytest.fixture
def hostile(server_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A server whose hook leaves what is hard to copy, and which says what came of it."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        (folder / name).write_bytes((server_folder("hook-writer") / name).read_bytes())
    manifest = (folder / "package.json").read_text().replace("node hook.js", "sh hook.sh")
    (folder / "package.json").write_text(manifest)
    (folder / "hook.sh").write_text(HOOK)
    (folder / "server.js").write_text(SERVER)
    (folder / "answer.js").write_bytes((server_folder("hook-writer") / "server.js").read_bytes())
    return folder


@pytest.mark.threat("R4")
@pytest.mark.threat("R8")
def test_a_hostile_tree_reaches_the_next_step_and_tells_the_same_facts_either_way(
    host: HostFacts, review_on: Review, hostile: Path
) -> None:
    by_layers = review_on(host, hostile)
    by_copies = review_on(dataclasses.replace(host, no_overlay="gone for a test"), hostile)
    for result in (by_layers, by_copies):
        assert result.execution.status is State.COMPLETED, result.errors
    forged = {fact for fact in facts(by_copies) if "/forged'" in fact}
    assert forged  # Linux 5.8 lets anybody make it
    assert all("'other'" in fact for fact in forged)  # an overlay refuses it; on a plain folder it is no whiteout
    doubted = {fact for fact in facts(by_copies) if "/holes'" in fact and "EXERCISE" in fact}
    assert all(UNREAD in fact for fact in doubted)  # too much of it is holes: nobody reads it, and doubt is shown
    assert facts(by_copies) - forged - doubted == facts(by_layers)
    said = [row for row in by_copies.observations.items if str(row.detail.get("path")).endswith("/seen.txt")]
    assert said[0].detail["sha256"]  # one fact of both: EXERCISE saw the same tree, modes and links included
    gone = [
        row for row in by_copies.observations.items if row.type is Kind.FILE_DELETED and row.collector == "snapshot"
    ]
    deleted = {str(row.detail["path"]).rpartition("/")[2] for row in gone}
    assert {"gone", "sub"} <= deleted
    assert "fifo" not in deleted  # it was left out, not deleted by the server
    assert any("exercise: of the tree before, the copy has not other: " in text for text in by_copies.limitations)


@pytest.mark.threat("R4")
def test_a_git_target_that_is_built_tells_the_same_facts_on_copies(
    host: HostFacts, forge: LoopbackForge, server_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    files = {path.name: path.read_bytes() for path in server_folder("build-required").iterdir()}
    commit = forge.serve("owner/server", Made.ordinary(tmp_path / "made", files))
    wishes = Wishes(entrypoint="dist/index.js", prepare="npm_build", question="What does it do?")
    asked = request.convert(source.request(source.parse(f"github:owner/server@{commit}"), wishes))
    lesser = dataclasses.replace(host, no_overlay="gone for a test")
    by_layers, by_copies = (made_on(one, asked, tmp_path, tmp_path, Remote.parse(forge.url)) for one in (host, lesser))
    assert by_layers.execution.status is by_copies.execution.status is State.COMPLETED, by_copies.errors
    assert [step.name for step in by_copies.execution.steps] == ["clone", "fetch", "install", "build", "exercise"]
    assert facts(by_copies) == facts(by_layers) != set()


@pytest.mark.threat("R4")
def test_an_npm_target_tells_the_same_facts_on_copies(
    host: HostFacts, registry: LoopbackRegistry, server_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    made = from_folder(server_folder("hook-writer"))
    registry.publish(Package(manifest={**made.manifest, "name": "writer", "private": False}, files=made.files))
    asked = request.convert(source.request(source.parse("npm:writer@1.0.0"), Wishes(question="What does it do?")))
    lesser = dataclasses.replace(host, no_overlay="gone for a test")
    remote = Remote.parse(registry.url)
    by_layers, by_copies = (made_on(one, asked, tmp_path, tmp_path, remote) for one in (host, lesser))
    assert by_layers.execution.status is by_copies.execution.status is State.COMPLETED, by_copies.errors
    assert [step.name for step in by_copies.execution.steps] == ["lock", "fetch", "install", "exercise"]
    assert facts(by_copies) == facts(by_layers) != set()
