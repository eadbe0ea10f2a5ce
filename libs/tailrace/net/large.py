"""Large requests and answers are decoded and encoded by a thread: everybody else's are handled meanwhile.

The schema-driven codec takes some ten microseconds a row: for a hundred thousand rows longer than others can be kept
waiting, and a session may end over it. One thread does it, in the order of the requests, and gives the interpreter back
twice a millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from tailrace.net.switching import Switching
from tailrace.wire import codec
from tailrace.wire.library import struct_of

LARGE_BYTES: Final = 16 * 1024
MANY_ROWS: Final = 500
_Made = TypeVar("_Made")


class Large:
    """The thread of one service, begun when it is needed first; it ends with its last user."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def decode(self, key: int, version: int, body: Any) -> Any:
        """As codec.decode_request, by the thread where that is worth it. Raises Malformed."""
        if len(body) < LARGE_BYTES:
            return codec.decode_request(key, version, body)
        return await self.run(partial(codec.decode_request, key, version, body))

    async def encode(self, response: Any, version: int, correlation_id: int) -> bytes:
        """As codec.encode_response, likewise; nobody changes the response any more."""
        if not has_many_rows(response):
            return codec.encode_response(response, version, correlation_id)
        return await self.run(partial(codec.encode_response, response, version, correlation_id))

    async def run(self, work: Callable[[], _Made]) -> _Made:
        """What the thread makes of it, after what it was given before."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "codec")
        Switching.hold()
        ended = asyncio.get_running_loop().run_in_executor(self._threads, work)
        ended.add_done_callback(lambda _: Switching.release())
        return await ended


def has_many_rows(message: Any, most: int = MANY_ROWS) -> bool:
    """Whether a message has more rows than that, counted through its lists of lists; no more of them are looked at."""
    return _left(message, most) < 0


def _left(message: Any, left: int) -> int:
    for name in struct_of(message).fields:
        rows = getattr(message, name, None)
        if type(rows) is not list:
            continue
        left -= len(rows)
        if left < 0:
            break
        for row in rows:
            if not hasattr(row, "_struct") or left < 0:
                break
            left = _left(row, left)
    return left
