"""Partitions of which a follower has everything and nothing is due: a fetch of thousands looks closely at few of them.

An incremental fetch (KIP-227) names the partitions whose position has changed. Of the others all that one says is that
the follower still lives: that it was caught up until now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.wire.hot.fetch import FetchPartition

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.replication.leader import LeaderState

    Read = tuple[bytes, FetchPartition, Partition, LeaderState | None]  # what to read, and in which leadership


class CaughtUp:
    """A partition as one follower's fetch has left it: committed to its end, and all replicas in sync."""

    __slots__ = ("_isr", "_leading", "_log", "_partition", "_replica", "_replicas", "_want", "read")

    def __init__(self, key: bytes, want: FetchPartition, partition: Partition, broker_id: int) -> None:
        leading = partition.leading
        assert leading is not None
        self.read: Read = (key, want, partition, leading)
        self._partition, self._want = partition, want
        self._leading, self._isr, self._replicas = leading, leading.isr, leading.replicas
        self._replica = leading.replicas[broker_id]
        self._log = partition.log

    @classmethod
    def of(cls, key: bytes, want: FetchPartition, partition: Partition, broker_id: int) -> CaughtUp | None:
        """What can be told by a glance from now on; None where there is more to do. It was heard just now."""
        leading = partition.leading
        if leading is None or len(leading.isr) <= len(leading.replicas):  # somebody may join with any fetch
            return None
        quiet = cls(key, want, partition, broker_id)
        return quiet if quiet._has_all() else None

    def heard(self, broker_epoch: int, now_ms: float) -> bool:
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
            and not partition.deletions
        )
