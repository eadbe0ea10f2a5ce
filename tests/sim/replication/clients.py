"""Producers that retry what they are not sure of, and readers that remember what they were told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.replication.checker import TOPIC, Checker, stamps_of
from sim.replication.network import Network
from sim.replication.world import Process, World
from tailrace.errors import ErrorCode
from tailrace.records.record import Record, build
from tailrace_broker.produce.refused_batches import RefusedBatches

if TYPE_CHECKING:
    from sim.replication.brokers import Broker

ASK_TIMEOUT_MS = 700
RETRY_MS = (20.0, 120.0)
TIMESTAMP_MS = 1_700_000_000_000
_SEQUENCE_LOST = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@dataclass(slots=True)
class Produce:
    """One batch for one partition."""

    partition: int
    batch: bytes
    acks: int
    refused: RefusedBatches | None = None  # of the connection it comes by


@dataclass(slots=True)
class Produced:
    """The answer to it."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1
    message: str | None = None


@dataclass(slots=True)
class Read:
    """A consumer's fetch (or, without an offset, its question for the end offset)."""

    partition: int
    offset: int
    leader_epoch: int


@dataclass(slots=True)
class ReadAnswer:
    """Batches, or an error with the log start; high_watermark is the end offset in the answer to a ListOffsets."""

    error: ErrorCode
    high_watermark: int = -1
    records: bytes = b""
    leader_epoch: int = -1
    log_start_offset: int = 0


class Client(Process):
    """Knows the leader of one partition, by asking any broker for metadata."""

    def __init__(self, world: World, name: str, network: Network, brokers: list[Broker], partition: int) -> None:
        super().__init__(world, name)
        self.network = network
        self.brokers = brokers
        self.partition = partition
        self.leader: Broker | None = None
        self.leader_epoch = -1
        self._asking = False

    def find_leader(self) -> None:
        """Asks a broker who leads; older news than what is known are ignored."""
        if self._asking:
            return
        self._asking = True
        broker = self.world.random.choice(self.brokers)
        self.network.call(self, broker, broker.on_metadata, self.partition, self._found, ASK_TIMEOUT_MS)

    def _found(self, answer: tuple[int, int] | None) -> None:
        self._asking = False
        if answer is not None and answer[1] >= self.leader_epoch and answer[0] >= 0:
            self.leader = self.brokers[answer[0]]
            self.leader_epoch = answer[1]

    def retry_ms(self) -> float:
        return self.world.random.uniform(*RETRY_MS)


@dataclass(slots=True)
class Batch:
    """Some records on their way."""

    number: int
    values: list[bytes]
    data: bytes
    acked: bool = False


class Producer(Client):
    """Sends batches in order, up to `window` at once, and sends again whatever was not acknowledged."""

    def __init__(
        self, world: World, name: str, network: Network, brokers: list[Broker], partition: int, checker: Checker
    ) -> None:
        super().__init__(world, name, network, brokers, partition)
        self.checker = checker
        self.acks = -1
        self.idempotent = True
        self.window = 1
        self.pause_ms = (5.0, 60.0)
        self.producer_id = -1
        self.producing = True
        self.batches: list[Batch] = []
        self.acknowledged: list[Batch] = []
        self._first = 0  # the first batch that is not acknowledged
        self._sequence = 0

    def start(self, number: int) -> None:
        """Begins to produce."""
        self.boot()
        self.producer_id = 100 + number if self.idempotent else -1
        self.find_leader()
        self.after(self.retry_ms(), self._make)

    @property
    def done(self) -> bool:
        """Whether everything made was acknowledged."""
        return self._first == len(self.batches)

    def _make(self) -> None:
        if not self.producing:
            return
        random = self.world.random
        # A leader takes any sequence of a producer that it does not know, so nothing may overtake the first batch.
        if len(self.batches) - self._first < (self.window if self.acknowledged else 1):
            number = len(self.batches)
            values = [b"%s-%d-%d" % (self.name.encode(), number, n) for n in range(random.randint(1, 3))]
            batch = Batch(number, values, self._encode(values))
            self.batches.append(batch)
            self._send(batch)
        self.after(random.uniform(*self.pause_ms), self._make)

    def _send(self, batch: Batch) -> None:
        if batch.acked:
            return
        if self.leader is None:
            self.find_leader()
            self.after(self.retry_ms(), self._send, batch)
            return
        leader = self.leader
        request = Produce(self.partition, batch.data, self.acks)

        def answered(answer: Produced | None) -> None:
            self._answered(batch, leader, answer)

        self.network.call(self, leader, leader.on_produce, request, answered, ASK_TIMEOUT_MS)

    def _answered(self, batch: Batch, leader: Broker, answer: Produced | None) -> None:
        if answer is None or answer.error:
            lost = self.checker.ledgers[self.partition].lost
            if answer is not None and answer.error in _SEQUENCE_LOST and lost and not batch.acked:
                self._begin_anew()
            self.find_leader()
            self.after(self.retry_ms(), self._send, batch)
            return
        if batch.acked:
            return
        batch.acked = True
        self.acknowledged.append(batch)
        while self._first < len(self.batches) and self.batches[self._first].acked:
            self._first += 1

    def _begin_anew(self) -> None:
        """Records were lost with their sequences: what is not acknowledged goes out under a new producer id."""
        self.producer_id += 1_000
        self._sequence = 0
        for batch in self.batches:
            if not batch.acked:
                batch.data = self._encode(batch.values)

    def _encode(self, values: list[bytes]) -> bytes:
        records = [Record(timestamp=TIMESTAMP_MS, value=value) for value in values]
        if not self.idempotent:
            return bytes(build(records))
        sequence, self._sequence = self._sequence, self._sequence + len(values)
        return bytes(build(records, producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence))


