"""Fetch v4-18: decode, find the session, look at each partition, answer or wait. Read this first.

v7: sessions (KIP-227). v9: leader epochs (KIP-320). v12: flexible, with the epoch of the last record read; where our
history differs, diverging_epoch says from where (KIP-595). v13: topic ids (KIP-516). v16: leader hints (KIP-951).

    handle   decode; a thread decodes very many rows
    serve    open the session (sessions.py), then a consumer's fetch or a follower's (consumer.py, follower.py)
    look     at each partition: why it is refused, or its records, as far as max_bytes goes (read.py)
    answer   at once; or when there are min_bytes, after max_wait_ms, or when the disk has brought what is missing
             (delayed.py, cold_reads/)

Large pieces of a log leave as slices, which the connection sends from the page cache uncopied. fast.py does the same
for the usual request with less work.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Any

from tailrace.errors import ApiError
from tailrace.net.garbage_collection import COLLECTIONS
from tailrace.net.large import Large
from tailrace.net.limits.answer_memory import of_rows
from tailrace.wire.hot.fetch import Fetch, decode_fetch, encode_fetch_answer, fetch_once, free_rows
from tailrace_broker.fetch.consumer import ConsumerFetch
from tailrace_broker.fetch.delayed import AskedFetch, FetchParts
from tailrace_broker.fetch.follower import FollowerFetches
from tailrace_broker.fetch.sessions import FetchSessions

LARGE_FETCH_BYTES = 16 * 1024  # some 500 partitions: a thread decodes it
# Some 10,000: a collection walks fewer in well under a millisecond. A client without sessions sends all its partitions
# again and again, and each of its requests waits for records: collections would be held back forever.
_HOLDING_BYTES = 256 * 1024
_ROW_TIMES = 10  # a row of 32 bytes takes some 320 while it is answered


class PlainFetch:
    """Fetch for one broker."""

    def __init__(self, parts: FetchParts, sessions: FetchSessions) -> None:
        self._parts = parts
        self._sessions = sessions
        self._followers = FollowerFetches(parts)
        self._large = Large()

    def handle(self, connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        """The answer's buffers at once, or a future of them when it must wait; a thread decodes very many rows."""
        if len(body) < LARGE_FETCH_BYTES:
            return self.serve(connection, version, correlation_id, decode_fetch(version, body))
        size_bytes, kept = len(body), [connection.keep(body)]

        async def decode() -> Any:
            await connection.room_for_rows(of_rows(size_bytes, _ROW_TIMES))
            with COLLECTIONS.while_in_use(size_bytes) if size_bytes >= _HOLDING_BYTES else nullcontext():
                request = await self._large.run(partial(_decode_once, version, kept.pop()))
                try:
                    answer = self.serve(connection, version, correlation_id, request, once=True)
                    return await answer if isinstance(answer, asyncio.Future) else answer
                finally:
                    self._large.begin(partial(free_rows, request.topics))
                    self._large.begin(partial(free_rows, request.forgotten))

        return asyncio.get_running_loop().create_task(decode())

    def serve(self, connection: Any, version: int, correlation_id: int, request: Fetch, *, once: bool = False) -> Any:
        """As handle, of a request that is decoded. once: it names no partition twice."""
        if request.replica_id >= 0:
            return self._followers.serve(connection, version, correlation_id, request)
        parts = self._parts
        try:
            session, full = self._sessions.open(request, parts.clock.monotonic_ms(), parts.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        asked = AskedFetch(connection, version, correlation_id, request, session, full)
        return ConsumerFetch(parts, asked, self._large, once).begin()


def _decode_once(version: int, body: memoryview) -> Fetch:
    """With each partition once; nobody has the body any more when that waits for records."""
    return fetch_once(decode_fetch(version, body))
