"""The memory of one role for requests that are not whole yet (queued.max.request.bytes).

A connection's first 64 KiB are its own. A larger request is entered with all that it announced before more of it is
read, so that every request which has begun can become whole; one for which there is no room waits, and nothing of it is
read. Of the client addresses that wait, the one that has the least goes on next; of its connections, the one that has
waited longest and the one that came last by turns, so that many which come and send nothing keep nobody out. An eighth
of the budget is for small ones (at most a 64th of it each), which pass large ones that wait, but take no more then.

While somebody waits, a request must come fast enough to be whole within 30 s, or within 5 s where its address has more
than that of who waits. One that is slower in two intervals, one after the other, gives way with its connection.

Apache Kafka has one pool for the requests of all its connections, too, without a bound by default, and lets a slow one
keep its place.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

OWN_BYTES: Final = 65_536
DEFAULT_BYTES: Final = 268_435_456
WHOLE_WITHIN_MS: Final = 30_000.0
HURRIED_WITHIN_MS: Final = 5_000.0
_SLOW_INTERVALS: Final = 2
_SMALL_PART = 64
_KEPT_PART = 8


class MemoryHolder(Protocol):
    """A connection, as its share sees it."""

    def memory_granted(self) -> None:
        """It may read on."""

    def reclaim_memory(self) -> None:
        """It is to give back what it does not use."""

    def torn_bytes(self) -> int:
        """How much of an unfinished request has come; -1: none has begun."""

    def give_way(self, why: str) -> None:
        """It must go."""


class EndedHolder:
    """The holder of a share whose connection is gone."""

    def memory_granted(self) -> None:
        return

    def reclaim_memory(self) -> None:
        return

    def torn_bytes(self) -> int:
        return -1

    def give_way(self, why: str) -> None:
        return


_ENDED: Final = EndedHolder()


class Share:
    """What one connection has of it."""

    __slots__ = ("_memory", "_seen_bytes", "_slow_count", "address", "held_bytes", "holder", "wanted_bytes")

    def __init__(self, memory: RequestMemory, holder: MemoryHolder) -> None:
        self._memory = memory
        self.holder = holder
        self.address = ""  # of the client, see `belongs_to`
        self.held_bytes = 0
        self.wanted_bytes = 0
        self._seen_bytes = -1
        self._slow_count = 0

    @property
    def waits(self) -> bool:
        """Whether nothing more may be read."""
        return self.wanted_bytes > 0

    def belongs_to(self, address: str) -> None:
        """Says from where its client comes: before it has or wants anything, else it is too late."""
        if not self.held_bytes and not self.waits:
            self.address = address

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

    def end(self) -> None:
        """Gives all back; the connection is gone, and freed at once: in a cycle it would wait for a collection."""
        self.keep(0)
        self.holder = _ENDED

    def begin(self) -> None:
        """From now on it is looked at how fast the request comes."""
        self._seen_bytes, self._slow_count = self.holder.torn_bytes(), 0

    def judge(self, passed_ms: float, within_ms: float) -> bool:
        """Whether it is too slow for the others that wait; judged over whole intervals, not a part of one."""
        came, seen = self.holder.torn_bytes(), self._seen_bytes
        self._seen_bytes = came
        judged = came >= seen >= 0 and self.held_bytes > 0 and not self.waits
        if judged and came - seen < self.held_bytes * passed_ms / within_ms:
            self._slow_count += 1
        else:
            self._slow_count = 0
        return self._slow_count >= _SLOW_INTERVALS


class _Queue:
    """Requests that wait, by their clients' addresses."""

    def __init__(self) -> None:
        self._by_address: dict[str, deque[Share]] = {}
        self._last = False
        self.next: Share | None = None  # who goes on first, once chosen

    def append(self, share: Share) -> None:
        self._by_address.setdefault(share.address, deque()).append(share)
        if self.next is not None and self.next.address != share.address:
            self.next = None  # its address may have less

    def remove(self, share: Share) -> None:
        waiting = self._by_address[share.address]
        waiting.remove(share)
        if not waiting:
            del self._by_address[share.address]
        if self.next is share:
            self.next = None

    def choose(self, held_bytes: Mapping[str, int]) -> Share | None:
        """Who goes on next; the same one until it is removed."""
        if self.next is None and self._by_address:
            waiting = self._by_address[min(self._by_address, key=lambda address: held_bytes.get(address, 0))]
            self.next = waiting[-1 if self._last else 0]
            self._last = not self._last
        return self.next


