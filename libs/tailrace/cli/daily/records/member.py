"""A member of a group: kafka-python joins, heartbeats and commits; the library's own reader reads what is assigned.

Imported outside of `kafka_without_clients`, because it needs the clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafka import ConsumerRebalanceListener, TopicPartition

from tailrace.cli.daily.nodes import Nodes
from tailrace.reading.cursor import Cursor
from tailrace.reading.reader import TopicReader
from tailrace.records.record import Record

_WAIT_MS: Final = 500
_JOIN_MS: Final = 100


class TopicMember(ConsumerRebalanceListener):
    """Membership in a group for one topic."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._joined = self._changed = False
        consumer.subscribe([topic], listener=self)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing: kafka-python has committed the positions."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Paused, the partitions are not fetched by kafka-python."""
        self._consumer.pause(*assigned)
        self._joined = self._changed = True

    def polls(self, reader: TopicReader, cluster: Nodes) -> Iterator[Iterator[tuple[int, Record]]]:
        """What the reader reads of the assignment of the moment. Raises RefusedError where the group is not joined."""
        cursors: dict[TopicPartition, Cursor] = {}
        began_ms = cluster.clock.monotonic_ms()
        while True:
            self._consumer.poll(timeout_ms=_JOIN_MS if not self._joined else 0 if cursors else _WAIT_MS)
            if not self._joined:
                cluster.deadline.check_patience(began_ms, "the group's coordinator has given no assignment")
                continue
            if self._changed:
                self._changed = False
                cursors = self._cursors()
                reader.assign(cursors.values())
            if not cursors:
                continue
            try:
                yield cluster.run(reader.poll(_WAIT_MS))
            finally:
                for partition, cursor in cursors.items():
                    if partition in self._consumer.assignment():
                        self._consumer.seek(partition, cursor.offset)  # what is committed

    def _cursors(self) -> dict[TopicPartition, Cursor]:
        found = {}
        for partition in self._consumer.assignment():
            offset = self._consumer.position(partition, timeout_ms=_WAIT_MS)
            if offset is None:
                self._changed = True  # asked again in the next round
            else:
                found[partition] = Cursor(partition.partition, offset)
        return found
