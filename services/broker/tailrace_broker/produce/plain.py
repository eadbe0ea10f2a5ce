"""Produce v3-13: each request is decoded, its batches checked, appended, waited for and answered. Read this first.

v7: zstd (KIP-110). v8: record errors (KIP-467). v10: leader hints (KIP-951). v13: topic ids (KIP-516).

    handle         decode -> a PartitionAppend for each partition, staged or refused (checks.py, refused_batches.py)
    end_of_read    append -> one write a partition, of all batches that one read of the socket brought, in their order
                   answer -> at once (answers.py), or when acks=all and flush.messages have what they wait for
                             (delayed.py); the connection's next requests go on meanwhile

A handler never awaits before the append, so a connection's batches keep their order. Batches stay opaque: the log
checks header and CRC, stamps offset and epoch. Where a topic asks for more than a batch's header says (Limits.looks),
the batch is examined first (validation.py).

A batch that begins a transaction in a log is held until the transaction's coordinator has answered (verification.py).

While a log dir has too little space, clients' answers carry throttle_time_ms and their connections are muted for that
long (KIP-219), then they are refused with KAFKA_STORAGE_ERROR, which every client tries again
(directories/disk_pressure.py).

fast.py does the same for the usual request with less work, many_rows.py for one of many partitions, a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.access.resources import AclOperation
from tailrace.errors import ErrorCode
from tailrace.log.directory.disk_pressure import Level
from tailrace.log.limits import Examined
from tailrace.log.producers.verification import Verification, admit
from tailrace.net.session import ClientSession
from tailrace.records.batch import HEADER_SIZE, WritableBytes, read_header
from tailrace.wire.connection import Promised
from tailrace.wire.hot.produce import ManyRows, Produce, ProducePartition, decode_produce
from tailrace.wire.pieces import Piece
from tailrace_broker.produce import checks
from tailrace_broker.produce.delayed import DelayedProduce
from tailrace_broker.produce.refused_batches import MISSING, RefusedBatches
from tailrace_broker.produce.request import (
    TOPIC_IDS_FROM,
    PartitionAppend,
    ProduceAnswer,
    ProducerConnection,
    ProduceSlot,
    StagedRequest,
    ThrottleTimes,
)
from tailrace_broker.produce.validation import DeferredAnswer, Validation, ValidationInThread
from tailrace_broker.produce.validation_threads import MOST_HELD_BYTES
from tailrace_broker.produce.verification import (
    ACKS,
    HeldRequest,
    Verdict,
    Verifier,
    is_transactional,
)

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.metadata.image import MetadataImage
    from tailrace_broker.directories.disk_pressure import DiskPressure
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.metrics import BrokerMetrics
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.partitions.wakeups import WakeUps
    from tailrace_broker.produce.answers import ProduceAnswers
    from tailrace_broker.produce.validation_threads import Examiner
    from tailrace_broker.produce.verification import Key
    from tailrace_broker.topic_rights import TopicRights
    from tailrace_broker.transactions.coordinators import Coordinators

MOST_AT_ONCE: Final = 250  # topics and partitions
Encode: TypeAlias = Callable[[ProducerConnection, ProduceAnswer], bytes]
Handler: TypeAlias = Callable[[ProducerConnection, int, int, memoryview, int], ProduceSlot]


@dataclass(frozen=True)
class ProduceParts:
    """What the paths of Produce share in one broker."""

    topics: Topics
    wakeups: WakeUps
    pressure: DiskPressure
    image: Callable[[], MetadataImage]
    examiner: Examiner
    coordinators: Coordinators
    answers: ProduceAnswers
    config: DynamicBrokerConfig
    metrics: BrokerMetrics
    clock: Clock
    rights: TopicRights
    held: dict[Key, HeldRequest] = field(default_factory=dict)  # see Verifier


class PlainProduce:
    """The state between the frames of one socket read and the appends they become."""

    def __init__(self, parts: ProduceParts, many_rows: Handler | None = None, encode: Encode | None = None) -> None:
        """many_rows handles what has too many for one go. encode: what is made of an answer, if not its frame."""
        self._topics = parts.topics
        self._rights = parts.rights
        self._wakeups = parts.wakeups
        self._pressure = parts.pressure
        self._image = parts.image
        self._metrics = parts.metrics
        self._clock = parts.clock
        self._many_rows = many_rows
        self.encode: Encode = encode or parts.answers.encode
        self._staged: dict[Partition, tuple[list[WritableBytes], list[PartitionAppend]]] = {}
        self._answers_later = False  # whether the request at hand has an append that may not be answered at once
        self._disk_throttle_ms = 0  # what the disk asks of the request at hand
        self._refused_batches: RefusedBatches | None = None  # of the connection at hand
        self._examined_bytes = 0  # of what is staged: it may be more than the frames were
        self._validation = Validation(parts.topics, parts.examiner, parts.clock, self)
        self._verifier = Verifier(
            parts.topics, parts.rights, parts.coordinators, parts.config, parts.metrics, parts.clock, parts.held, self
        )
        self._verified: list[Verification] = []  # under which staged batches may begin transactions
        self._requests: list[StagedRequest] = []

    def handle(
        self,
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        body: memoryview,
        throttle_time_ms: int = 0,
    ) -> ProduceSlot:
        """The slot for the answer, which is filled at the end of the read or later; None for acks=0.

        throttle_time_ms: what a quota asks of the client, which is muted for that time already.
        """
        try:
            request = decode_produce(version, body, MOST_AT_ONCE)
        except ManyRows:
            assert self._many_rows is not None
            return self._many_rows(connection, version, correlation_id, body, throttle_time_ms)
        return self.serve(connection, version, correlation_id, request, throttle_time_ms)

    def serve(
        self,
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        request: Produce,
        throttle_time_ms: int = 0,
    ) -> ProduceSlot:
        """As handle, of a request that is decoded."""
        service = connection.session.is_service
        verdict = None
        if is_transactional(request) and not service:
            found = self._verifier.admit(connection, version, correlation_id, request)
            if type(found) is HeldRequest:
                found.throttle_time_ms = throttle_time_ms
                return found.slot.future if type(found.slot) is DeferredAnswer else found.slot
            assert type(found) is Verdict
            verdict = found
        answer = self._staged_answer(connection, version, correlation_id, request, throttle_time_ms, verdict)
        if self._validation.has_work:
            staged = StagedRequest(DeferredAnswer(), connection, request.acks, request.timeout_ms, answer)
            return self._validation.in_a_thread(staged)
        return self.take_up(connection, request.acks, request.timeout_ms, answer, self._answers_later)

    def _staged_answer(
        self,
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        request: Produce,
        throttle_time_ms: int,
        verdict: Verdict | None,
    ) -> ProduceAnswer:
        """Stages the request's batches, or notes why not. verdict: of a request with transactional ones."""
        _, acks, _, requested = request
        service = connection.session.is_service
        topics: list[tuple[bytes, list[PartitionAppend]]] = []
        self._refused_batches = connection.refused_batches
        self._answers_later, self._disk_throttle_ms = False, 0
        session = connection.session
        for key, partitions in requested:
            if session.restricted and (refused := self._unauthorized(session, key, version)):
                appends = [PartitionAppend(asked.partition, None, refused) for asked in partitions]
            elif verdict is not None:
                appends = [self._stage_verified(key, asked, version, acks, verdict) for asked in partitions]
            elif acks not in ACKS:
                code = ErrorCode.INVALID_REQUIRED_ACKS
                appends = [PartitionAppend(asked.partition, None, code) for asked in partitions]
            else:
                appends = [self._stage(key, asked, version, acks, service) for asked in partitions]
            topics.append((key, appends))
        if self._refused_batches is not None and not self._refused_batches:
            connection.refused_batches = None
        return ProduceAnswer(version, correlation_id, topics, self._throttle(throttle_time_ms))

    def _unauthorized(self, session: ClientSession, key: bytes, version: int) -> int:
        by_id = version >= TOPIC_IDS_FROM
        return self._rights.refusal(session, AclOperation.WRITE, key, by_id=by_id)

    def serve_held(self, held: HeldRequest, on_appended: Callable[[], None]) -> bool:
        """Stages a request whose coordinator has answered; whether end_of_read appends all of it."""
        request, connection = held.request, held.connection
        answer = self._staged_answer(
            connection, held.version, held.correlation_id, request, held.throttle_time_ms, held.verdict
        )
        if not self._validation.has_work:
            self._requests.append(StagedRequest(held.slot, connection, request.acks, request.timeout_ms, answer))
            return True
        staged = StagedRequest(DeferredAnswer(), connection, request.acks, request.timeout_ms, answer)

        def examined(done: asyncio.Future[list[Piece]]) -> None:
            if done.cancelled() or done.exception() is not None:
                connection.close()
            elif held.slot is not None:
                held.slot.answer = done.result()
                connection.flush()
            on_appended()

        self._validation.in_a_thread(staged).add_done_callback(examined)
        return False

    def take_up(
        self, connection: ProducerConnection, acks: int, timeout_ms: int, answer: ProduceAnswer, answers_later: bool
    ) -> ProduceSlot:
        """Remembers the request until the end of the read; the slot for its answer."""
        slot: list[Piece] | Promised = Promised() if answers_later and acks else []
        # Without the keyword handling of a NamedTuple, as every request pays for it.
        self._requests.append(tuple.__new__(StagedRequest, (slot, connection, acks, timeout_ms, answer)))
        return None if acks == 0 else slot

    # -- validate ----------------------------------------------------------------------------------------------------

    def _stage(
        self,
        key: bytes,
        asked: ProducePartition,
        version: int,
        acks: int,
        service: bool,
        again: tuple[PartitionAppend, Examined] | None = None,
        verified: Verification | None = None,
    ) -> PartitionAppend:
        """Puts a partition's batch beside the others of this read, or notes why not; again: it was examined since.

        verified: it may begin its producer's transaction (verification.py).
        """
        partition, code = self._topics.leading(key, asked.partition, by_id=version >= TOPIC_IDS_FROM)
        if partition is not None:
            alone = partition not in self._staged
            code = checks.refusal(self._image, partition, asked, version, acks, service=service, alone=alone)
        append, examined = (PartitionAppend(asked.partition, partition, code), None) if again is None else again
        append.partition, append.error_code = partition, code
        if code or partition is None:
            return append
        if not asked.records:
            append.refuse(ErrorCode.INVALID_RECORD, "the request holds no record batch")
            return append
        if self._refused_batches is not None and again is None and self._misses_one(partition, key, asked):
            append.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, MISSING)
            return append
        if self._pressure.any and not partition.internal and not self._has_room(partition, append):
            return append
        if examined is None and (limits := checks.examines(partition)) is not None:
            examined = self._validation.at_once(append, key, asked, limits, verified)
            if examined is None:
                return append
        if verified is not None:
            self._verified.append(verified)
        self.stage(partition, examined or asked.records, append)
        self._answers_later = checks.answers_later(partition, acks) or self._answers_later
        self._examined_bytes += 0 if examined is None else len(examined)
        if self._examined_bytes >= MOST_HELD_BYTES:
            self.append_staged()
        return append

    def _stage_verified(
        self, key: bytes, asked: ProducePartition, version: int, acks: int, verdict: Verdict
    ) -> PartitionAppend:
        """As _stage, for a partition of a request about which a coordinator was asked."""
        place = (key, asked.partition)
        if (refused := verdict.whole or verdict.refused.get(place)) is not None:
            append = PartitionAppend(asked.partition, None, refused.error_code)
            append.refuse(refused.error_code, refused.message)
            return append
        return self._stage(key, asked, version, acks, False, verified=verdict.verified.get(place))

    def stage(self, partition: Partition, records: WritableBytes, append: PartitionAppend) -> None:
        """Puts the batch beside the others of this read."""
        staged = self._staged.get(partition)
        if staged is None:
            self._staged[partition] = ([records], [append])
        else:
            staged[0].append(records)
            staged[1].append(append)

    def stage_examined(
        self, request: StagedRequest, examined: list[tuple[ValidationInThread, Examined]]
    ) -> StagedRequest:
        """Puts what a thread examined of a request beside the others; the request with what the disk asks of it."""
        _, connection, acks, _, answer = request
        self._disk_throttle_ms = 0 if answer.throttle is None else answer.throttle.disk_ms
        service = connection.session.is_service
        for one, batch in examined:
            self._stage(one.key, one.asked, answer.version, acks, service, (one.append, batch), one.verified)
        return request._replace(answer=answer._replace(throttle=self._throttle(answer.throttle_time_ms)))

    def _throttle(self, throttle_time_ms: int) -> ThrottleTimes | None:
        """With what the disk asks of the request at hand, beside what was asked of it before."""
        longest_ms = max(throttle_time_ms, self._disk_throttle_ms)
        return ThrottleTimes(longest_ms, self._disk_throttle_ms) if longest_ms else None

    def _misses_one(self, partition: Partition, key: bytes, asked: ProducePartition) -> bool:
        """Whether the batch was sent behind one that was refused, and cannot come without it."""
        refused, records = self._refused_batches, asked.records
        place = (key, asked.partition)
        if refused is None or records is None or len(records) < HEADER_SIZE or not refused.awaits(place):
            return False
        if partition in self._staged:
            self.append_staged()  # the batch before it may be there
        try:
            producers = partition.log.producers
        except OSError:
            return False  # the append says so
        header = read_header(records)
        return refused.misses(place, producers.entries.get(header.producer_id), header)

    def _has_room(self, partition: Partition, append: PartitionAppend) -> bool:
        """Whether its disk takes a client's batch, and after which pause the next; refuses the append if not."""
        pressure = self._pressure
        found = pressure.on(partition)
        if found is None:
            return True
        log_dir, there = found
        self._disk_throttle_ms = max(self._disk_throttle_ms, there.throttle_time_ms)
        if there.level != Level.REFUSED:
            return True
        pressure.refused_batches += 1
        append.refuse(ErrorCode.KAFKA_STORAGE_ERROR, there.sentence(log_dir.path))
        return False

    # -- append ------------------------------------------------------------------------------------------------------

    def append_staged(self) -> None:
        """One write a partition; every append has its outcome then."""
        staged, self._staged, self._examined_bytes = self._staged, {}, 0
        if verified := self._verified:
            self._verified = []
            admit(verified, True)
        now_ms, metrics = self._clock.wall_ms(), self._metrics
        written_bytes = 0
        for partition, (batches, appends) in staged.items():
            committed, bytes_in, messages_in = partition.high_watermark, 0, 0
            outcomes = partition.append(batches, now_ms, from_client=not partition.internal)
            for append, batch, outcome in zip(appends, batches, outcomes, strict=True):
                append.appended = outcome
                if outcome[0]:
                    append.error_code = outcome[0]
                    if outcome[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.comes_early(batch):
                        append.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, MISSING)
                else:
                    size = len(batch)
                    written_bytes += size
                    bytes_in += batch.sent_bytes if type(batch) is Examined else size  # as Kafka counts
                    messages_in += outcome[2] - outcome[1] + 1
            traffic = self._topics.traffic(partition.topic.encode(), by_id=False)
            traffic.bytes_in += bytes_in
            traffic.messages_in += messages_in
            metrics.bytes_in += bytes_in
            metrics.messages_in += messages_in
            self._wakeups.appended(partition, committed)
        if verified:
            admit(verified, False)
        self._pressure.appended(written_bytes)

    # -- wait and answer ---------------------------------------------------------------------------------------------

    def end_of_read(self) -> None:
        """Appends what was staged, then fills every request's slot, or has it wait for what it needs."""
        self._validation.end_of_read()
        if self._staged:
            self.append_staged()
        if not self._requests:
            return
        requests, self._requests = self._requests, []
        for slot, connection, acks, timeout_ms, answer in requests:
            if answer.throttle is not None and answer.throttle.disk_ms:
                self._pressure.throttled_requests += 1
                connection.mute(answer.throttle.disk_ms)
            if type(slot) is list and acks:
                slot.append(self.encode(connection, answer))
            elif acks:
                assert isinstance(slot, Promised)
                delayed = DelayedProduce(self.encode, slot, connection, answer, acks)
                if not delayed.begin():
                    self._wakeups.purgatory.line_up(delayed, max(0, timeout_ms))
            elif any(append.error_code for _, appends in answer.topics for append in appends):
                connection.close()  # acks=0 expects no answer: the only way to tell of an error

    def end(self, request: StagedRequest) -> None:
        """The last of a request's batches were examined: appends what was staged, and answers."""
        self._requests.append(request)
        self.end_of_read()
