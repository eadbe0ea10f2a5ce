"""Produce with less work, for the usual request: one batch for one partition, with a head that was seen before.

plain.py has the rules. What is recognised here needs none of them looked at closely: the partition is led here and its
log open, the topic looks into no batch, no disk is short of space, no batch before it was refused. Such a request is
staged beside the others and answered with one pack. Everything else, and everything with broker.fast.path=false, goes
through plain.py. tests/unit/broker/produce/test_fast.py holds the two to the same answers and the same log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tailrace.wire.hot.produce_heads import Head, Heads
from tailrace.wire.pieces import Piece
from tailrace_broker.produce.checks import ATTRIBUTES_LOW_BYTE, TRANSACTIONAL
from tailrace_broker.produce.plain import PlainProduce, ProduceParts
from tailrace_broker.produce.request import PartitionAppend, ProduceAnswer, ProducerConnection, ProduceSlot

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition


class _Request(NamedTuple):
    """One whose append waits for nobody: its answer leaves at the end of the read."""

    slot: list[Piece]
    connection: ProducerConnection
    version: int
    correlation_id: int
    head: Head
    append: PartitionAppend


class FastProduce:
    """In front of a PlainProduce."""

    def __init__(self, parts: ProduceParts, plain: PlainProduce) -> None:
        self._topics = parts.topics
        self._pressure = parts.pressure
        self._answers = parts.answers
        self._metadata = parts.rights.metadata
        self._plain = plain
        self._requests: list[_Request] = []
        self._answers_later = False  # of the request at hand, as checks.answers_later
        self._heads = Heads()

    def handle(
        self, connection: ProducerConnection, version: int, correlation_id: int, body: memoryview
    ) -> ProduceSlot:
        """As PlainProduce.handle."""
        found = self._heads.read(version, body)
        if found is None:
            return self._plain.handle(connection, version, correlation_id, body)
        head, records = found
        session = connection.session
        if session.restricted and (
            session.grants.rules is not self._metadata.image.acls or (head.by_id, head.key) not in session.grants.write
        ):
            return self._plain.handle(connection, version, correlation_id, body)
        append = None
        if connection.refused_batches is None or not connection.refused_batches.awaits((head.key, head.index)):
            append = self._stage(head, records)
        if append is None:
            return self._plain.handle(connection, version, correlation_id, body)
        # Here and below without the keyword handling of a NamedTuple, as every request pays for it.
        if head.acks and not self._answers_later:
            slot: list[Piece] = []
            self._requests.append(tuple.__new__(_Request, (slot, connection, version, correlation_id, head, append)))
            return slot
        answer = tuple.__new__(ProduceAnswer, (version, correlation_id, ((head.key, (append,)),), None, head))
        return self._plain.take_up(connection, head.acks, head.timeout_ms, answer, self._answers_later)

    def _stage(self, head: Head, records: memoryview) -> PartitionAppend | None:
        """Puts the batch beside the others of this read; None if something has to be looked at closely."""
        partition: Partition | None = head.place
        if partition is None or partition.leader != self._topics.node_id:
            partition, _ = self._topics.leading(head.key, head.index, by_id=head.by_id)
            if partition is None or partition.internal:
                return None
            head.place = partition
        acks = head.acks
        log = partition.opened
        if (
            log is None
            or log.limits.looks
            or self._pressure.any
            or len(records) <= ATTRIBUTES_LOW_BYTE
            or records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL
            or (acks != 1 and not (acks == 0 or (acks == -1 and partition.enough_replicas)))
        ):
            return None
        append = PartitionAppend(head.index, partition, 0)
        self._plain.stage(partition, records, append)
        self._answers_later = log.limits.flushes or (acks == -1 and partition.leading is not None)
        return append

    def end_of_read(self) -> None:
        """Appends what was staged, then fills every request's slot."""
        self._plain.end_of_read()
        if not self._requests:
            return
        requests, self._requests = self._requests, []
        for slot, connection, version, correlation_id, head, append in requests:
            if append.error_code or append.partition is None:
                refused = ProduceAnswer(version, correlation_id, ((head.key, (append,)),), None)
                slot.append(self._answers.encode_refused(connection, refused))
            else:
                _, base_offset, _, time_ms, _, _ = append.appended
                log_start_offset = append.partition.log.log_start_offset
                slot.append(head.answer(correlation_id, base_offset, time_ms, log_start_offset))
