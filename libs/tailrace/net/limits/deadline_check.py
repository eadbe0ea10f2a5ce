"""Connections that have gone quiet at a server, looked at by one sweep over all of them (deadlines.py)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Final, Protocol

from tailrace.net.limits.deadlines import ConnectionDeadlines, IdleTimer, Progress
from tailrace.net.turns import turns

_RECLAIM_MS: Final = 30_000


class Timed(Protocol):
    """The session of a connection, as far as a sweep needs it."""

    quiet: IdleTimer


class Swept(Protocol):
    """What a sweep asks of a connection."""

    @property
    def session(self) -> Timed: ...

    @property
    def progress(self) -> Progress:
        """How far it is."""

    def reclaim_memory(self) -> None:
        """It is to give back what it does not use."""

    def give_up(self, why: str) -> None:
        """Closes it."""


class DeadlineCheck:
    """Runs from the first start() until closed, unless nothing is bounded."""

    def __init__(self, connections: Collection[Swept], deadlines: ConnectionDeadlines) -> None:
        self._connections = connections
        self.deadlines = deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """May be called again."""
        if self._timer is None and not math.isinf(self.deadlines.interval_ms):
            self._timer = asyncio.get_running_loop().call_later(self.deadlines.interval_ms / 1000, self._look)

    def _look(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._look_at_all())

    async def _look_at_all(self) -> None:
        """What was quiet for too long is closed (connections.max.idle.ms and the like)."""
        async for connection in turns(list(self._connections)):
            if connection not in self._connections:  # it has ended meanwhile
                continue
            look_at(connection, self.deadlines, self.deadlines.interval_ms)
        self._timer = None
        self.start()

    def close(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()


def look_at(connection: Swept, deadlines: ConnectionDeadlines, passed_ms: float) -> None:
    """Closes a connection that was waited for long enough; a quiet one gives back its memory."""
    quiet = connection.session.quiet
    if why := quiet.judge(deadlines, passed_ms, connection.progress):
        connection.give_up(why)
    elif quiet.quiet_ms >= _RECLAIM_MS:
        connection.reclaim_memory()
