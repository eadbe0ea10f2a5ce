"""Those who are too slow give way while others wait for memory (tailrace.net.limits.request_memory)."""

from __future__ import annotations

import asyncio

from tailrace.net.limits.request_memory import RequestMemory

INTERVAL_MS = 1_000.0


class RequestMemoryWatch:
    """Looks every second from the moment that somebody waits until nobody does."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._timer: asyncio.TimerHandle | None = None
        memory.on_shortage = self.start

    def start(self) -> None:
        """May be called again."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_MS / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        for share in self._memory.too_slow(INTERVAL_MS):
            share.holder.give_way(f"others wait for memory and {share.held_bytes} bytes of it are filled too slowly")
        if self._memory.waiting_count:
            self.start()
