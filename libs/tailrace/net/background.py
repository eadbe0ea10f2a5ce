"""Work that goes on beside a role's body and whose failure must not go unseen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
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
