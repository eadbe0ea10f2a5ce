"""An idempotent producer as librdkafka is one: what it does with each answer, and when it begins another epoch.

It keeps up to five batches of each partition on the wire, and sends again from the first, once all of them were
answered. It begins another epoch with all partitions together, each from sequence number 0: what one of them had in
doubt goes out anew. rdkafka_request.c (rd_kafka_handle_Produce_error, rd_kafka_handle_idempotent_Produce_error and
_success), rdkafka_broker.c (rd_kafka_toppar_producer_serve) and rdkafka_idempotence.c of librdkafka 2.x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sim.replication.brokers import Broker
from sim.replication.checker import TOPIC, Checker
from sim.replication.clients import ASK_TIMEOUT_MS, TIMESTAMP_MS, Produce, Produced
from sim.replication.network import Network
from sim.replication.pipes import Pipe
from sim.replication.world import Process, World
from tailrace.errors import ErrorCode
from tailrace.records.record import Record, build

MAX_IN_FLIGHT = 5
_SERVE_MS = 4.0
_BACKOFF_MS = (80.0, 120.0)
_REFRESH_MS = (2.0, 30.0)
_OTHERS_REFRESH_MS = (50.0, 400.0)
_NOT_PERSISTED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_POSSIBLY_PERSISTED = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


@dataclass(slots=True)
class Batch:
    """Messages first_id to last_id; message ids begin with 1 and never change, sequence numbers do."""

    first_id: int
    values: list[bytes]
    first_sequence: int = -1

    @property
    def last_id(self) -> int:
        return self.first_id + len(self.values) - 1


@dataclass(slots=True)
class Lane:
    """One partition as its producer has it (librdkafka's toppar)."""

    partition: int
    leader: int = -1
    leader_epoch: int = -1
    sent_to: int = -1
    queue: list[Batch] = field(default_factory=list)  # to be sent, by message ids
    in_flight: int = 0
    drains: bool = False
    epoch: int = 0
    base_id: int = 1  # the message that has sequence number 0 in this epoch
    next_ack: int = 0
    next_err: int = 0
    acked_id: int = 0
    next_id: int = 1
    backoff_until_ms: float = 0.0
    sent: list[bytes] = field(default_factory=list)


class IdempotentProducer(Process):
    """Sends to all partitions; `fatal` says why it gave up."""

    def __init__(self, world: World, name: str, network: Network, brokers: list[Broker], checker: Checker) -> None:
        super().__init__(world, name)
        self.network = network
        self.brokers = brokers
        self.checker = checker
        self.producer_id = 9_000
        self.epoch = 0
        self.bumps = False  # waits for all partitions to drain
        self.epochs = 1
        self.fatal: str | None = None
        self.producing = True
        self.lanes = [Lane(partition) for partition in range(len(checker.ledgers))]
        self._pipes: dict[int, Pipe] = {}
        self._asking: set[int] = set()
        self._returns_late = False
        self._returning = 0

    def start(self, number: int) -> None:
        """Begins to produce."""
        self.boot()
        self.producer_id += number
        self._keep_fresh()
        self.after(1.0, self._make)
        self.after(2.0, self._serve)

    @property
    def done(self) -> bool:
        """Whether everything was acknowledged."""
        return not self._returning and not any(lane.queue or lane.in_flight for lane in self.lanes)

    def _make(self) -> None:
        random = self.world.random
        if not self.producing or self.fatal:
            return
        lane = random.choice(self.lanes)
        if len(lane.queue) < 8:
            values = [
                b"%s-%d-%d" % (self.name.encode(), lane.partition, lane.next_id + n)
                for n in range(random.randint(1, 2))
            ]
            lane.queue.append(Batch(lane.next_id, values))
            lane.sent += values
            lane.next_id += len(values)
        self.after(random.uniform(5.0, 40.0), self._make)

    # -- sending -----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        if self.fatal is None:
            for lane in self.lanes:
                self._serve_lane(lane)
            self.after(_SERVE_MS, self._serve)

    def _serve_lane(self, lane: Lane) -> None:
        if lane.leader < 0 or self.bumps:
            return
        if lane.leader != lane.sent_to:
            lane.sent_to, lane.drains = lane.leader, True
        if lane.drains:
            if lane.in_flight:
                return
            lane.drains = False
        if not lane.queue or self.world.now_ms < lane.backoff_until_ms:
            return
        if lane.epoch != self.epoch:
            if lane.in_flight:
                return
            lane.epoch, lane.base_id = self.epoch, lane.queue[0].first_id
            lane.next_ack = lane.next_err = 0
        pipe = self._pipe(lane.leader)
        while pipe is not None and lane.queue and lane.in_flight < MAX_IN_FLIGHT:
            self._send(lane, lane.queue.pop(0), pipe)

    def _pipe(self, broker_id: int) -> Pipe | None:
        pipe = self._pipes.get(broker_id)
        if pipe is None or pipe.broken:
            broker = self.brokers[broker_id]
            cut = {(self.name, broker.name), (broker.name, self.name)} & self.network.cut
            if not broker.up or broker.paused or cut:
                self._refresh()
                return None
            pipe = self._pipes[broker_id] = Pipe(self, broker, self.network)
        return pipe

    def _send(self, lane: Lane, batch: Batch, pipe: Pipe) -> None:
        batch.first_sequence = batch.first_id - lane.base_id
        records = [Record(timestamp=TIMESTAMP_MS, value=value) for value in batch.values]
        data = build(
            records, producer_id=self.producer_id, producer_epoch=lane.epoch, base_sequence=batch.first_sequence
        )
        lane.in_flight += 1
        pipe.ask(Produce(lane.partition, bytes(data), -1), partial(self._answered, lane, batch, pipe.broker.broker_id))

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answered(self, lane: Lane, batch: Batch, broker_id: int, answer: Produced | None) -> None:
        lane.in_flight -= 1
        self._returns_late = broker_id != lane.leader and self.world.chance(0.5)
        after = batch.first_sequence + len(batch.values)
        if answer is not None and not answer.error:
            self._delivered(lane, batch, after)
        elif answer is not None and answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            ahead = batch.first_sequence - lane.next_ack
            lane.next_err = after
            if ahead <= 0:
                self._give_up(lane, f"sequence {batch.first_sequence} is out of order, {lane.next_ack} comes next")
            else:
                self.say(f"begins another epoch: {TOPIC}-{lane.partition} skipped to {batch.first_sequence}")
                self.bumps = True
                self._again(lane, batch)
        elif answer is None or answer.error in _POSSIBLY_PERSISTED:
            lane.next_ack = lane.next_err = after
            self._again(lane, batch)
            if answer is None:
                self._refresh()
        elif answer.error in _NOT_PERSISTED:
            lane.next_err = after
            self._again(lane, batch)
            self._refresh()
        else:
            self._give_up(lane, f"was answered {answer.error.name}")
        if self.bumps and not any(one.in_flight for one in self.lanes):
            self.bumps = False
            self.epoch += 1
            self.epochs += 1

    def _delivered(self, lane: Lane, batch: Batch, after: int) -> None:
        if lane.acked_id < batch.first_id - 1:
            # Those before it were in doubt, and it would not have been taken without them.
            lane.queue = [one for one in lane.queue if one.last_id > batch.last_id]
        elif batch.first_sequence != lane.next_ack and batch.first_sequence == lane.next_err:
            self._give_up(lane, f"sequence {batch.first_sequence} was taken where an error was expected")
        if lane.next_err == lane.next_ack:
            lane.next_err = after
        lane.next_ack = after
        lane.acked_id = max(lane.acked_id, batch.last_id)

    def _again(self, lane: Lane, batch: Batch) -> None:
        lane.drains = True
        if self._returns_late:
            # The old leader's thread has counted it as no longer in flight, and has not put it back into the queue.
            self._returning += 1
            self.after(self.world.random.uniform(1.0, 10.0), self._back, lane, batch)
        else:
            self._requeue(lane, batch)

    def _back(self, lane: Lane, batch: Batch) -> None:
        self._returning -= 1
        self._requeue(lane, batch)

    def _requeue(self, lane: Lane, batch: Batch) -> None:
        # What later batches have acknowledged meanwhile librdkafka would send once more, and give up if more than five
        # came after it. That is between its threads alone, so not followed here.
        if batch.last_id > lane.acked_id:
            lane.queue.append(batch)
            lane.queue.sort(key=lambda one: one.first_id)
        lane.backoff_until_ms = self.world.now_ms + self.world.random.uniform(*_BACKOFF_MS)

    def _give_up(self, lane: Lane, why: str) -> None:
        if not self.checker.ledgers[lane.partition].lost:
            self.checker.fail(f"{self.name} gives up, {TOPIC}-{lane.partition}: {why}")
        self.fatal = why

    # -- leaders -----------------------------------------------------------------------------------------------------

    def _keep_fresh(self) -> None:
        """Some other topic's error, say, has it ask."""
        self._refresh()
        self.after(self.world.random.uniform(*_OTHERS_REFRESH_MS), self._keep_fresh)

    def _refresh(self) -> None:
        """Asks who leads, for all partitions: one may move before its own leader has said so."""
        for lane in self.lanes:
            if lane.partition not in self._asking:
                self._asking.add(lane.partition)
                self.after(self.world.random.uniform(*_REFRESH_MS), self._ask, lane)

    def _ask(self, lane: Lane) -> None:
        broker = self.world.random.choice(self.brokers)

        def found(answer: tuple[int, int] | None) -> None:
            self._asking.discard(lane.partition)
            if answer is None or answer[0] < 0:
                self._refresh()
            elif answer[1] >= lane.leader_epoch:
                lane.leader, lane.leader_epoch = answer

        self.network.call(self, broker, broker.on_metadata, lane.partition, found, ASK_TIMEOUT_MS)
