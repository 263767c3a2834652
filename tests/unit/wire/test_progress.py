"""Reports of progress: in order, bounded, and none after the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.wire.progress import Progress


def reported(work: Callable[[Progress], Awaitable[None]]) -> list[Any]:
    sent: list[Any] = []

    async def send(report: Any) -> None:
        await asyncio.sleep(0)
        sent.append(report)

    async def run() -> None:
        await work(Progress(send))
        await asyncio.sleep(0)

    asyncio.run(run())
    return sent


def test_reports_go_out_in_order_and_what_waits_goes_before_the_end() -> None:
    async def work(progress: Progress) -> None:
        for number in range(5):
            progress({"progress": number, "total": 9, "message": "m", "other": 1})
        await progress.close()
        progress({"progress": 99})

    assert reported(work) == [{"progress": n, "total": 9, "message": "m"} for n in range(5)]


@pytest.mark.threat("G15")
def test_of_many_only_the_newest_is_kept() -> None:
    async def work(progress: Progress) -> None:
        for number in range(10_000):
            progress({"progress": number})
        await progress.close()

    sent = reported(work)
    assert len(sent) == limits.PROGRESS_BURST
    assert sent[-1] == {"progress": 9_999}


@pytest.mark.threat("G15")
def test_a_slow_stream_of_reports_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRESS_SECONDS", 1000.0)
    monkeypatch.setattr(limits, "PROGRESS_BURST", 2)

    async def work(progress: Progress) -> None:
        for number in range(6):
            progress({"progress": number})
            for _ in range(20):
                await asyncio.sleep(0)
        progress.stop()

    assert reported(work) == [{"progress": 0}, {"progress": 1}]


@pytest.mark.parametrize(
    "values", [{}, {"progress": True}, {"progress": "1"}, {"progress": float("nan")}, {"progress": float("inf")}]
)
def test_what_is_no_report_is_dropped(values: Any) -> None:
    async def work(progress: Progress) -> None:
        progress(values)
        progress({"progress": 2, "total": "many", "message": 3})
        progress({"progress": 2})
        progress({"progress": 1})
        await progress.close()

    assert reported(work) == [{"progress": 2}]
