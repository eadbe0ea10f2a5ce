"""A Produce request that was appended and waits: acks=all for the high watermark (KIP-497), acks=1 for flush.messages.

Kafka's DelayedProduce. The connection's later requests go on meanwhile; answers leave in request order all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.errors import ErrorCode
from tailrace.wire.connection import Promised
from tailrace_broker.produce.request import PartitionAppend, ProduceAnswer, ProducerConnection
from tailrace_broker.waiting.operation import DelayedOperation


class DelayedProduce(DelayedOperation):
    """One request; done when each of its partitions is committed, refused or out of time."""

    __slots__ = ("_all", "_answer", "_encode", "_open", "slot")
    connection: ProducerConnection

    def __init__(
        self,
        encode: Callable[[ProducerConnection, ProduceAnswer], bytes],
        slot: Promised,
        connection: ProducerConnection,
        answer: ProduceAnswer,
        acks: int,
    ) -> None:
        self.connection = connection
        self.done = False
        self._encode = encode
        self._all = acks == -1
        self._answer = answer
        self._open: set[PartitionAppend] = set()
        self.slot = slot

    def begin(self) -> bool:
        """Lines up at every partition that has not committed yet; True if none has to be waited for."""
        for _, appends in self._answer.topics:
            for append in appends:
                partition = append.partition
                if append.error_code or partition is None:
                    continue
                last_offset = append.appended.last_offset
                committed = not self._all or partition.high_watermark > last_offset
                if committed and self._all and not partition.enough_replicas:
                    append.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                # What a killed broker appended may be committed, sent again, and on no disk yet.
                if append.error_code or (committed and partition.durable_end > last_offset):
                    continue
                queue = partition.flushes if committed else partition.commits
                queue.line_up(last_offset + 1, self, append)
                self._open.add(append)
        if not self._open:
            self._finish()
        return self.done

    def try_complete(self, key: PartitionAppend) -> None:
        """One partition has its outcome."""
        self._open.discard(key)
        if not self._open:
            self._finish()

    def expire(self) -> None:
        """The request's own timeout: what is not committed by now is REQUEST_TIMED_OUT, though it may still be."""
        partitions = set()
        for append in self._open:
            append.error_code = ErrorCode.REQUEST_TIMED_OUT
            partitions.add(append.partition)
        self._open.clear()
        self._finish()
        for partition in partitions:
            assert partition is not None
            partition.commits.drop_done()
            partition.flushes.drop_done()
        self.connection.flush()

    def _finish(self) -> None:
        """Encodes the answer; the connection sends it with its next flush."""
        self.done = True
        self.slot.answer = [self._encode(self.connection, self._answer)]
