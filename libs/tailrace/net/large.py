"""Large requests and answers are decoded and encoded by a thread: all others are handled meanwhile.

The schema-driven codec takes some microseconds a row: for the rows of one request longer than others can be kept
waiting. One thread does it, in the order of the requests, and gives the interpreter back some times a millisecond,
between two steps of Python. Python's own garbage collections wait until the rows are freed, and no large answer is ever
copied or joined as a whole (wire/encode_buffer.py). Plain functions over many rows are run by it, too (over_rows, run).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from tailrace.net.garbage_collection import COLLECTIONS, VERY_LARGE_BYTES
from tailrace.wire import codec
from tailrace.wire.library import struct_of
from tailrace.wire.malformed import TooManyRows
from tailrace.wire.messages import ApiMessage
from tailrace.wire.refuse import refuse

LARGE_BYTES: Final = 4 * 1024  # may be as many rows of a byte each
MANY_ROWS: Final = 500
_ROW_CHARS: Final = 1_024
_Made = TypeVar("_Made")


class Large:
    """The thread of one service, begun when it is needed first; it ends with its last user."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    @asynccontextmanager
    async def request(self, key: int, version: int, body: Any) -> AsyncIterator[Any]:
        """As codec.decode_request, by the thread where that is worth it. Raises Malformed.

        The request is there while the block runs: nobody else may have it longer.
        """
        if len(body) < LARGE_BYTES:
            yield codec.decode_request(key, version, body)
            return
        await self._after_a_collection(len(body))
        with COLLECTIONS.while_in_use(len(body)):
            yield await self.run(partial(codec.decode_request, key, version, body))

    async def _after_a_collection(self, size_bytes: int) -> None:
        """A very large message waits for the collection that is due: it has none of its rows to walk then."""
        if size_bytes >= VERY_LARGE_BYTES and COLLECTIONS.soon:
            COLLECTIONS.hold()
            try:
                await COLLECTIONS.pause()
                await self.run(COLLECTIONS.collect_soon)  # by the thread, which lets the rows of the others go first
            finally:
                COLLECTIONS.release()

    async def check(self, key: int, version: int, body: Any) -> None:
        """Raises Malformed where decoding would."""
        async with self.request(key, version, body):
            pass

    async def encode(self, response: Any, version: int, correlation_id: int) -> bytes | memoryview:
        """As codec.encode_response, likewise; nobody has the response any more."""
        if not has_many_rows(response):
            return codec.encode_response(response, version, correlation_id)
        return await self.run(partial(codec.encode_large_response, response, version, correlation_id))

    async def encode_request(
        self, request: ApiMessage, version: int, correlation_id: int, client_id: str | None
    ) -> bytes | memoryview:
        """As codec.encode_request, likewise; its rows may be those of a request that others have."""
        if not has_many_rows(request):
            return codec.encode_request(request, version, correlation_id, client_id)
        return await self.run(partial(codec.encode_large_request, request, version, correlation_id, client_id))

    @asynccontextmanager
    async def response(self, key: int, version: int, frame: bytes | memoryview) -> AsyncIterator[Any]:
        """As decode_response, for as long as the block runs."""
        await self._after_a_collection(len(frame))
        with COLLECTIONS.while_in_use(len(frame)):
            yield await self.decode_response(key, version, frame)

    async def decode_response(self, key: int, version: int, frame: bytes | memoryview) -> object:
        """As codec.decode_response, of a whole frame, likewise; to be let go while the request is still there."""
        return await self.decode_answer(key, version, memoryview(frame)[4:])

    async def decode_answer(self, key: int, version: int, answer: bytes | bytearray | memoryview) -> object:
        """The same of a frame without its size."""
        work = partial(codec.decode_response, key, version, codec.response_body(key, version, answer))
        return await self.run(work) if len(answer) >= LARGE_BYTES else work()

    async def refuse(self, request: Any, key: int, version: int, code: int, message: str | None = None) -> object:
        """As refuse.refuse, likewise: the code in every row of the request."""
        return await self.over_rows(request, partial(refuse, request, key, version, code, message))

    async def refuse_rows(
        self, refused: TooManyRows, key: int, version: int, correlation_id: int
    ) -> bytes | memoryview:
        """The answer frame of a request that has more rows than its API takes."""
        response = await self.refuse(refused.request, key, version, refused.code, str(refused))
        return await self.encode(response, version, correlation_id)

    async def over_rows(self, message: Any, work: Callable[[], _Made]) -> _Made:
        """What is made of all rows of a message: by the thread if they are many."""
        return await self.run(work) if has_many_rows(message) else work()

    async def over(self, count: int, work: Callable[[], _Made]) -> _Made:
        """What is made of so many rows: likewise."""
        return await self.run(work) if count > MANY_ROWS else work()

    async def run(self, work: Callable[[], _Made]) -> _Made:
        """What the thread makes of it, after what it was given before."""
        return await asyncio.wrap_future(self.begin(work))

    def begin(self, work: Callable[[], _Made]) -> Future[_Made]:
        """Has the thread do it, after what it was given before."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "codec")
        COLLECTIONS.hold()
        try:
            ended = self._threads.submit(work)
        except RuntimeError:  # no thread can be started: nobody would release
            COLLECTIONS.release()
            raise
        ended.add_done_callback(
            lambda _: COLLECTIONS.release()
        )  # by the thread: the loop may have been closed meanwhile
        return ended


def has_many_rows(message: Any, most: int = MANY_ROWS) -> bool:
    """Whether a message has more rows than that, counted through its lists of lists; no more of them are looked at.

    A long string counts as several: a few hundred ids of 32 KB take as long to encode as thousands of usual ones.
    """
    return _left(message, most) < 0


def _left(message: Any, left: int) -> int:
    for name in struct_of(message).fields:
        rows = getattr(message, name, None)
        if type(rows) is str:
            left -= len(rows) // _ROW_CHARS
        if type(rows) is not list:
            continue
        left -= len(rows)
        if left < 0:
            break
        for row in rows:
            if left < 0:
                break
            if type(row) is str:
                left -= len(row) // _ROW_CHARS
            elif hasattr(row, "_struct"):
                left = _left(row, left)
            else:
                break
    return left
