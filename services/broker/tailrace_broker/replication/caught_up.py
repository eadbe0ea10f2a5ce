"""Partitions of which a follower has everything and nothing is due: a fetch of thousands looks closely at few of them.

An incremental fetch (KIP-227) names the partitions whose position has changed. Of the others all that one says is that
the follower still lives: that it was caught up until now. Its fetch waits for the others only; what happens to one of
these is heard as soon as it does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from tailrace.wire.hot.fetch import FetchPartition

if TYPE_CHECKING:
    from tailrace_broker.partitions.leader import LeaderState
    from tailrace_broker.partitions.partition import EndWaiters, Partition

    Read = tuple[bytes, FetchPartition, Partition, LeaderState | None]  # what to read, and in which leadership


Place: TypeAlias = tuple[bytes, int]  # a topic's id, or its name, and a partition of it


class CaughtUp:
    """A partition as one follower's fetch has left it: committed to its end, and all replicas in sync."""

    __slots__ = ("_isr", "_leading", "_log", "_partition", "_replica", "_replicas", "_start", "_want", "read")

    def __init__(self, key: bytes, want: FetchPartition, partition: Partition, broker_id: int) -> None:
        leading = partition.leading
        assert leading is not None
        self.read: Read = (key, want, partition, leading)
        self._partition, self._want = partition, want
        self._leading, self._isr, self._replicas = leading, leading.isr, leading.replicas
        self._replica = leading.replicas[broker_id]
        self._log = partition.log
        self._start = self._log.log_start_offset

    @classmethod
    def of(cls, key: bytes, want: FetchPartition, partition: Partition, broker_id: int) -> CaughtUp | None:
        """What can be told by a glance from now on; None where there is more to do. It was heard just now."""
        leading = partition.leading
        if leading is None or len(leading.isr) <= len(leading.replicas):  # somebody may join with any fetch
            return None
        quiet = cls(key, want, partition, broker_id)
        return quiet if quiet._has_all() else None

    def on_fetch(self, broker_epoch: int, now_ms: float) -> bool:
        """Takes note of a fetch that does not name it, if nothing has happened since the last one; else False."""
        if self._replica.broker_epoch != broker_epoch or not self._has_all():
            return False
        want = self._want
        self._replica.fetched(want.fetch_offset, want.log_start_offset, want.fetch_offset, now_ms)
        return True

    def _has_all(self) -> bool:
        partition, leading, log, offset = self._partition, self._leading, self._log, self._want.fetch_offset
        return (
            log is partition.opened
            and leading is partition.leading
            and leading.isr is self._isr
            and leading.replicas is self._replicas
            and leading.proposed is None
            and log.log_end_offset == offset == partition.high_watermark
            and log.log_start_offset == self._start
            and not partition.deletions
        )


class FollowedPartitions:
    """What one follower's session names: `quiet`, the caught up, and `others`, which each fetch looks at closely.

    Of the others it says whether one was looked at since the follower named it: then it may be quiet from now on. The
    first that happens to a quiet one, be it an append or another leader, makes it one of the others, and wakes the
    fetch that waits. So this stands among those who wait for the end of its log, like an operation that is never done.
    """

    __slots__ = ("_by_tail", "done", "on_news", "others", "quiet")

    def __init__(self, places: Iterable[Place]) -> None:
        self.done = False
        self.others: OrderedDict[Place, bool] = OrderedDict.fromkeys(places, False)
        self.quiet: dict[Place, CaughtUp] = {}
        self.on_news: Callable[[EndWaiters, Read], None] | None = None  # of the fetch that waits, with the log's end
        self._by_tail: dict[EndWaiters, Place] = {}

    def named(self, place: Place) -> None:
        """The follower says where it is now."""
        self._disturb(place)
        self.others[place] = False

    def forget(self, place: Place) -> None:
        """The follower does not fetch it any more."""
        self._disturb(place)
        self.others.pop(place, None)

    def rest(self, place: Place, caught_up: CaughtUp) -> None:
        """It is quiet from now on."""
        del self.others[place]
        self.quiet[place] = caught_up
        tail = caught_up.read[2].tail
        self._by_tail[tail] = place
        tail.waiters.add(self)

    def on_fetch(self, broker_epoch: int, now_ms: float) -> None:
        """Takes note of a fetch that names none of the quiet; of those with news it is for the fetch to do."""
        news = [place for place, caught_up in self.quiet.items() if not caught_up.on_fetch(broker_epoch, now_ms)]
        for place in news:
            self._disturb(place)
            self.others[place] = True

    def try_complete(self, tail: EndWaiters) -> None:
        """Something has happened to one of the quiet."""
        place = self._by_tail.get(tail)
        if place is None:
            tail.waiters.discard(self)
            return
        read = self.quiet[place].read
        self._disturb(place)
        self.others[place] = True
        if self.on_news is not None:
            self.on_news(tail, read)

    def end(self) -> None:
        """The session is over."""
        self.done = True
        for tail in self._by_tail:
            tail.waiters.discard(self)

    def _disturb(self, place: Place) -> None:
        caught_up = self.quiet.pop(place, None)
        if caught_up is not None:
            tail = caught_up.read[2].tail
            tail.waiters.discard(self)
            del self._by_tail[tail]
