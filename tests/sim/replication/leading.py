"""A simulated broker as a leader: it answers followers, producers and readers, and proposes changes of the ISR."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sim.replication.checker import TOPIC
from sim.replication.clients import Produce, Produced, Read, ReadAnswer
from sim.replication.controllers import Answer
from sim.replication.following import FollowerFetch
from sim.replication.network import Reply
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.wire.messages import AlterPartitionRequest
from tailrace_broker.partitions.leader import IsrChange
from tailrace_broker.partitions.partition import Fetched, FetchIsolation, Partition
from tailrace_broker.produce.refused_batches import MISSING

if TYPE_CHECKING:
    from sim.replication.brokers import Broker

FETCH_BYTES = 600


@dataclass(slots=True)
class _Parked:
    """A follower's fetch that waits for records or for news of the high watermark."""

    request: FollowerFetch
    high_watermark: int
    reply: Reply
    done: bool = False


@dataclass(slots=True, eq=False)
class _Ack:
    """A produce request that waits for the high watermark."""

    reply: Reply
    answer: Produced
    value: bytes
    done: bool = False


class Leading:
    """What waits at the leader in one life of a broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._parked: dict[int, list[_Parked]] = {}
        self._acks: dict[int, list[_Ack]] = {}
        self._proposing: set[int] = set()

    def refuse_waiters(self, index: int) -> None:
        """The role changed: who waits must ask the new leader."""
        for ack in self._acks.pop(index, ()):
            ack.done = True
            ack.reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for parked in self._parked.pop(index, ()):
            parked.done = True
            parked.reply(Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1))

    # -- followers ---------------------------------------------------------------------------------------------------

    def on_follower_fetch(self, request: FollowerFetch, reply: Reply) -> None:
        """Answered when there are records, a divergence, an error, or after a while."""
        broker = self.broker
        replica = broker.partitions.get(request.partition)
        if replica is None or replica.leading is None:
            reply(Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1))
            return
        try:
            replica.check_epoch(request.leader_epoch)
            diverging = replica.on_fetch_position(request.broker_id, request.broker_epoch, request.position)
        except ApiError as refused:
            reply(Fetched(refused.code, -1, replica.log.log_start_offset))
            return
        if diverging is not None:
            reply(Fetched(ErrorCode.NONE, replica.high_watermark, replica.log.log_start_offset, b"", diverging))
            return
        self.moved(request.partition)
        parked = _Parked(request, replica.high_watermark, reply)
        if request.position.offset < replica.log.log_end_offset or _starts_earlier(replica, request):
            self._answer(replica, parked)
            return
        self._parked.setdefault(request.partition, []).append(parked)
        broker.after(broker.settings.fetch_wait_ms, self._give_up, replica, parked)

    def _give_up(self, replica: Partition, parked: _Parked) -> None:
        if not parked.done and replica.leading is not None:
            self._answer(replica, parked)

    def _answer(self, replica: Partition, parked: _Parked) -> None:
        parked.done = True
        offset = parked.request.position.offset
        try:
            records = replica.read(offset, FETCH_BYTES, FetchIsolation.LOG_END, min_one=True).read()
        except ApiError as refused:  # deleted while it waited
            parked.reply(Fetched(refused.code, -1, replica.log.log_start_offset))
            return
        parked.reply(Fetched(ErrorCode.NONE, replica.high_watermark, replica.log.log_start_offset, records))

    def moved(self, index: int) -> None:
        """The log, the ISR or a follower's position moved: the high watermark may follow, and who waits is answered."""
        replica = self.broker.led(index)
        if replica is None:
            return
        replica.advance()
        self._propose(index, replica)
        self._answer_producers(index, replica)
        parked = self._parked.get(index)
        if parked:
            self._parked[index] = []
            for fetch in parked:
                behind = fetch.request.position.offset < replica.log.log_end_offset
                if fetch.done:
                    continue
                news = fetch.high_watermark < replica.high_watermark or _starts_earlier(replica, fetch.request)
                if behind or news:
                    self._answer(replica, fetch)
                else:
                    self._parked[index].append(fetch)

    # -- the ISR -----------------------------------------------------------------------------------------------------

    def _propose(self, index: int, replica: Partition) -> None:
        if index in self._proposing:
            return
        change = replica.propose_isr()
        if change is None:
            return
        self._proposing.add(index)
        members = [member for member, _ in change.isr]
        self.broker.say(f"proposes ISR {members} of {TOPIC}-{index}, epoch {change.leader_epoch}")
        self._alter(index, replica, change)

    def _alter(self, index: int, replica: Partition, change: IsrChange) -> None:
        broker = self.broker
        leading = replica.leading
        stands = leading is not None and leading.proposed is not None and leading.leader_epoch == change.leader_epoch
        if not stands or leading is None or leading.partition_epoch != change.partition_epoch:
            self._proposing.discard(index)
            return

        def answered(answer: Answer | None) -> None:
            code, isr, partition_epoch = _alter_answer(answer)
            if code is None or replica.isr_answered(change, code, isr, partition_epoch):
                broker.after(broker.backoff_ms(), self._alter, index, replica, change)
                return
            self._proposing.discard(index)
            if code:
                broker.say(f"ISR change of {TOPIC}-{index} refused: {ErrorCode(code).name}")
            self.moved(index)

        broker.ask(lambda controller: controller.on_alter_partition, self._request(index, change), answered)

    def _request(self, index: int, change: IsrChange) -> AlterPartitionRequest:
        topic_row = AlterPartitionRequest.TopicData
        row = topic_row.PartitionData
        members = [row.BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in change.isr]
        partition = row(
            partition_index=index,
            leader_epoch=change.leader_epoch,
            new_isr_with_epochs=members,
            leader_recovery_state=0,
            partition_epoch=change.partition_epoch,
        )
        topic_id = self.broker.image.topics[TOPIC].topic_id
        return AlterPartitionRequest(
            broker_id=self.broker.broker_id,
            broker_epoch=self.broker.broker_epoch,
            topics=[topic_row(topic_id=topic_id, partitions=[partition])],
        )

    # -- clients -----------------------------------------------------------------------------------------------------

    def on_produce(self, request: Produce, reply: Reply) -> None:
        """Produce with acks 1 or all."""
        broker = self.broker
        replica = broker.led(request.partition)
        if replica is None:
            reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        if request.acks == -1 and not replica.enough_replicas:
            reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        if request.refused is not None:
            header = read_header(request.batch)
            entry = replica.log.producers.entries.get(header.producer_id)
            if request.refused.misses((b"", request.partition), entry, header):
                reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=MISSING))
                return
        before = replica.log.log_end_offset
        appended = replica.append([memoryview(bytearray(request.batch))], broker.wall_ms())[0]
        if appended.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and replica.comes_early(request.batch):
            reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=MISSING))
            return
        if appended.error_code:
            reply(Produced(ErrorCode(appended.error_code)))
            return
        if replica.log.log_end_offset > before:
            broker.checker.led(broker.broker_id, request.partition, replica.leader_epoch)
        answer = Produced(ErrorCode.NONE, appended.base_offset, appended.last_offset)
        if request.acks == 1:
            reply(answer)
        else:
            ack = _Ack(reply, answer, request.batch[-12:])
            self._acks.setdefault(request.partition, []).append(ack)
            broker.after(broker.settings.ack_timeout_ms, partial(self._ack_late, request.partition, ack))
        self.moved(request.partition)

    def _answer_producers(self, index: int, replica: Partition) -> None:
        mark = replica.high_watermark
        waiting = self._acks.get(index, ())
        reached = [ack for ack in waiting if ack.answer.last_offset < mark]
        if not reached:
            return
        self._acks[index] = [ack for ack in waiting if ack.answer.last_offset >= mark]
        self.broker.show()
        for ack in reached:
            ack.done = True
            if replica.enough_replicas:
                image, last_offset = self.broker.image, ack.answer.last_offset
                self.broker.checker.acked(image, index, last_offset, ack.value, len(replica.replicas))
                ack.reply(ack.answer)
            else:
                ack.reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

    def _ack_late(self, index: int, ack: _Ack) -> None:
        if not ack.done:
            ack.done = True
            self._acks[index].remove(ack)
            ack.reply(Produced(ErrorCode.REQUEST_TIMED_OUT))

    def on_read(self, request: Read, reply: Reply) -> None:
        """A consumer's Fetch, of the leader or of a follower (KIP-392)."""
        replica = self.broker.partitions.get(request.partition)
        if replica is None or replica.leader < 0 or replica.opened is None:
            reply(ReadAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        try:
            replica.check_epoch(request.leader_epoch)
            records = replica.read(request.offset, FETCH_BYTES, min_one=True).read()
        except ApiError as refused:
            start = replica.log.log_start_offset
            reply(ReadAnswer(refused.code, leader_epoch=replica.leader_epoch, log_start_offset=start))
            return
        self.broker.show()
        reply(ReadAnswer(ErrorCode.NONE, replica.high_watermark, records, replica.leader_epoch))

    def delete_records(self, index: int, offset: int) -> None:
        """DeleteRecords up to an offset that is not above the high watermark."""
        replica = self.broker.led(index)
        if replica is not None and replica.log.log_start_offset < offset <= replica.high_watermark:
            self.broker.say(f"deletes the records of {TOPIC}-{index} below {offset}")
            self.broker.checker.deleted(index, replica.log, offset)
            replica.log.advance_log_start_offset(offset)
            self.moved(index)

    def on_end_offset(self, request: Read, reply: Reply) -> None:
        """ListOffsets for the latest offset (KIP-207: not before the high watermark has reached the epoch's start)."""
        replica = self.broker.led(request.partition)
        try:
            if replica is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            replica.check_epoch(request.leader_epoch)
            if not replica.settled:
                raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        except ApiError as refused:
            reply(ReadAnswer(refused.code))
            return
        self.broker.show()
        reply(ReadAnswer(ErrorCode.NONE, replica.high_watermark, leader_epoch=replica.leader_epoch))


def _starts_earlier(replica: Partition, request: FollowerFetch) -> bool:
    """Whether there are deleted records to tell of."""
    return request.position.log_start_offset < replica.log.log_start_offset


def _alter_answer(answer: Answer | None) -> tuple[int | None, tuple[int, ...], int]:
    """(error code, ISR, partition epoch) of an AlterPartition answer; no code if the request is to be sent again."""
    if answer is None or answer.error or answer.body.error_code:
        return None, (), -1
    row = answer.body.topics[0].partitions[0]
    return row.error_code, tuple(row.isr), row.partition_epoch
