"""Waiting for a state that only asking again can show: the one place in the tests that does so.

A client of a cluster has no event for "the topic has a leader now"; everything else waits on events.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
PAUSE_S = 0.02
HUNG_S = 120  # whatever the load of the machine: what has not come by then never comes


def until(ask: Callable[[], T | None], what: str, timeout_s: float = HUNG_S) -> T:
    """Asks until the answer is neither None nor False; raises TimeoutError naming what was awaited."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s} s, last answer {answer!r}")
        pause.wait(PAUSE_S)


async def another_process(shows: Callable[[], bool], timeout_s: float = HUNG_S) -> None:
    """Rests until the loop has heard of what another process does; one that spins takes the processor from it."""
    async with asyncio.timeout(timeout_s):
        while not shows():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), PAUSE_S)


async def turns_until(reached: Callable[[], object]) -> None:
    """Lets the event loop turn until it has come so far: what has no event shows in a few turns."""
    async with asyncio.timeout(HUNG_S):
        while not reached():  # noqa: ASYNC110 - turns, not time
            await asyncio.sleep(0)