class Consumer(Client):
    """Reads from the leader, or from whom it is told to, and asks for end offsets; what it was told may not go back."""

    def __init__(
        self, world: World, name: str, network: Network, brokers: list[Broker], partition: int, checker: Checker
    ) -> None:
        super().__init__(world, name, network, brokers, partition)
        self.checker = checker
        self.follows = False  # whether it reads from any replica (KIP-392)
        self.position = 0
        self.end_offset = 0
        self.heard_epoch = -1  # of whoever answered: a follower that was asked may lead by now
        self.pause_ms = (20.0, 120.0)

    def start(self) -> None:
        """Begins to read."""
        self.boot()
        self.find_leader()
        self.after(self.retry_ms(), self._poll)

    def _poll(self) -> None:
        target = self.leader
        if self.follows and self.world.chance(0.7):
            target = self.world.random.choice(self.brokers)
        if target is None:
            self._again(None)
            return
        leader_epoch = self.leader_epoch if target is self.leader else -1
        request = Read(self.partition, self.position, leader_epoch)
        if self.world.chance(0.3) and target is self.leader:
            asked: Callable[[ReadAnswer | None], None] = self._on_end_offset
            handler = target.on_end_offset
        else:
            at = self.position

            def asked(answer: ReadAnswer | None) -> None:
                self._on_records(target, at, answer)

            handler = target.on_read
        self.network.call(self, target, handler, request, asked, ASK_TIMEOUT_MS)

    def _on_end_offset(self, answer: ReadAnswer | None) -> None:
        if answer is not None and not answer.error:
            if answer.high_watermark < self.end_offset and not self.checker.ledgers[self.partition].lost:
                self.checker.fail(
                    f"{self.name} was told that {TOPIC}-{self.partition} ends at {answer.high_watermark}, "
                    f"and at {self.end_offset} before"
                )
            self.end_offset = max(self.end_offset, answer.high_watermark)
        self._again(answer)

    def _on_records(self, target: Broker, at: int, answer: ReadAnswer | None) -> None:
        lost = self.checker.ledgers[self.partition].lost
        if answer is not None and answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Of a leader that was deposed since, the end may lie before what its successor has given out.
            start, newest = self.checker.ledgers[self.partition].start, max(self.leader_epoch, self.heard_epoch)
            if target is self.leader and not lost and at >= start and answer.leader_epoch >= newest:
                self.checker.fail(f"{self.name} read up to {at}, and {target.name} calls that out of range")
            self.position = answer.log_start_offset if lost else max(self.position, answer.log_start_offset)
        if answer is not None and not answer.error and answer.records and at == self.position:
            stamps = [stamp for stamp in stamps_of(answer.records) if stamp.next_offset > at]
            self.checker.same(self.partition, stamps, self.name)
            self.position = max(self.position, stamps[-1].next_offset if stamps else 0)
            self.heard_epoch = max(self.heard_epoch, answer.leader_epoch)
            if target is self.leader:
                self.end_offset = max(self.end_offset, answer.high_watermark)
        self._again(answer)

    def _again(self, answer: Any) -> None:
        if answer is None or answer.error:
            self.find_leader()
        self.after(self.world.random.uniform(*self.pause_ms), self._poll)
