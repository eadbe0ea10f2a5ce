"""Produce v3-13. v7: zstd (KIP-110). v8: record errors (KIP-467). v10: leader hints (KIP-951). v13: topic ids.

While a log dir has too little space, clients' answers carry throttle_time_ms and their connections are muted for that
long (KIP-219), then they are refused with KAFKA_STORAGE_ERROR, which every client tries again
(directories/disk_pressure.py).

Batches stay opaque: the log checks header and CRC, stamps offset and epoch. All batches that one read of a socket
brought for a partition go out with one write (`end_of_read`), in the order they came; a handler never awaits before
the append. acks=all waits for the high watermark (waiting/acks.py) while the connection's next requests go on.

Where a topic asks for more than a batch's header says (Limits.looks), the batch is examined first
(produce/validation.py).
What comes without the refused batch before it is refused, too (produce/refused_batches.py).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from tailrace.errors import ErrorCode
from tailrace.log.directory.disk_pressure import Level
from tailrace.log.limits import Examined
from tailrace.net.answering import Promised
from tailrace.net.dispatch import HotHandler
from tailrace.records.batch import HEADER_SIZE, WritableBytes, read_header
from tailrace.wire import codec
from tailrace.wire.messages import ProduceResponse
from tailrace.wire.produce import ProducePartition, decode_produce, encode_produce_answer, with_throttle
from tailrace.wire.produce_heads import Head, Heads
from tailrace_broker.produce.refused_batches import MISSING, RETRIED, RefusedBatches
from tailrace_broker.produce.request import Answer, Cell, Open, Usual
from tailrace_broker.produce.validation import Examining, Later, Long, looking
from tailrace_broker.produce.validation_threads import MOST_HELD_BYTES
from tailrace_broker.waiting.acks import AcksWait

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partitions.partition import Partition

_BASE_OFFSET = Struct(">q")
_ZSTD = 4
_TRANSACTIONAL = 0x10
_COMPRESSION_MASK = 0x07
_ATTRIBUTES_LOW_BYTE = 22
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _waits(partition: Partition, acks: int) -> bool:
    """Whether an append there may not be answered at once: other replicas, or flush.messages."""
    if acks == -1 and partition.leading is not None:
        return True
    log = partition.opened
    return log is None or log.limits.flushes


class ProducePath:
    """The state between the frames of one socket read and the appends they become."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._staged: dict[Partition, tuple[list[WritableBytes], list[Cell]]] = {}
        self._waits = False  # whether the request at hand has an append that may not be answered at once
        self._throttle_ms = 0  # what the disk asks of the request at hand
        self._refused_batches: RefusedBatches | None = None  # of the connection at hand
        self._examined_bytes = 0  # of what is staged: it may be more than the frames were
        self._examining = Examining(broker, self)
        self._open: list[Open] = []
        self._usual: list[Usual] = []
        self._heads = Heads()

    @property
    def handle(self) -> HotHandler:
        return self._handle

    def _handle(self, connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        usual = self._heads.read(version, body)
        if connection.refused_batches is not None and usual is not None:
            usual = None if connection.refused_batches.awaits((usual[0].key, usual[0].index)) else usual
        if usual is not None and (cell := self._stage_usual(*usual)) is not None:
            head = usual[0]
            # Here and in _take_up without the keyword handling of a NamedTuple, as every request pays for it.
            if head.acks and not self._waits:
                slot: list[Any] = []
                self._usual.append(tuple.__new__(Usual, (slot, connection, version, correlation_id, head, cell)))
                return slot
            answer = tuple.__new__(Answer, (version, correlation_id, ((head.key, (cell,)),), 0, head))
            return self._take_up(connection, head.acks, head.timeout_ms, answer)
        request = decode_produce(version, body)
        service = connection.identity.listener == "INTERNAL"
        refusal = ErrorCode.NONE if request.acks in (-1, 0, 1) else ErrorCode.INVALID_REQUIRED_ACKS
        topics: list[tuple[bytes, list[Cell]]] = []
        self._refused_batches = connection.refused_batches
        self._waits = False
        self._throttle_ms = 0
        for key, partitions in request.topics:
            if refusal:
                cells = [Cell(asked.partition, None, refusal) for asked in partitions]
            else:
                cells = [self._stage(key, asked, version, service, request.acks) for asked in partitions]
            topics.append((key, cells))
        if self._refused_batches is not None and not self._refused_batches:
            connection.refused_batches = None
        answer = Answer(version, correlation_id, topics, self._throttle_ms)
        if self._examining.is_waited_for:
            return self._examining.in_a_thread(Open(Later(), connection, request.acks, request.timeout_ms, answer))
        return self._take_up(connection, request.acks, request.timeout_ms, answer)

    def _take_up(self, connection: Any, acks: int, timeout_ms: int, answer: Answer) -> Any:
        """Remembers the request until the end of the read; the slot for its answer."""
        slot: Any = Promised() if self._waits and acks else []
        self._open.append(tuple.__new__(Open, (slot, connection, acks, timeout_ms, answer)))
        return None if acks == 0 else slot

    def stage_examined(self, opened: Open, examined: list[tuple[Long, Examined]]) -> Open:
        """Puts what a thread examined of a request beside the others; the request with what the disk asks of it."""
        _, connection, acks, _, answer = opened
        self._throttle_ms = answer.throttle_time_ms
        service = connection.identity.listener == "INTERNAL"
        for one, batch in examined:
            self._stage(one.key, one.asked, answer.version, service, acks, (one.cell, batch))
        return opened._replace(answer=answer._replace(throttle_time_ms=self._throttle_ms))

    def end(self, opened: Open) -> None:
        """The last of a request's batches were examined: appends what was staged, and answers."""
        self._open.append(opened)
        self.end_of_read()

    def _stage_usual(self, head: Head, records: memoryview) -> Cell | None:
        """As _stage, where nothing has to be looked at closely; None if something has."""
        partition: Partition | None = head.place
        if partition is None or partition.leader != self._broker.node_id:
            partition, _ = self._broker.leading(head.key, head.index, by_id=head.by_id)
            if partition is None or partition.internal:
                return None
            head.place = partition
        acks = head.acks
        log = partition.opened
        if (
            log is None
            or log.limits.looks
            or self._broker.pressure.any
            or len(records) <= _ATTRIBUTES_LOW_BYTE
            or records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL
            or (acks != 1 and not (acks == 0 or (acks == -1 and partition.enough_replicas)))
        ):
            return None
        cell = Cell(head.index, partition, 0)
        self._line_up(partition, records, cell)
        self._waits = log.limits.flushes or (acks == -1 and partition.leading is not None)  # as _waits
        return cell

    def _line_up(self, partition: Partition, records: WritableBytes, cell: Cell) -> None:
        """Puts the batch beside the others of this read."""
        staged = self._staged.get(partition)
        if staged is None:
            self._staged[partition] = ([records], [cell])
        else:
            staged[0].append(records)
            staged[1].append(cell)

    def _stage(
        self,
        key: bytes,
        asked: ProducePartition,
        version: int,
        service: bool,
        acks: int,
        again: tuple[Cell, Examined] | None = None,
    ) -> Cell:
        """Puts a partition's batch beside the others of this read, or notes why not; again: it was examined since."""
        partition, refusal = self._broker.leading(key, asked.partition, by_id=version >= 13)
        records = asked.records
        if partition is not None:
            refusal = self._refusal(partition, asked, version, service)
            if acks == -1 and not refusal and partition.leading is not None and not partition.enough_replicas:
                refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        cell, examined = (Cell(asked.partition, partition, refusal), None) if again is None else again
        cell.partition, cell.error_code = partition, refusal
        if refusal or partition is None:
            return cell
        if not records:
            cell.refuse(ErrorCode.INVALID_RECORD, "the request holds no record batch")
            return cell
        if self._refused_batches is not None and again is None and self._misses_one(partition, key, asked):
            cell.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, MISSING)
            return cell
        if self._broker.pressure.any and not partition.internal and not self._has_room(partition, cell):
            return cell
        if examined is None and (limits := looking(partition)) is not None:
            examined = self._examining.at_once(cell, key, asked, limits)
            if examined is None:
                return cell
        self._line_up(partition, examined or records, cell)
        self._waits = _waits(partition, acks) or self._waits
        self._examined_bytes += 0 if examined is None else len(examined)
        if self._examined_bytes >= MOST_HELD_BYTES:
            self.append_staged()
        return cell

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

    def _has_room(self, partition: Partition, cell: Cell) -> bool:
        """Whether its disk takes a client's batch, and after which pause the next; fills the cell if not."""
        pressure = self._broker.pressure
        found = pressure.on(partition)
        if found is None:
            return True
        log_dir, there = found
        self._throttle_ms = max(self._throttle_ms, there.throttle_time_ms)
        if there.level != Level.REFUSED:
            return True
        pressure.refused_batches += 1
        cell.refuse(ErrorCode.KAFKA_STORAGE_ERROR, there.sentence(log_dir.path))
        return False

    def _refusal(self, partition: Partition, asked: ProducePartition, version: int, service: bool) -> int:
        """Why a partition led here does not take this batch; what the log itself checks comes with the append."""
        if partition.internal and (code := self._fenced(partition, asked, service)):
            return code
        records = asked.records
        if records is not None and len(records) > _ATTRIBUTES_LOW_BYTE:
            attributes = records[_ATTRIBUTES_LOW_BYTE]
            if attributes & _TRANSACTIONAL and not service:
                # Until transactions exist; the code every client treats as final. The request's transactional id does
                # not matter: Apache Kafka looks at the batches, too, and takes plain ones under any.
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if version < 7 and attributes & _COMPRESSION_MASK == _ZSTD:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE  # KIP-110: not before Produce v7
        return ErrorCode.NONE

    def _fenced(self, partition: Partition, asked: ProducePartition, service: bool) -> int:
        """Internal topics take appends from their shard's owner only, in the shard epoch that a controller gave it.

        A batch whose base offset is set says where its owner believes the log ends: an append that was given up for
        lost and comes late, after the same owner fenced and read again, must not land behind what was decided since.
        """
        if not service or asked.shard_epoch < 0:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if code := self._broker.refuse_shard_epoch(partition, asked.shard_epoch):
            return code
        if asked.records is not None and len(asked.records) >= _BASE_OFFSET.size:
            (expected,) = _BASE_OFFSET.unpack_from(asked.records)
            if expected and (expected != partition.log.log_end_offset or partition in self._staged):
                return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def end_of_read(self) -> None:
        """Appends what was staged, then fills every request's slot."""
        self._examining.end_of_read()
        if self._staged:
            self.append_staged()
        if self._usual:
            self._answer_usual()
        if self._open:
            opened, self._open = self._open, []
            for slot, connection, acks, timeout_ms, answer in opened:
                if answer.throttle_time_ms:
                    self._broker.pressure.throttled_requests += 1
                    connection.mute(answer.throttle_time_ms)
                if type(slot) is list and acks:
                    slot.append(self.encode(connection, answer))
                elif acks:
                    wait = AcksWait(self.encode, slot, connection, answer, acks)
                    if not wait.begin():
                        self._broker.purgatory.line_up(wait, max(0, timeout_ms))
                elif any(cell.error_code for _, cells in answer.topics for cell in cells):
                    connection.close()  # acks=0 expects no answer: the only way to tell of an error

    def _answer_usual(self) -> None:
        """Fills the slots of requests that wait for nobody."""
        usual, self._usual = self._usual, []
        for slot, connection, version, correlation_id, head, cell in usual:
            if cell.error_code or cell.partition is None:
                refused = Answer(version, correlation_id, ((head.key, (cell,)),), 0)
                slot.append(self._encode_refused(connection, refused))
            else:
                _, base_offset, _, time_ms, _, _ = cell.appended
                log_start_offset = cell.partition.log.log_start_offset
                slot.append(head.answer(correlation_id, base_offset, time_ms, log_start_offset))

    def append_staged(self) -> None:
        """One write a partition; every cell has its answer then."""
        staged, self._staged, self._examined_bytes = self._staged, {}, 0
        now_ms, metrics = self._broker.now_ms(), self._broker.metrics
        bytes_in = messages_in = written_bytes = 0
        for partition, (batches, cells) in staged.items():
            committed = partition.high_watermark
            answers = partition.append(batches, now_ms, from_client=not partition.internal)
            for cell, batch, answer in zip(cells, batches, answers, strict=True):
                cell.appended = answer
                if answer[0]:
                    cell.error_code = answer[0]
                    if answer[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.comes_early(batch):
                        cell.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, MISSING)
                else:
                    size = len(batch)
                    written_bytes += size
                    bytes_in += batch.sent_bytes if type(batch) is Examined else size  # as Kafka counts
                    messages_in += answer[2] - answer[1] + 1
            self._broker.appended(partition, committed)
        metrics.bytes_in += bytes_in
        metrics.messages_in += messages_in
        self._broker.pressure.appended(written_bytes)

    def encode(self, connection: Any, answer: Answer) -> bytes:
        """The answer's frame, once every cell is filled."""
        version, correlation_id, topics, throttle_ms, head = answer
        if head is not None:
            cell = topics[0][1][0]
            if not cell.error_code and cell.partition is not None:
                _, base_offset, _, time_ms, _, _ = cell.appended
                return head.answer(correlation_id, base_offset, time_ms, cell.partition.log.log_start_offset)
        plain = []
        for key, cells in topics:
            rows = []
            for cell in cells:
                if cell.error_code or cell.partition is None:
                    return self._encode_refused(connection, answer)
                _, base_offset, _, time_ms, _, _ = cell.appended
                rows.append((cell.partition_id, 0, base_offset, time_ms, cell.partition.log.log_start_offset))
            plain.append((key, rows))
        frame = encode_produce_answer(version, correlation_id, plain)
        return with_throttle(version, frame, throttle_ms) if throttle_ms else frame

    def _encode_refused(self, connection: Any, refused: Answer) -> bytes:
        """With messages and leader hints: rare, so the schema-driven codec writes it."""
        version, correlation_id, topics, throttle_ms, _ = refused
        self._broker.metrics.failed_produce_requests += sum(bool(c.error_code) for _, cells in topics for c in cells)
        topic = ProduceResponse.TopicProduceResponse
        row = topic.PartitionProduceResponse
        by_id = version >= 13
        answers, hinted = [], set()
        for key, cells in topics:
            rows = []
            for cell in cells:
                appended = cell.appended
                if cell.error_code in RETRIED and appended.error_message is not MISSING:
                    if connection.refused_batches is None:
                        connection.refused_batches = RefusedBatches()
                    connection.refused_batches.refused((key, cell.partition_id))
                answer = row(
                    index=cell.partition_id,
                    error_code=int(cell.error_code),
                    base_offset=appended.base_offset,
                    log_append_time_ms=appended.log_append_time_ms,
                    error_message=appended.error_message,
                )
                answer.record_errors = [
                    row.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=appended.error_message)
                    for index in appended.record_errors
                ]
                known = not cell.error_code or appended.record_errors
                if known and cell.partition is not None and cell.partition.opened is not None:
                    answer.log_start_offset = cell.partition.opened.log_start_offset
                else:
                    answer.log_start_offset = -1
                if cell.error_code in _HINTED and version >= 10:
                    hint = self._broker.leader_hint(key, cell.partition_id)
                    if hint is not None:
                        answer.current_leader = row.LeaderIdAndEpoch(leader_id=hint[0], leader_epoch=hint[1])
                        hinted.add(hint[0])
                rows.append(answer)
            named = {"topic_id": self._broker.uuid(key)} if by_id else {"name": key.decode()}
            answers.append(topic(partition_responses=rows, **named))
        response = ProduceResponse(responses=answers, throttle_time_ms=throttle_ms)
        if hinted and version >= 10:
            endpoint = ProduceResponse.NodeEndpoint
            response.node_endpoints = [
                endpoint(node_id=node, host=host, port=port, rack=None)
                for node, host, port in self._broker.endpoints(hinted, connection.identity)
            ]
        return codec.encode_response(response, version, correlation_id)
