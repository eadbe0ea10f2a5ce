"""Connections that have gone quiet at a server, looked at by one sweep over all of them (patience.py)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Protocol

from tailrace.net.limits.patience import Patience


class Swept(Protocol):
    """What a sweep asks of a connection."""

    def judge(self, patience: Patience, passed_ms: float) -> str:
        """Says why it must go, or nothing."""

    def give_up(self, why: str) -> None:
        """Closes it."""


class Sweep:
    """Runs from the first start() until closed, unless nothing is bounded."""

    def __init__(self, connections: Collection[Swept], patience: Patience) -> None:
        self._connections = connections
        self.patience = patience
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """May be called again."""
        if self._timer is None and not math.isinf(self.patience.interval_ms):
            self._timer = asyncio.get_running_loop().call_later(self.patience.interval_ms / 1000, self._look)

    def _look(self) -> None:
        """What was quiet for too long is closed (connections.max.idle.ms and the like)."""
        for connection in list(self._connections):
            if why := connection.judge(self.patience, self.patience.interval_ms):
                connection.give_up(why)
        self._timer = None
        self.start()

    def close(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
