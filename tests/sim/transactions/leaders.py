"""Brokers: the leaders of data partitions, with the real state of producers, and what they ask coordinators (KIP-890).

What a leader has appended is committed at once; what replicas do is the other simulator's. A partition's next leader
has the same log, and no verification that the one before had begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.transactions.checker import Attempt, Checker, TopicPartition
from sim.transactions.world import Process, World
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.producers import state
from tailrace.log.producers.open_transactions import NEVER
from tailrace.log.producers.state import ProducerState
from tailrace.log.producers.verification import Verification
from tailrace.log.segment.transactions import AbortedTransaction, Marker
from tailrace.net.client import Disconnected
from tailrace.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from tailrace.records.markers import ABORT, COMMIT
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire import messages as m

if TYPE_CHECKING:
    from sim.transactions.cluster import Cluster

ADDS_FROM = 12
_VERIFY_TIMEOUT_MS = 900
_TRIES = 5
_TRY_AGAIN_MS = 20
# What the producer may try again, in a code that every client takes for that.
_NOT_VERIFIED = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


@dataclass(frozen=True, slots=True)
class Produce:
    """One batch; version: of the request."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    place: TopicPartition
    sequence: int
    count: int
    attempt: Attempt
    version: int


class Entry(NamedTuple):
    """One batch of a log."""

    header: BatchHeader
    marker: Marker | None
    attempt: Attempt | None


