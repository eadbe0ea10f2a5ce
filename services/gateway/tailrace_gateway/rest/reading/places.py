"""How many readings there are at once, and their end with the server's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.errors import plain

READINGS_MAX: Final = 32
READINGS_MAX_OF_ONE: Final = 16  # an address, or a user that has logged in
STREAMS_MAX: Final = 24  # the other places are those of pages


class ReadingPlaces:
    """Each reading holds a Fetch answer of each leader and a page of records."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._streams: set[asyncio.Task[None]] = set()

    @contextmanager
    def reading(self, address: str, principal: str, *, is_stream: bool) -> Iterator[None]:
        """One reading. Raises RestError (503) where there are too many."""
        bounds = {"all": READINGS_MAX, f"address {address}": READINGS_MAX_OF_ONE}
        if principal != ANONYMOUS:
            bounds[f"user {principal}"] = READINGS_MAX_OF_ONE
        if is_stream:
            bounds["streams"] = STREAMS_MAX
        if any(self._running[whose] >= most for whose, most in bounds.items()):
            raise plain(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many readings of this address or user, or of all, are running."
            )
        self._running.update(bounds.keys())
        try:
            yield
        finally:
            self._running.subtract(bounds.keys())
            for whose in [whose for whose in bounds if not self._running[whose]]:
                del self._running[whose]

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
