"""Fetch of very many partitions: a thread decodes the request, and its rows are freed when the answer has left.

Such a client may have no session, and send all its partitions again and again; each of these requests may wait for
records. So none of them keeps the bytes that it came in, and only the largest keep garbage collections waiting.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Final, Protocol

from tailrace.net.context import HotConnection
from tailrace.net.garbage_collection import COLLECTIONS
from tailrace.net.large import Large
from tailrace.net.limits.answer_memory import of_rows
from tailrace.wire.hot.fetch import Fetch, decode_fetch, fetch_once, free_rows
from tailrace.wire.pieces import Piece
from tailrace_broker.fetch.delayed import FetchAnswer

LARGE_FETCH_BYTES: Final = 16 * 1024  # some 500 partitions
# Some 10,000: a collection walks fewer in well under a millisecond, and would be held back forever.
_HOLDING_BYTES: Final = 256 * 1024
_ROW_TIMES: Final = 10  # a row of 32 bytes takes some 320 while it is answered


class _Serve(Protocol):
    def __call__(
        self, connection: HotConnection, version: int, correlation_id: int, request: Fetch, *, once: bool
    ) -> FetchAnswer: ...


class ManyRowsFetch:
    """What PlainFetch leaves to it."""

    def __init__(self, large: Large, serve: _Serve) -> None:
        self._large = large
        self._serve = serve

    def handle(
        self, connection: HotConnection, version: int, correlation_id: int, body: memoryview
    ) -> asyncio.Future[list[Piece]]:
        """A future of the answer."""
        kept = [connection.keep(body)]
        return asyncio.get_running_loop().create_task(self._answer(connection, version, correlation_id, kept))

    async def _answer(
        self, connection: HotConnection, version: int, correlation_id: int, kept: list[memoryview]
    ) -> list[Piece]:
        size_bytes = len(kept[0])
        await connection.room_for_rows(of_rows(size_bytes, _ROW_TIMES))
        with COLLECTIONS.while_in_use(size_bytes) if size_bytes >= _HOLDING_BYTES else nullcontext():
            request = await self._large.run(partial(_decode_once, version, kept.pop()))
            try:
                answer = self._serve(connection, version, correlation_id, request, once=True)
                return await answer if isinstance(answer, asyncio.Future) else answer
            finally:
                self._large.begin(partial(free_rows, request.topics))
                self._large.begin(partial(free_rows, request.forgotten))


def _decode_once(version: int, body: memoryview) -> Fetch:
    """With each partition once. The body is held here alone, so that it is free while the fetch waits for records."""
    return fetch_once(decode_fetch(version, body))
