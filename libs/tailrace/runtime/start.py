"""A start that is told to stop: it may wait for what never comes, so it is cancelled instead of waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock

# For a start that was cancelled to let go of what it has.
ABANDON_MS = 1_000


@asynccontextmanager
async def cancelled_by(
    stop: asyncio.Event, clock: Clock, log: FilteringBoundLogger, abandon: Callable[[int], None] | None
) -> AsyncIterator[asyncio.Event]:
    """Cancels the body, and ends with it, if `stop` is set before the event that it yields.

    A body that hangs even so (a thread that waits for a disk) is abandoned, where its process is all its own: to the
    data that is one crash more. `abandon` takes the exit status.
    """
    opened = asyncio.Event()

    async def watch(opening: asyncio.Timeout) -> None:
        await stop.wait()
        if opened.is_set():
            return
        log.info("stopping before it is open")
        opening.reschedule(asyncio.get_running_loop().time())
        if abandon is not None:
            await clock.sleep(ABANDON_MS)
            log.warning("ending in the middle of the start")
            abandon(0)

    watching: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(None) as opening:
            watching = asyncio.get_running_loop().create_task(watch(opening))
            yield opened
    except TimeoutError:
        if not opening.expired():
            raise
    finally:
        if watching is not None:
            watching.cancel()
