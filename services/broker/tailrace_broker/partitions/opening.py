"""Logs that this broker is given to lead are opened, or made, for some milliseconds in a turn of the event loop.

A start, or one metadata image, may give it thousands of them at once, each half a millisecond of work and more where
the disk is busy or cold. Heartbeats, clients and the partitions that are led already must not wait for the last of
them. Until its turn a partition is as one whose log is recovered: it neither leads nor follows
(NOT_LEADER_OR_FOLLOWER), and who is asked for comes next; a shard's new owner, who asks as soon as its topic is there,
waits for that turn. A partition without other replicas needs no log to be led: its first use opens it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from tailrace.kafka.ids import TopicPartition

A_TURN_MS: Final = 5


class Openings:
    """What waits. Subscribers get those whose turn it is, and ask `waits` again for each that wants its log."""

    def __init__(self, now_ms: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._subscribers: list[Callable[[Iterator[TopicPartition]], None]] = []
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._waiting: OrderedDict[TopicPartition, None] = OrderedDict()
        self._until_ms = 0.0  # of this turn
        self._turn_comes = False

    def subscribe(self, subscriber: Callable[[Iterator[TopicPartition]], None]) -> None:
        """Calls it with those whose turn it is."""
        self._subscribers.append(subscriber)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._waiting

    def waits(self, topic: str, index: int) -> bool:
        """Whether the partition's log must not be opened yet, as others were in this turn; if not, open it."""
        if not self._turn_comes:
            self._begin()
        if self._now_ms() < self._until_ms:
            self._waiting.pop((topic, index), None)
            return False
        self._waiting[topic, index] = None
        return True

    def hurry(self, topic: str, index: int) -> None:
        """Somebody asks for the partition: it comes next."""
        if (topic, index) in self._waiting:
            self._waiting.move_to_end((topic, index), last=False)

    def close(self) -> None:
        """Whoever still waits is not led by this life of the broker any more."""
        self._waiting.clear()

    def _begin(self) -> None:
        self._until_ms = self._now_ms() + A_TURN_MS
        self._turn_comes = True
        self._call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_comes = False
        if self._waiting:
            self._begin()
            for subscriber in self._subscribers:
                subscriber(self._next())

    def _next(self) -> Iterator[TopicPartition]:
        while self._waiting and self._now_ms() < self._until_ms:
            yield self._waiting.popitem(last=False)[0]
