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
from fumehood.core.settings import Settings
from fumehood.observe.model import CollectorState, Kind
from fumehood.review import operator, request, source
from fumehood.review.folder import OutputFolder
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.review.result import ReviewResult
from fumehood.review.run import Job, review
from fumehood.review.source import Wishes
from fumehood.review.states import State
from fumehood.sandbox import probe
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Probe

pytestmark = pytest.mark.sandbox
NOBODY = Remote.parse("http://127.0.0.1:9/")  # the fixtures here have no dependencies: nobody is asked
Review = Callable[..., ReviewResult]


@pytest.fixture(scope="module")
def host() -> Iterator[HostFacts]:
    """What this host has, with run folders of this module's own."""
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield probe.with_digests(probe.probe_host({}, quick=True, run_root=Path(name) / "runs"))


@pytest.fixture
def review_on(server_folder: Callable[[str], Path], tmp_path: Path) -> Review:
    """Review a fixture server, as a folder, on a host with these facts."""

    def run(host: HostFacts, name: str, **wishes: Any) -> ReviewResult:
        folder = server_folder(name)
        named = source.parse(f"dir:{folder}")
        made = source.request(named, Wishes(entrypoint="server.js", question="What does it do?", **wishes))
        return made_on(host, request.convert(made), folder, tmp_path)

    return run


def made_on(host: HostFacts, asked: request.ReviewRequest, beside: Path, place: Path) -> ReviewResult:
    job = Job(
        request=asked,
        beside=beside,
        host=host,
        settings=Settings(),
        sources=Sources(registry=NOBODY, forge=NOBODY, ca_file=None),
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
    written = [row.detail["path"] for row in lesser.observations.items if row.type is Kind.FILE_CREATED]
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
