"""Work of a limited client is charged by the time that it holds the event loop, and not by what it waits for."""

import asyncio
from functools import partial

import pytest

from tailrace.net.quotas.work import TimedCoroutine, timed


class Loop:
    """A clock that work moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.charged: list[float] = []
        self.timed = partial(timed, self.charged.append, self.now_ms)

    def now_ms(self) -> float:
        return self.now

    def busy(self, ms: float) -> str:
        self.now += ms
        return "done"


def test_work_is_charged_its_time_also_when_it_fails() -> None:
    loop = Loop()
    assert timed(loop.charged.append, loop.now_ms, loop.busy, 5.0) == "done"

    def fails() -> None:
        loop.busy(7.0)
        raise ValueError

    with pytest.raises(ValueError):
        timed(loop.charged.append, loop.now_ms, fails)
    assert loop.charged == [5, 7]


def test_a_coroutine_is_charged_its_steps_alone() -> None:
    loop = Loop()

    async def answer(waits: asyncio.Future[None]) -> None:
        loop.busy(3.0)
        await waits
        loop.busy(4.0)

    async def run() -> None:
        waits = asyncio.get_running_loop().create_future()
        task = asyncio.get_running_loop().create_task(TimedCoroutine(loop.timed, answer(waits)))
        asyncio.get_running_loop().call_soon(loop.busy, 100.0)
        asyncio.get_running_loop().call_soon(lambda: waits.set_result(None))
        await task

    asyncio.run(run())
    assert loop.charged == [3, 4]


def test_a_cancelled_coroutine_ends_inside() -> None:
    loop = Loop()
    ended: list[bool] = []

    async def answer() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    async def run() -> None:
        task = asyncio.get_running_loop().create_task(TimedCoroutine(loop.timed, answer()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert ended == [True]
