"""A runner starts only after a self test that held, of what is here now."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fumehood.code import attest
from fumehood.code.attest import Seal, SelfTestError, Wanted
from fumehood.code.child.deno import Parts
from fumehood.code.run import Ground
from fumehood.code.trials import Kind, Outcome, Report, Tried
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Tool
from fumehood.sandbox.spec import Route


@dataclass
class Time:
    """A clock that is set by hand."""

    at: datetime = datetime(2026, 11, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return self.at


@dataclass
class Trying:
    """Stands for the self test: counts, and says what it is told to say."""

    outcomes: dict[str, Outcome] = field(default_factory=lambda: {"fetch": Outcome.HELD})
    times: int = 0
    during: Callable[[], object] = lambda: None

    async def __call__(self, ground: Ground, sha256: str, progress: Callable[[Tried], None]) -> Report:
        self.times += 1
        self.during()
        trials = tuple(
            Tried(name=name, kind=Kind.LEAK, outcome=outcome, with_walls="user_error")
            for name, outcome in self.outcomes.items()
        )
        for one in trials:
            progress(one)
        held = all(one is Outcome.HELD for one in self.outcomes.values())
        return Report(ok=held, deno=str(ground.parts.deno), deno_sha256=sha256, trials=trials)


@pytest.fixture
def trying(monkeypatch: pytest.MonkeyPatch) -> Trying:
    fake = Trying()
    monkeypatch.setattr(attest, "selftest", fake)
    return fake


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    files = {name: tmp_path / name for name in ("deno", "libc.so.6", "bwrap", "setpriv")}
    for name, path in files.items():
        path.write_text(name)
    tools = {
        name: Tool(name=name, path=files[name], version="1", sha256="", origin="system")
        for name in ("bwrap", "setpriv")
    }
    return Ground(
        host=HostFacts(
            system="Linux",
            machine="x86_64",
            kernel="6.18",
            uid=0,
            routes=(Route.USER,),
            tools=tools,
            cgroups=CgroupFacts(version=1, roots={"memory": Path("/m")}),
            landlock_abi=7,
            run_root=tmp_path,
            probes=(),
        ),
        parts=Parts(
            deno=files["deno"],
            libraries={"libc.so.6": files["libc.so.6"]},
            harness=b"harness",
            import_map=b"{}",
            programs={},
        ),
    )


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def wanted(tmp_path: Path, said: list[str]) -> Wanted:
    file = attest.file({"XDG_STATE_HOME": str(tmp_path / "state")})
    return Wanted(file=file, clock=Time(), progress=lambda _: None, say=said.append)


def start(ground: Ground, wanted: Wanted) -> str:
    return asyncio.run(attest.require(ground, wanted))


def test_the_first_start_tries_and_the_next_remembers(
    ground: Ground, wanted: Wanted, trying: Trying, said: list[str]
) -> None:
    assert "1 trials held" in start(ground, wanted)
    assert said == ["the self test is run first; no earlier one counts: there is none"]
    assert "passed at 2026-11-01T00:00:00Z" in start(ground, wanted)
    assert trying.times == 1


def another_deno(ground: Ground) -> Ground:
    ground.parts.deno.write_text("another")
    return ground


def another_library(ground: Ground) -> Ground:
    ground.parts.libraries["libc.so.6"].write_text("another")
    return ground


def one_more_library(ground: Ground) -> Ground:
    libraries = {**ground.parts.libraries, "libm.so.6": ground.parts.libraries["libc.so.6"]}
    return replace(ground, parts=replace(ground.parts, libraries=libraries))


def another_bwrap(ground: Ground) -> Ground:
    ground.host.tools["bwrap"].path.write_text("another")
    return ground


def another_harness(ground: Ground) -> Ground:
    return replace(ground, parts=replace(ground.parts, harness=b"another"))


def another_map(ground: Ground) -> Ground:
    return replace(ground, parts=replace(ground.parts, import_map=b"[]"))


def another_kernel(ground: Ground) -> Ground:
    return replace(ground, host=replace(ground.host, kernel="6.19"))


def another_route(ground: Ground) -> Ground:
    return replace(ground, host=replace(ground.host, routes=(Route.DROPPED,)))


def no_cgroup(ground: Ground) -> Ground:
    return replace(ground, host=replace(ground.host, cgroups=CgroupFacts(version=None, roots={}, why="no")))


def no_setpriv(ground: Ground) -> Ground:
    return replace(ground, host=replace(ground.host, tools={"bwrap": ground.host.tools["bwrap"]}))


@pytest.mark.threat("C8")
@pytest.mark.parametrize(
    "change",
    [
        no_setpriv,
        another_deno,
        another_library,
        one_more_library,
        another_bwrap,
        another_harness,
        another_map,
        another_kernel,
        another_route,
        no_cgroup,
    ],
    ids=lambda change: change.__name__,
)
def test_what_changed_is_tried_again(
    ground: Ground, wanted: Wanted, trying: Trying, said: list[str], change: Callable[[Ground], Ground]
) -> None:
    start(ground, wanted)
    start(change(ground), wanted)
    assert trying.times == 2
    assert said[-1].endswith("has changed")


def test_an_old_record_and_one_of_the_future_are_tried_again(ground: Ground, wanted: Wanted, trying: Trying) -> None:
    start(ground, wanted)
    for days in (-1, 31):
        start(ground, replace(wanted, clock=Time(Time().at + timedelta(days=days))))
    assert trying.times == 3


@pytest.mark.threat("C8")
def test_a_failure_refuses_the_start_names_the_trials_and_is_forgotten(
    ground: Ground, wanted: Wanted, trying: Trying
) -> None:
    start(ground, wanted)
    assert wanted.file is not None
    assert wanted.file.exists()
    another_deno(ground)
    trying.outcomes = {"fetch": Outcome.NOT_HELD, "write": Outcome.NOT_PROVEN, "computes": Outcome.HELD}
    with pytest.raises(SelfTestError, match=r"failed: fetch \(not held\), write \(not proven\)") as caught:
        start(ground, wanted)
    assert caught.value.exit_status == 3
    assert not wanted.file.exists()
    ground.parts.deno.write_text("deno")  # as it was: what failed meanwhile is not forgiven
    with pytest.raises(SelfTestError):
        start(ground, wanted)
    assert trying.times == 3


def test_many_failures_are_counted(ground: Ground, wanted: Wanted, trying: Trying) -> None:
    trying.outcomes = {f"t{number}": Outcome.NOT_HELD for number in range(12)}
    with pytest.raises(SelfTestError, match=r"t7 .* and 4 more"):
        start(ground, wanted)


@pytest.mark.parametrize("content", [b"", b"{", b'{"ok": true}', b"\xff" * 20_000])
def test_a_file_that_is_no_record_counts_as_none(
    ground: Ground, wanted: Wanted, trying: Trying, content: bytes
) -> None:
    start(ground, wanted)
    assert wanted.file is not None
    wanted.file.write_bytes(content)
    start(ground, wanted)
    assert trying.times == 2
    start(ground, wanted)
    assert trying.times == 2


@pytest.mark.threat("C8")
def test_a_record_that_others_may_write_counts_as_none(ground: Ground, wanted: Wanted, trying: Trying) -> None:
    start(ground, wanted)
    assert wanted.file is not None
    wanted.file.chmod(0o666)
    start(ground, wanted)
    assert trying.times == 2


def test_where_nothing_can_be_kept_every_start_tries_and_says_so(
    ground: Ground, wanted: Wanted, trying: Trying, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("in the way")
    for file in (wanted.file, None):
        start(ground, replace(wanted, file=file))
        assert "run at every start" in said[-1]
    assert trying.times == 2


def test_a_deno_that_is_replaced_while_it_is_tried_is_refused(ground: Ground, wanted: Wanted, trying: Trying) -> None:
    trying.during = lambda: another_deno(ground)
    with pytest.raises(SelfTestError, match="changed meanwhile"):
        start(ground, wanted)
    assert wanted.file is not None
    assert not wanted.file.exists()


def test_a_seal_breaks_when_a_file_is_replaced_changed_or_gone(ground: Ground) -> None:
    seal = Seal(ground)
    assert seal.broken() == ""
    ground.host.tools["bwrap"].path.unlink()
    assert seal.broken() == "bwrap"
    seal = Seal(ground)
    other = ground.parts.deno.with_name("new")
    other.write_text("deno")
    other.replace(ground.parts.deno)
    assert seal.broken() == "deno"
    seal = Seal(ground)
    another_library(ground)
    assert seal.broken() == "libc.so.6"
