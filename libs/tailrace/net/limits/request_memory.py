"""The memory of one role for requests that are not whole yet (queued.max.request.bytes).

A connection's first 64 KiB are its own. A larger request is entered with all that it announced before more of it is
read, so that every request which has begun can become whole; one for which there is no room waits, and nothing of it is
read. Large ones wait in the order in which they came. An eighth of the budget is for small ones alone (at most a 64th
of it each), which pass those that wait. While somebody waits, a request must come fast enough to be whole within 30 s,
or its connection gives way.

Apache Kafka has one pool for the requests of all its connections, too, without a bound by default, and lets a slow one
keep its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

OWN_BYTES: Final = 65_536
DEFAULT_BYTES: Final = 268_435_456
WHOLE_WITHIN_MS: Final = 30_000.0
_SMALL_PART = 64
_KEPT_PART = 8


class Holder(Protocol):
    """A connection, as its share sees it."""

    def memory_granted(self) -> None:
        """It may read on."""

    def reclaim_memory(self) -> None:
        """It is to give back what it does not use."""

    def torn_bytes(self) -> int:
        """How much of an unfinished request has come; -1: none has begun."""

    def give_way(self, why: str) -> None:
        """It must go."""


class Share:
    """What one connection has of it."""

    __slots__ = ("_memory", "_seen_bytes", "held_bytes", "holder", "wanted_bytes")

    def __init__(self, memory: RequestMemory, holder: Holder) -> None:
        self._memory = memory
        self.holder = holder
        self.held_bytes = 0
        self.wanted_bytes = 0
        self._seen_bytes = -1

    @property
    def waits(self) -> bool:
        """Whether nothing more may be read."""
        return self.wanted_bytes > 0

    def take(self, size_bytes: int) -> bool:
        """Whether the connection may keep so much now; else `memory_granted` is called when it may."""
        if self.waits:
            return False
        return size_bytes - OWN_BYTES <= self.held_bytes or self._memory.take(self, size_bytes - OWN_BYTES)

    def take_if_free(self, size_bytes: int) -> bool:
        """The same for what can be done without: it does not wait."""
        return size_bytes - OWN_BYTES <= self.held_bytes or self._memory.take_if_free(self, size_bytes - OWN_BYTES)

    def keep(self, size_bytes: int) -> None:
        """Gives back all above that."""
        self._memory.give_back(self, max(0, size_bytes - OWN_BYTES))

    def judge(self, passed_ms: float) -> bool:
        """Whether it is too slow for the others that wait; judged over a whole interval, not a part of one."""
        came, seen = self.holder.torn_bytes(), self._seen_bytes
        self._seen_bytes = came
        if came < 0 or seen < 0 or came < seen or not self.held_bytes or self.waits:
            return False
        return came - seen < self.held_bytes * passed_ms / WHOLE_WITHIN_MS


class RequestMemory:
    """max_bytes of -1 is no bound, as in Kafka."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.waited_count = 0
        self.gave_way_count = 0
        self.on_shortage: Callable[[], None] | None = None  # somebody begins to wait
        self._holders: set[Share] = set()
        self._waiting: deque[Share] = deque()

    def share(self, holder: Holder) -> Share:
        """For a new connection."""
        return Share(self, holder)

    @property
    def waiting_count(self) -> int:
        """How many requests wait for memory."""
        return len(self._waiting)

    def take(self, share: Share, size_bytes: int) -> bool:
        """For Share.take."""
        if not self._fits(share, size_bytes):
            for holder in list(self._holders):
                if holder is not share:
                    holder.holder.reclaim_memory()
        if self._fits(share, size_bytes):
            self._enter(share, size_bytes)
            return True
        share.wanted_bytes = size_bytes
        self._waiting.append(share)
        self.waited_count += 1
        if self.on_shortage is not None:
            self.on_shortage()
        return False

    def take_if_free(self, share: Share, size_bytes: int) -> bool:
        """For Share.take_if_free."""
        if self._waiting or not self._fits(share, size_bytes):
            return False
        self._enter(share, size_bytes)
        return True

    def give_back(self, share: Share, held_bytes: int) -> None:
        """For Share.keep; whoever waits and has room by now goes on."""
        if share.waits:
            share.wanted_bytes = 0
            self._waiting.remove(share)
        self.used_bytes -= max(0, share.held_bytes - held_bytes)
        share.held_bytes = min(share.held_bytes, held_bytes)
        if not share.held_bytes:
            self._holders.discard(share)
        self._go_on()

    def too_slow(self, passed_ms: float) -> list[Share]:
        """Those who must give way; asked every so often while somebody waits."""
        found = [share for share in self._holders if share.judge(passed_ms)] if self._waiting else []
        self.gave_way_count += len(found)
        return found

    def _small(self, size_bytes: int) -> bool:
        return size_bytes * _SMALL_PART <= self.max_bytes

    def _fits(self, share: Share, size_bytes: int) -> bool:
        if self.max_bytes < 0 or self.used_bytes == share.held_bytes:  # nobody else has any
            return True
        free = self.max_bytes - self.used_bytes + share.held_bytes
        if self._small(size_bytes):
            return size_bytes <= free
        first = next((one for one in self._waiting if not self._small(one.wanted_bytes)), share)
        return first is share and size_bytes <= free - self.max_bytes // _KEPT_PART

    def _enter(self, share: Share, size_bytes: int) -> None:
        self.used_bytes += size_bytes - share.held_bytes
        share.held_bytes = size_bytes
        self._holders.add(share)

    def _go_on(self) -> None:
        for share in list(self._waiting):
            if share.waits and self._fits(share, share.wanted_bytes):
                self._waiting.remove(share)
                size_bytes, share.wanted_bytes = share.wanted_bytes, 0
                self._enter(share, size_bytes)
                share.holder.memory_granted()