class Log:
    """One partition."""

    def __init__(self, place: TopicPartition, checker: Checker) -> None:
        self.place = place
        self.checker = checker
        self.entries: list[Entry] = []
        self.end_offset = 0
        self.leader = 0
        self.load()

    def load(self) -> None:
        """What a leader knows that has only the log."""
        self.producers = ProducerState()
        self.aborted: list[AbortedTransaction] = []
        for entry in self.entries:
            self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        aborted = self.producers.apply(entry.header, entry.marker)
        if aborted is not None:
            self.aborted.append(aborted)

    @property
    def last_stable_offset(self) -> int:
        transactions = self.producers.transactions
        transactions.replicated(self.end_offset)
        first = transactions.first_unstable_offset
        return self.end_offset if first == NEVER else first

    def _header(self, producer: ProducerIdAndEpoch, sequence: int, count: int, attributes: int) -> BatchHeader:
        return BatchHeader(self.end_offset, 0, 0, 2, 0, attributes, count - 1, 0, 0, *producer, sequence, count)

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Whether the producer has a transaction of that epoch open here."""
        return state.is_ongoing(self.producers.entries.get(producer.producer_id), producer.producer_epoch)

    def ask_under(self, produce: Produce, now_ms: int) -> Verification:
        """Under which verification a batch may begin a transaction, once its coordinator was asked."""
        producer_id, epoch = produce.producer
        return self.producers.verifications.begin(
            producer_id, epoch, produce.sequence, now_ms, supports_epoch_bump=produce.version >= ADDS_FROM
        )

    def append(self, produce: Produce, verified: Verification | None) -> None:
        """Raises ApiError if it is refused; a repeated batch is not, and is not written again."""
        header = self._header(produce.producer, produce.sequence, produce.count, TRANSACTIONAL)
        entry = self.producers.entries.get(header.producer_id)
        if verified is not None:
            verified.is_verified = True
        try:
            present = self.producers.verifications.get(header.producer_id)
            repeated = state.check_transactional(entry, header, present)
        finally:
            if verified is not None:
                verified.is_verified = False
        if repeated is None:
            self.checker.on_records(self.place, produce.producer, produce.attempt)
            self._write(Entry(header, None, produce.attempt))

    def mark(self, producer: ProducerIdAndEpoch, marker: Marker, transaction_version: int) -> None:
        """Ends the producer's transaction. Raises ApiError for what an older coordinator or transaction sends."""
        header = self._header(producer, -1, 1, TRANSACTIONAL | CONTROL)
        entry = self.producers.entries.get(producer.producer_id)
        state.check_marker(entry, header, marker, transaction_version)
        self.checker.on_marker(self.place, producer, marker.kind == COMMIT)
        self._write(Entry(header, marker, None))

    def _write(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.end_offset = entry.header.next_offset
        self._apply(entry)

    def read_committed(self, offset: int, limit: int) -> Iterator[Entry]:
        """As a client filters what Fetch gives: batches from offset to limit that were not aborted."""
        aborted = sorted(
            (one for one in self.aborted if one.last_offset >= offset and one.first_offset < limit),
            key=lambda one: one.first_offset,
        )
        ignored: set[int] = set()
        for entry in self.entries:
            header = entry.header
            if header.base_offset < offset or header.base_offset >= limit:
                continue
            while aborted and aborted[0].first_offset <= header.last_offset:
                ignored.add(aborted.pop(0).producer_id)
            if entry.marker is not None:
                if entry.marker.kind == ABORT:
                    ignored.discard(header.producer_id)
            elif header.producer_id not in ignored:
                yield entry


class Broker(Process):
    """Leads some of the logs."""

    def __init__(self, world: World, number: int, cluster: Cluster) -> None:
        super().__init__(world, f"broker {number}")
        self.number = number
        self.cluster = cluster

    async def serve(self, request: Any, version: int) -> Any:
        match request:
            case Produce():
                return await self._produce(request)
            case m.WriteTxnMarkersRequest():
                return self._mark(request)
            case m.InitProducerIdRequest():
                return m.InitProducerIdResponse(producer_id=next(self.cluster.producer_ids), producer_epoch=0)
        raise AssertionError(request)

    def _led(self, place: TopicPartition) -> Log:
        log = self.cluster.logs[place]
        if log.leader != self.number:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    async def _produce(self, request: Produce) -> ErrorCode:
        """The error code; a transaction's first batch waits for its coordinator."""
        try:
            log = self._led(request.place)
            if log.is_ongoing(request.producer):
                log.append(request, None)
                return ErrorCode.NONE
            verification = log.ask_under(request, self.wall_ms())
            code = await self._ask(request)
            if code:
                return code
            self._led(request.place).append(request, verification)
        except ApiError as refused:
            return refused.code
        return ErrorCode.NONE

    async def _ask(self, request: Produce) -> ErrorCode:
        adds = request.version >= ADDS_FROM
        code = ErrorCode.NONE
        for _ in range(_TRIES):
            code = await self._verified(request, adds=adds)
            if not adds or code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self.sleep(_TRY_AGAIN_MS)
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code in _NOT_VERIFIED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return code

    async def _verified(self, request: Produce, *, adds: bool) -> ErrorCode:
        row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        topic, index = request.place
        asked = m.AddPartitionsToTxnRequest(
            transactions=[
                row(
                    transactional_id=request.transactional_id,
                    producer_id=request.producer.producer_id,
                    producer_epoch=request.producer.producer_epoch,
                    verify_only=not adds,
                    topics=[row.AddPartitionsToTxnTopic(name=topic, partitions=[index])],
                )
            ]
        )
        target = self.cluster.transaction_coordinator(request.transactional_id)
        try:
            answer = await self.cluster.ask(self, target, asked, 5, _VERIFY_TIMEOUT_MS)
        except (Disconnected, TimeoutError):
            return ErrorCode.NOT_COORDINATOR
        result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return ErrorCode(result.partition_error_code)

    def _mark(self, request: Any) -> Any:
        row = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic_row = row.WritableTxnMarkerTopicResult
        markers = []
        for asked in request.markers:
            topics = []
            for topic in asked.topics:
                partitions = [
                    topic_row.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=self._mark_one(asked, (topic.name, index))
                    )
                    for index in topic.partition_indexes
                ]
                topics.append(topic_row(name=topic.name, partitions=partitions))
            markers.append(row(producer_id=asked.producer_id, topics=topics))
        return m.WriteTxnMarkersResponse(markers=markers)

    def _mark_one(self, asked: Any, place: TopicPartition) -> ErrorCode:
        marker = Marker(COMMIT if asked.transaction_result else ABORT, asked.coordinator_epoch)
        producer = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
        try:
            self._led(place).mark(producer, marker, asked.transaction_version)
        except ApiError as refused:
            return refused.code
        return ErrorCode.NONE
