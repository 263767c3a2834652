"""A workspace as a server: what its process is given, how its start can fail, and that nothing is left of it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.errors import FumehoodError, HarnessError, RefusedError, TimedOutError
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.served import ServedFolder, argv, environment, served
from fumehood.sandbox import launch


def test_the_server_is_given_settings_and_homes_and_nothing_else() -> None:
    given = {"HOME": "/h", "XDG_CONFIG_HOME": "/x", "FUMEHOOD_LOG__LEVEL": "error", "TOKEN": "t", "PYTHONPATH": "/p"}
    assert environment(given) == {"HOME": "/h", "XDG_CONFIG_HOME": "/x", "FUMEHOOD_LOG__LEVEL": "error"}


def test_paths_are_made_absolute_for_a_server_that_starts_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = argv(ServedFolder(folder=Path("w"), settings_file=Path("s.toml"), environ={}))
    assert words[1:] == [
        *("-P", "-m", "fumehood", "--settings", str(tmp_path / "s.toml")),
        *("serve", "--audited-by-caller", "--workspace", str(tmp_path / "w")),
    ]
    assert "--settings" not in argv(ServedFolder(folder=Path("w"), environ={}))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[launch.Process]]:
    """Let another program be started in the server's place, with other bounds."""

    def instead(program: str, **bounds: float) -> list[launch.Process]:
        processes: list[launch.Process] = []
        spawn = launch.spawn
        for name, value in bounds.items():
            monkeypatch.setattr(limits, name, value)

        def other(argv: Any, **more: Any) -> launch.Process:
            del argv
            processes.append(spawn(["/bin/sh", "-c", program], **more))
            return processes[-1]

        monkeypatch.setattr(launch, "spawn", other)
        return processes

    return instead


async def come_and_go() -> None:
    async with served(ServedFolder(folder=Path("/nonexistent"), environ={}), lambda *_: None):
        pass


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        ("exit 2", RefusedError, "ended with 2"),
        ("exit 9", HarnessError, "ended with 9"),
        ("exec >&-; exec sleep 60", HarnessError, "did not come up"),
    ],
)
def test_a_server_that_does_not_come_up_ends_as_its_status_says(
    program: str, error: type[FumehoodError], words: str, started: Any
) -> None:
    processes = started(program, UPSTREAM_END_SECONDS=5.0 if "exit" in program else 0.01)
    with pytest.raises(error, match=words) as caught:
        asyncio.run(come_and_go())
    assert type(caught.value) is error
    assert [one.pidfd for one in processes] == [-1]  # reaped


def test_a_server_that_says_nothing_is_ended_at_the_deadline(started: Any) -> None:
    processes = started("exec sleep 60", START_SECONDS=0.01)
    with pytest.raises(TimedOutError):
        asyncio.run(come_and_go())
    assert processes[0].returncode is not None


@pytest.mark.sandbox
def test_one_that_is_killed_is_told_at_once_with_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[launch.Process] = []
    spawn = launch.spawn

    def kept(*words: Any, **more: Any) -> launch.Process:
        processes.append(spawn(*words, **more))
        return processes[-1]

    monkeypatch.setattr(launch, "spawn", kept)

    async def go() -> str:
        async with served(ServedFolder(folder=tmp_path, environ=os.environ), lambda *_: None) as server:
            assert server.introduction.server["name"] == "fumehood"
            waiting = asyncio.create_task(server.ask("tools/list", {}, seconds=60))
            await asyncio.sleep(0)
            processes[0].kill()
            await asyncio.gather(waiting, return_exceptions=True)
            with pytest.raises(UpstreamError, match="ended with -9"):
                await server.ask("tools/list", {}, seconds=60)
            return await server.lost()

    assert asyncio.run(go()) == "the server of the workspace ended with -9"
    assert processes[0].pidfd == -1