class RequestMemory:
    """max_bytes of -1 is no bound, as in Kafka."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.waited_count = 0
        self.gave_way_count = 0
        self.on_shortage: Callable[[], None] | None = None  # somebody begins to wait
        self._holders: set[Share] = set()
        self._held_bytes: Counter[str] = Counter()  # by address
        self._small_bytes = 0  # of what is held
        self._small, self._large = _Queue(), _Queue()
        self.waiting_count = 0

    def share(self, holder: MemoryHolder) -> Share:
        """For a new connection."""
        return Share(self, holder)

    def take(self, share: Share, size_bytes: int) -> bool:
        """For Share.take."""
        if not self._goes_first(share, size_bytes):
            for holder in list(self._holders):
                if holder is not share:
                    holder.holder.reclaim_memory()
        if self._goes_first(share, size_bytes):
            self._enter(share, size_bytes)
            return True
        share.wanted_bytes = size_bytes
        self._queue(size_bytes).append(share)
        self.waiting_count += 1
        self.waited_count += 1
        if self.on_shortage is not None:
            self.on_shortage()
        return False

    def take_if_free(self, share: Share, size_bytes: int) -> bool:
        """For Share.take_if_free."""
        if self.waiting_count or not self._fits(share, size_bytes):
            return False
        self._enter(share, size_bytes)
        return True

    def give_back(self, share: Share, held_bytes: int) -> None:
        """For Share.keep; whoever waits and has room by now goes on."""
        if share.waits:
            self._queue(share.wanted_bytes).remove(share)
            self.waiting_count -= 1
            share.wanted_bytes = 0
        if held_bytes < share.held_bytes:
            self._hold(share, held_bytes)
        self._go_on()

    def too_slow(self, passed_ms: float) -> list[Share]:
        """Those who must give way; asked every so often while somebody waits."""
        needy = self._large.choose(self._held_bytes) or self._small.choose(self._held_bytes)
        if needy is None:
            return []
        fair_bytes = self._held_bytes[needy.address] + needy.wanted_bytes
        found = [
            share
            for share in self._holders
            if share.judge(
                passed_ms, HURRIED_WITHIN_MS if self._held_bytes[share.address] > fair_bytes else WHOLE_WITHIN_MS
            )
        ]
        self.gave_way_count += len(found)
        return found

    def _is_small(self, size_bytes: int) -> bool:
        return size_bytes * _SMALL_PART <= self.max_bytes

    def _queue(self, size_bytes: int) -> _Queue:
        return self._small if self._is_small(size_bytes) else self._large

    def _goes_first(self, share: Share, size_bytes: int) -> bool:
        """Whether it need not wait behind others, nor for room."""
        chosen = self._queue(size_bytes).choose(self._held_bytes)
        return chosen is None and self._fits(share, size_bytes)

    def _fits(self, share: Share, size_bytes: int) -> bool:
        if self.max_bytes < 0 or self.used_bytes == share.held_bytes:  # nobody else has any
            return True
        free, kept = self.max_bytes - self.used_bytes + share.held_bytes, self.max_bytes // _KEPT_PART
        if not self._is_small(size_bytes):
            return size_bytes <= free - kept
        if self._large.choose(self._held_bytes) is not None and self._small_bytes + size_bytes > kept:
            return False  # what becomes free is for the large one
        return size_bytes <= free

    def _enter(self, share: Share, size_bytes: int) -> None:
        self._hold(share, size_bytes)
        share.begin()

    def _hold(self, share: Share, size_bytes: int) -> None:
        for size, sign in ((share.held_bytes, -1), (size_bytes, 1)):
            self.used_bytes += sign * size
            self._held_bytes[share.address] += sign * size
            if self._is_small(size):
                self._small_bytes += sign * size
        share.held_bytes = size_bytes
        if size_bytes:
            self._holders.add(share)
        else:
            self._holders.discard(share)
        if not self._held_bytes[share.address]:
            del self._held_bytes[share.address]

    def _go_on(self) -> None:
        for queue in (self._large, self._small):
            while (share := queue.choose(self._held_bytes)) is not None and self._fits(share, share.wanted_bytes):
                queue.remove(share)
                self.waiting_count -= 1
                size_bytes, share.wanted_bytes = share.wanted_bytes, 0
                self._enter(share, size_bytes)
                share.holder.memory_granted()
