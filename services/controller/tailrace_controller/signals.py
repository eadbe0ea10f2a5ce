"""Waiting for the next change of something, and for the first of several works to fail."""

import asyncio
from collections.abc import Coroutine

from tailrace.clock import Clock


class ChangeSignal:
    """A change that anybody may wait for; wake() ends all waits that began before it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """It changed."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            _release(future)

    async def next(self, timeout_ms: float) -> None:
        """Returns after the next change, or after the timeout."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        timer = self._clock.call_later(timeout_ms, lambda: _release(future))
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.discard(future)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def first_failure(*works: Coroutine[None, None, None]) -> None:
    """Runs works that never end; raises what the first one raised after all of them are over."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
