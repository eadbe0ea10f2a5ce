"""The real clock: the only file of the project that reads one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tailrace.clock import Cancellable


class SystemClock:
    """Wall and monotonic time of this machine; timers run on the running event loop."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        """For backoff, heartbeats, leases and deadlines; never to wait for a state."""
        await asyncio.sleep(delay_ms / 1000)
