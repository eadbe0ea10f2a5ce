"""A start that is told to stop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tailrace.clock import ManualClock
from tailrace.net.background import in_thread
from tailrace.runtime.start import ABANDON_MS, cancelled_by


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.said = asyncio.Event()

    def info(self, line: str) -> None:
        self.lines.append(line)
        self.said.set()

    warning = info


def a_log() -> Any:
    return Log()


async def test_a_start_that_waits_for_ever_ends_with_the_first_stop() -> None:
    stop, waiting, log = asyncio.Event(), asyncio.Event(), a_log()

    async def start() -> None:
        async with cancelled_by(stop, ManualClock(), log, None):
            waiting.set()
            await asyncio.get_running_loop().create_future()

    starting = asyncio.create_task(start())
    await waiting.wait()
    stop.set()
    await starting
    assert log.lines == ["stopping before it is open"]


async def test_what_is_open_is_not_cancelled_but_closes_in_its_own_time() -> None:
    stop, log = asyncio.Event(), a_log()
    async with cancelled_by(stop, ManualClock(), log, None) as opened:
        opened.set()
        stop.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert log.lines == []


async def test_a_start_that_hangs_in_its_cancellation_is_abandoned() -> None:
    stop, waiting, log, clock = asyncio.Event(), asyncio.Event(), a_log(), ManualClock()
    abandoned: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    disk = threading.Event()

    async def start() -> None:
        async with cancelled_by(stop, clock, log, abandoned.set_result):
            waiting.set()
            await in_thread(disk.wait)

    starting = asyncio.create_task(start())
    await waiting.wait()
    stop.set()
    await log.said.wait()
    await asyncio.sleep(0)
    clock.advance(ABANDON_MS)
    assert await abandoned == 0
    assert not starting.done()
    disk.set()
    await starting


async def test_a_timeout_of_the_start_itself_is_an_error_as_ever() -> None:
    with pytest.raises(TimeoutError, match="of its own"):
        async with cancelled_by(asyncio.Event(), ManualClock(), a_log(), None):
            raise TimeoutError("of its own")


async def test_a_thread_that_nobody_waits_for_any_more_is_waited_for() -> None:
    begun, disk = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        disk.wait()

    running = asyncio.create_task(in_thread(work))
    await begun.wait()
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    disk.set()
    with pytest.raises(asyncio.CancelledError):
        await running
