"""Produce and Fetch of clients that a quota limits, at the broker that holds their sockets (KIP-13, KIP-219).

As at a gateway: a Produce request is charged when it comes, a Fetch answer when it is there, and max_bytes of a Fetch
is lowered to what the quota's window holds. A client above its rate is answered at once, with throttle_time_ms, and
nothing more of it is handled for that time.
"""

from __future__ import annotations

import asyncio
from struct import error as StructError
from typing import Protocol

from tailrace.net.context import HotConnection
from tailrace.net.dispatch import HotAnswer, HotHandler
from tailrace.wire.hot.fetch_quota import cap_int32, max_bytes_at, with_throttle
from tailrace.wire.pieces import Piece

_HEADER_BYTES = 8  # before the client id's field: api key, version, correlation id


class ThrottledProduce(Protocol):
    """A hot handler whose answer carries throttle_time_ms."""

    def __call__(
        self, connection: HotConnection, version: int, correlation_id: int, body: memoryview, throttle_time_ms: int, /
    ) -> HotAnswer: ...


class LimitedRequests:
    """The hot handlers of limited connections: those of all others, with the charges around them."""

    def __init__(self, produce: HotHandler, throttled_produce: ThrottledProduce, fetch: HotHandler) -> None:
        self._produce = produce
        self._throttled_produce = throttled_produce
        self._fetch = fetch

    def produce(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> HotAnswer:
        """Charges the request, and serves it."""
        size_bytes = _HEADER_BYTES + len(connection.named or b"") + len(body)
        room = connection.session.meter.produce_room
        if size_bytes < room.room:  # without a call of `produced`, since most requests end here
            room.room -= size_bytes
        elif throttle_time_ms := connection.session.meter.produced(size_bytes):
            connection.session.throttle(throttle_time_ms)
            return self._throttled_produce(connection, version, correlation_id, body, throttle_time_ms)
        return self._produce(connection, version, correlation_id, body)

    def fetch(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> HotAnswer:
        """Serves the request, and charges its answer."""
        meter = connection.session.meter
        if not meter.fetch_limited:
            return self._fetch(connection, version, correlation_id, body)
        try:  # noqa: SIM105 - contextlib.suppress takes more steps than what it is around
            cap_int32(body, max_bytes_at(version), meter.fetch_max_bytes())
        except StructError:  # too short to be a Fetch: its handler says so
            pass
        answer = self._fetch(connection, version, correlation_id, body)
        if isinstance(answer, asyncio.Future):
            return asyncio.get_running_loop().create_task(self._when_there(connection, version, answer))
        assert isinstance(answer, list)
        return self._charged(connection, version, answer)

    async def _when_there(
        self, connection: HotConnection, version: int, answer: asyncio.Future[list[Piece]]
    ) -> list[Piece]:
        return self._charged(connection, version, await answer)

    def _charged(self, connection: HotConnection, version: int, answer: list[Piece]) -> list[Piece]:
        # A frame's size is not counted, as in Produce.
        throttle_time_ms = connection.session.meter.fetched(sum(map(len, answer)) - 4)
        if not throttle_time_ms:
            return answer
        connection.session.throttle(throttle_time_ms)
        return with_throttle(version, answer, throttle_time_ms)
