"""What an append, a fetch position or a flush wakes: waiting fetches, answers with acks=all, flushes of the log."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.log.directory.log_dir import LogDir
from tailrace_broker.partitions.flusher import Flusher
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.waiting.purgatory import Purgatory


class WakeUps:
    """The wake-ups of one broker: `purgatory` holds what waits, `flusher` syncs what flush.messages asks for."""

    def __init__(
        self, node: Node, purgatory: Purgatory, clock: Clock, place_of: Callable[[str, int], LogDir | None]
    ) -> None:
        self.purgatory = purgatory
        self.flusher = Flusher(clock, self.flushed)
        self._node = node
        self._place_of = place_of

    def appended(self, partition: Partition, committed: int = -1) -> None:
        """Wakes what waits for the partition's data, once in this loop tick.

        committed is the high watermark before the append, which moves it only where no other replica is in the ISR.
        """
        if partition.syncing:
            self.flusher.request(partition)
        if partition.leading is None:
            self.purgatory.mark(partition)
            return
        self.purgatory.mark(partition.tail)
        if partition.high_watermark != committed:
            self.committed(partition)

    def committed(self, partition: Partition) -> None:
        """The high watermark may have moved: answers acks=all and wakes consumers."""
        if partition.commits or partition.flushes:
            partition.settle()
        self.purgatory.mark(partition)

    def flushed(self, partition: Partition, error: OSError | None) -> None:
        """A flush that flush.messages asked for is over."""
        if error is None:
            self._node.changed.add(partition)  # its recovery point
            partition.advance()
            self.committed(partition)
        else:
            log_dir = self._place_of(partition.topic, partition.index)
            if log_dir is not None:
                log_dir.fail(error)
            partition.refuse_waiting(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse(self, partition: Partition, code: ErrorCode) -> None:
        """The partition is led or followed no more as it was: what waits for it is answered with the code."""
        partition.refuse_waiting(code)
        self.purgatory.mark(partition)
        self.purgatory.mark(partition.tail)
