"""The producers of a world: they number their batches, retry, repeat, end transactions, and sometimes misbehave."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from sim.log.model import Violation
from tailrace.errors import ErrorCode
from tailrace.log.log import LogAppendResult
from tailrace.log.producers.state import RETAINED_BATCHES, BatchMetadata, last_sequence
from tailrace.records.batch import read_header
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build

KEYS = [bytes([65 + number]) for number in range(6)]
_REFUSALS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)
_MARKER_KEY = b"\0\0\0\1"


@dataclass(eq=False)
class Sent:
    """One batch on its way; `first_offset` is where a repeated one was appended."""

    client: Client
    data: bytes
    about: str
    first_offset: int = -1
    wrong: bool = False
    internal: bool = False  # a transaction's or a marker: its sequence number is not looked at


@dataclass(eq=False)
class Client:
    """One producer; id -1 numbers nothing."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False  # then whatever it sends belongs to it
    queue: list[Sent] = field(default_factory=list)  # refused by the disk: sent again first, in order
    failed: list[Sent] = field(default_factory=list)
    taken: list[tuple[bytes, int]] = field(default_factory=list)  # the last batches and where they are

    def next(self, dice: random.Random, now_ms: int, *, keyed: bool, known: bool) -> Sent:
        """What it sends now; it repeats itself or skips a number only where the log knows it (KIP-360)."""
        if self.queue:
            return self.queue.pop(0)
        if self.producer_id < 0:
            return Sent(self, self._build(dice, now_ms, -1, keyed=keyed), "plain")
        fate = dice.random() if known else dice.uniform(0.14, 1)
        numbered = [(data, offset) for data, offset in self.taken if not read_header(data).is_transactional]
        if fate < 0.1 and numbered:
            data, offset = dice.choice(numbered)
            return Sent(self, data, f"{self.producer_id} again", first_offset=offset)
        if fate < 0.14:
            data = self._build(dice, now_ms, self.sequence + 3, keyed=keyed)
            return Sent(self, data, f"{self.producer_id} out of order", wrong=True)
        if fate < 0.18 or (self.in_transaction and fate > 0.8):
            self.in_transaction = False
            return Sent(self, self._marker(now_ms), f"{self.producer_id} ends a transaction", internal=True)
        if fate < 0.22:
            self.take_next_epoch()
        transactional = self.in_transaction = self.in_transaction or fate < 0.3
        data = self._build(dice, now_ms, self.sequence, keyed=keyed, transactional=transactional)
        about = f"{self.producer_id}/{self.epoch}:{self.sequence}"
        self.sequence = last_sequence(self.sequence, read_header(data).last_offset_delta + 1)
        return Sent(self, data, about, internal=transactional)

    def take_next_epoch(self) -> None:
        """Numbers begin at 0 again; what was not taken yet would be numbered anew, and is forgotten here."""
        self.epoch += 1
        self.sequence = 0
        self.taken.clear()
        self.queue.clear()

    def _build(
        self, dice: random.Random, now_ms: int, sequence: int, *, keyed: bool, transactional: bool = False
    ) -> bytes:
        records = [
            Record(
                timestamp=now_ms - dice.randrange(3000),
                key=dice.choice(KEYS) if keyed or dice.random() < 0.3 else None,
                value=None if keyed and dice.random() < 0.2 else dice.randbytes(dice.randrange(50)),
            )
            for _ in range(dice.randrange(1, 4))
        ]
        epoch = self.epoch if self.producer_id >= 0 else -1
        codec = dice.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4))
        return bytes(
            build(
                records,
                compression=codec,
                transactional=transactional,
                producer_id=self.producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    def _marker(self, now_ms: int) -> bytes:
        end = Record(timestamp=now_ms, key=_MARKER_KEY, value=bytes(6))
        return bytes(
            build([end], producer_id=self.producer_id, producer_epoch=self.epoch, transactional=True, control=True)
        )

    def answered(self, sent: Sent, answer: LogAppendResult) -> bool:
        """Whether the batch was appended just now."""
        if answer.error_code == ErrorCode.NONE:
            if sent.first_offset >= 0 and answer.base_offset == sent.first_offset:
                return False
            if sent.wrong or sent.first_offset >= 0:
                raise Violation(f"{sent.about}: was appended at {answer.base_offset}, after {self.taken}")
            self.wrote(sent, answer.base_offset)
            return True
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR or self.failed:
            self.unsent(sent)
        elif not (sent.wrong or sent.first_offset >= 0) or answer.error_code not in _REFUSALS:
            raise Violation(f"{sent.about}: was refused: {answer}")
        return False

    def wrote(self, sent: Sent, offset: int) -> None:
        """The batch is in the log."""
        header = read_header(sent.data)
        if header.base_sequence >= 0 and self.producer_id >= 0:
            self.taken = [*self.taken[1 - RETAINED_BATCHES :], (sent.data, offset)]

    def unsent(self, sent: Sent) -> None:
        """What came before it on the same connection was refused by the disk."""
        if not sent.wrong and sent.first_offset < 0:
            self.failed.append(sent)

    def settle(self) -> None:
        """An append was answered: what the disk refused comes first the next time."""
        self.queue, self.failed = self.failed + self.queue, []

    def reconcile(self, epoch: int, batches: list[BatchMetadata], *, in_transaction: bool) -> None:
        """The log may have lost its end: goes on behind what is there."""
        self.queue, self.failed = [], []
        self.in_transaction = in_transaction
        if self.producer_id < 0:
            return
        self.sequence = last_sequence(batches[-1].last_sequence, 1) if epoch == self.epoch and batches else 0
        places = {batch.first_offset for batch in batches} if epoch == self.epoch else set()
        self.taken = [(data, offset) for data, offset in self.taken if offset in places]
