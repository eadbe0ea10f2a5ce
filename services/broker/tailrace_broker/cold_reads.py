"""Reads that would wait for the disk: a few threads bring them into the page cache while the event loop goes on.

At most one is under way for a connection, which waits for it, so the queue is no longer than there are connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tailrace.log.reading import Slice

_THREADS = 4


def _warm(pieces: Sequence[Slice]) -> None:
    for piece in pieces:
        piece.warm()


class ColdReads:
    """The threads of one broker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "cold-read")
        self.count = 0  # fetches that had to wait for the disk

    def then(self, pieces: Sequence[Slice], answer: Callable[[], Any]) -> asyncio.Future[Any]:
        """A future of what `answer` returns once the pieces are in the page cache, or cannot be read."""
        self.count += 1
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()

        def warmed(_: object) -> None:
            if not result.done():
                try:
                    result.set_result(answer())
                except Exception as error:  # noqa: BLE001 - the connection that waits reports it
                    result.set_exception(error)

        loop.run_in_executor(self._threads, _warm, pieces).add_done_callback(_seen(warmed))
        return result

    def close(self) -> None:
        """Waits for what is under way."""
        self._threads.shutdown(cancel_futures=True)


def _seen(warmed: Callable[[object], None]) -> Callable[[asyncio.Future[None]], None]:
    """A read that fails here fails again when the answer is made, which says so to the client."""

    def done(future: asyncio.Future[None]) -> None:
        if not future.cancelled():
            future.exception()
        warmed(future)

    return done
