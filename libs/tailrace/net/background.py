"""Work that goes on beside a role's body: its failure must not go unseen, and its end not be missed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs work while open and cancels it at the end. If it fails, the body is cancelled and the failure raised.

    Unlike a TaskGroup it raises the failure itself, so that a refusal stays the sentence it was.
    """
    owner = asyncio.current_task()
    assert owner is not None

    def on_end(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and ended.exception() is not None:
            owner.cancel()

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(on_end)
    try:
        yield
    finally:
        task.remove_done_callback(on_end)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def spawn(work: Coroutine[None, None, T], held: set[asyncio.Task[T]]) -> asyncio.Task[T]:
    """Runs work; the set holds its task until the end, since the event loop itself does not."""
    task = asyncio.get_running_loop().create_task(work)
    held.add(task)
    task.add_done_callback(held.discard)
    return task


async def in_thread(work: Callable[[], T]) -> T:
    """As asyncio.to_thread, but a cancelled one ends when its thread does: until then what it works on is in use."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # nobody is interested in it
        raise
