"""How many readings there are at once, and their end with the server's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from tailrace_gateway.rest.errors import plain

READINGS_MAX: Final = 32
READINGS_MAX_OF_ONE_ADDRESS: Final = 16


class ReadingPlaces:
    """Each reading holds a Fetch answer of each leader and a page of records."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._streams: set[asyncio.Task[None]] = set()

    @contextmanager
    def reading(self, address: str) -> Iterator[None]:
        """One reading. Raises RestError (503) where there are too many."""
        if self._running.total() >= READINGS_MAX or self._running[address] >= READINGS_MAX_OF_ONE_ADDRESS:
            raise plain(HTTPStatus.SERVICE_UNAVAILABLE, "Too many readings of this address, or of all, are running.")
        self._running[address] += 1
        try:
            yield
        finally:
            self._running[address] -= 1
            if not self._running[address]:
                del self._running[address]

    async def stream(self, sending: asyncio.Task[None]) -> None:
        """Waits for a stream's end, which comes with the server's at the latest."""
        self._streams.add(sending)
        try:
            await asyncio.wait([sending])
        finally:
            self._streams.discard(sending)

    def end(self) -> None:
        """Ends all streams: their clients ask again, elsewhere."""
        for sending in self._streams:
            sending.cancel()
