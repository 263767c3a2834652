"""No program runs before the walls were tried, and none where they did not hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, Self

import pytest

from fumehood.code import attest
from fumehood.code.attest import SelfTestError
from fumehood.code.job import Job, JobResult, State
from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import CodeSettings, Settings
from fumehood.core.settings import SettingsError
from fumehood.gateway.codemode import place
from fumehood.gateway.codemode.place import Wanted

JOB = Job(code="return 1")
NOBODY: Any = None


class FakePool:
    """Implements what is asked of a `Pool`."""

    made: list[dict[str, int]]

    def __init__(self, ground: Any, **counts: int) -> None:
        del ground
        self.made.append(counts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.made.append({"closed": 1})

    async def run(self, job: Job, backend: Any) -> JobResult:
        del job, backend
        return JobResult(state=State.OK, ok=True, value="here")


class Seal:
    """A `Seal` whose files are what the test says."""

    replaced = ""

    def __init__(self, ground: Any) -> None:
        del ground

    def broken(self) -> str:
        return self.replaced


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a place is made of, with a self test that is passed when `passed` is set."""
    monkeypatch.setattr(FakePool, "made", [], raising=False)
    monkeypatch.setattr(Seal, "replaced", "")
    monkeypatch.setattr(place, "Pool", FakePool)
    monkeypatch.setattr(attest, "Seal", Seal)
    monkeypatch.setattr(attest, "facts", lambda _: None)
    said: list[str] = []
    return SimpleNamespace(said=said, changes=[], pool=FakePool, seal=Seal)


def wanted(scene: Any, require: Callable[..., Any], **code: Any) -> Wanted:
    trial = attest.Wanted(file=None, clock=SystemClock(), progress=lambda _: None, say=scene.said.append)
    return Wanted(
        settings=Settings(code=CodeSettings(**code)),
        trial=trial,
        changed=lambda: scene.changes.append(1),
        ground=lambda _: (SimpleNamespace(), None),  # type: ignore[arg-type,return-value]  # nobody looks into it
        require=require,
    )


async def passed(ground: Any, trial: Any) -> str:
    del ground, trial
    return "passed"


@contextlib.asynccontextmanager
async def there(found: Wanted) -> AsyncIterator[Any]:
    async with asyncio.timeout(20), place.opened(found) as made:
        yield made


def test_a_program_runs_in_a_pool_that_is_made_for_the_first(scene: Any) -> None:
    async def act() -> list[Any]:
        async with there(wanted(scene, passed, runs=3, warm=2)) as made:
            await asyncio.sleep(0)
            before = list(scene.pool.made)
            values = await asyncio.gather(*(made.run(JOB, NOBODY) for _ in range(3)))
            return [before, [one.value for one in values]]

    assert asyncio.run(act()) == [[], ["here"] * 3]
    assert scene.pool.made == [{"runs": 3, "warm": 2}, {"closed": 1}]
    assert (scene.said, scene.changes) == (["passed"], [])


@pytest.mark.threat("G20")
def test_a_program_waits_until_the_walls_were_tried(scene: Any) -> None:
    let = asyncio.Event()

    async def require(ground: Any, trial: Any) -> str:
        await let.wait()
        return await passed(ground, trial)

    async def act() -> bool:
        async with there(wanted(scene, require)) as made:
            running = asyncio.ensure_future(made.run(JOB, NOBODY))
            done, _ = await asyncio.wait([running], timeout=0.05)
            early = bool(done) or bool(scene.pool.made) or bool(made.unavailable)
            let.set()
            await running
            return early

    assert asyncio.run(act()) is False


@pytest.mark.threat("G20")
@pytest.mark.parametrize("error", [SelfTestError("the self test failed"), OSError(2, "the self test failed")])
def test_no_program_runs_where_the_walls_did_not_hold(scene: Any, error: Exception) -> None:
    async def require(ground: Any, trial: Any) -> str:
        del ground, trial
        raise error

    async def act() -> str:
        async with there(wanted(scene, require)) as made:
            with pytest.raises(UnsupportedError, match="the self test failed"):
                await made.run(JOB, NOBODY)
            return str(made.unavailable)

    assert asyncio.run(act()).startswith("the self test failed")
    assert scene.pool.made == []
    assert scene.changes == [1]
    assert "run_code is not offered: the self test failed" in scene.said[-1]


@pytest.mark.threat("G20")
def test_no_program_runs_once_what_was_tried_is_another(scene: Any) -> None:
    async def act() -> None:
        async with there(wanted(scene, passed)) as made:
            await made.run(JOB, NOBODY)
            scene.seal.replaced = "deno"
            with pytest.raises(UnsupportedError, match="deno was replaced"):
                await made.run(JOB, NOBODY)

    asyncio.run(act())


def test_a_gateway_that_ends_early_waits_for_no_self_test(scene: Any) -> None:
    async def require(ground: Any, trial: Any) -> str:
        await asyncio.Event().wait()
        raise AssertionError(ground, trial)

    async def act() -> None:
        async with there(wanted(scene, require)):
            await asyncio.sleep(0)

    asyncio.run(act())
    assert (scene.pool.made, scene.said, scene.changes) == ([], [], [])


def test_a_runner_without_a_token_stops_the_start(scene: Any) -> None:
    async def act() -> None:
        async with there(wanted(scene, passed, runner_url="ws://127.0.0.1:1")):
            pass

    with pytest.raises(SettingsError, match=r"code\.runner_token_file"):
        asyncio.run(act())


def test_with_a_runner_nothing_is_tried_or_run_here(scene: Any, tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 40)
    token.chmod(0o600)

    async def act() -> JobResult:
        found = wanted(scene, passed, runner_url="ws://127.0.0.1:1", runner_token_file=str(token))
        async with there(found) as made:
            assert made.unavailable == ""
            result = await made.run(JOB, NOBODY)
            assert isinstance(result, JobResult)
            return result

    assert asyncio.run(act()).state is State.RUNNER_UNAVAILABLE
    assert (scene.said, scene.pool.made) == ([], [])
