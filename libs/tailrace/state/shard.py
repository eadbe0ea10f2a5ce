"""Shard: one state machine on one partition. decide -> apply -> append -> reply on commit.

At most one append is in flight; what arrives meanwhile is gathered in the next. Nothing here performs I/O: the shell
appends what `Output.append` holds, and says `committed` when the partition's leader has acknowledged it. On any doubt
(an unknown outcome, a lost leader, a fence) the shell drops the shard and builds another one from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tailrace.records.markers import marker_record
from tailrace.state.effects import Effects, Timer, Token
from tailrace.state.limits import RECORDS_A_BATCH
from tailrace.state.transactions import EndOfTransaction, InTransaction, ProducerIdAndEpoch

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

KeyValue = tuple[bytes, bytes | None]  # as in the log; value None is a tombstone

RECORD_OVERHEAD_BYTES = 32  # varints of a record in batch v2, with room
_OF_A_TRANSACTION = frozenset({InTransaction, EndOfTransaction})


class ShardBatch(NamedTuple):
    """One append; a producer's: transactional, and a marker of it if is_control."""

    records: tuple[KeyValue, ...]
    producer: ProducerIdAndEpoch | None = None
    is_control: bool = False


class Machine(Protocol[R_contra]):
    """What a shard runs: only `apply` changes replicated state, live and in replay alike.

    One whose topic has transactions is given InTransaction and EndOfTransaction, too.
    """

    def apply(self, record: R_contra) -> None: ...


class Overloaded(Exception):
    """More is waiting for the log than the shard may hold; the asker should be told to come back."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the shell does next: append these (None: nothing, or one is in flight), send replies, set timers."""

    append: ShardBatch | None = None
    replies: tuple[tuple[Token, Any], ...] = ()
    timers: tuple[Timer, ...] = ()


class Shard(Generic[R]):
    """Orders decisions, appends and replies. Positions count records since the shard was loaded."""

    def __init__(
        self,
        machine: Machine[R],
        encode: Callable[[R], KeyValue],
        *,
        max_batch_bytes: int,
        max_waiting_bytes: int = 16 * 1024 * 1024,
        max_waiting_replies: int = 20_000,
    ) -> None:
        self.machine: Any = machine  # the shell knows which one it is
        self.encode = encode
        self.max_batch_bytes = max_batch_bytes
        self.max_waiting_bytes = max_waiting_bytes
        self.max_waiting_replies = max_waiting_replies
        self.dropped = False
        self._written = 0
        self._committed = 0
        self._in_flight = 0  # records in the append under way
        self._queue: deque[KeyValue | ShardBatch] = deque()
        self._queue_bytes = 0
        self._parked: deque[tuple[int, tuple[Token, Any]]] = deque()

    @property
    def idle(self) -> bool:
        """True when everything decided so far is committed."""
        return self._committed == self._written

    @property
    def has_room(self) -> bool:
        """Whether less waits for the log than may wait."""
        return self._queue_bytes <= self.max_waiting_bytes and len(self._parked) <= self.max_waiting_replies

    def admit(self) -> None:
        """Raises Overloaded, before an asker's decision, when too much waits."""
        if not self.has_room:
            raise Overloaded

    def take(self, decided: Effects[R]) -> Output:
        """Applies what was decided."""
        assert not self.dropped, "a dropped shard applies nothing"
        queue: deque[KeyValue | ShardBatch] = deque() if decided.is_whole else self._queue
        for record in decided.records:
            self.machine.apply(record)
            entry = self._encoded(record)
            queue.append(entry)
            self._queue_bytes += _size_bytes(entry)
        if decided.is_whole and queue:
            self._queue.append(_as_one(queue))
        self._written += len(decided.records)
        # A reply that wrote nothing still waits behind what its decision saw.
        self._parked.extend((self._written, reply) for reply in decided.replies)
        return Output(self._next_append(), self._released(), decided.timers)

    def _encoded(self, record: Any) -> KeyValue | ShardBatch:
        if type(record) not in _OF_A_TRANSACTION:
            return self.encode(record)
        if isinstance(record, EndOfTransaction):
            marker = marker_record(record.committed, record.coordinator_epoch)
            return ShardBatch((marker,), record.producer, is_control=True)
        return ShardBatch((self.encode(record.record),), record.producer)

    def committed(self) -> Output:
        """The append in flight is on every in-sync replica: releases its replies and starts the next."""
        assert self._in_flight, "nothing was in flight"
        self._committed += self._in_flight
        self._in_flight = 0
        return Output(self._next_append(), self._released())

    def drop(self) -> tuple[Token, ...]:
        """Forgets everything and returns the askers that will get no reply from this shard."""
        self.dropped = True
        tokens = tuple(token for _, (token, _) in self._parked)
        self._parked.clear()
        self._queue.clear()
        return tokens

    def _released(self) -> tuple[tuple[Token, Any], ...]:
        released = []
        while self._parked and self._parked[0][0] <= self._committed:
            released.append(self._parked.popleft()[1])
        return tuple(released)

    def _next_append(self) -> ShardBatch | None:
        """Takes what may go into one batch: records of one transaction, or of none; a marker goes alone."""
        if self._in_flight or not self._queue:
            return None
        first = self._queue[0]
        batch = self._take_of(first) if isinstance(first, ShardBatch) else ShardBatch(self._take_plain())
        self._in_flight = len(batch.records)
        return batch

    def _take_plain(self) -> tuple[KeyValue, ...]:
        taken: list[KeyValue] = []
        batch_bytes = 0
        while self._queue:
            record = self._queue[0]
            if isinstance(record, ShardBatch):
                break
            size = size_bytes(record)
            if taken and (batch_bytes + size > self.max_batch_bytes or len(taken) == RECORDS_A_BATCH):
                break
            taken.append(record)
            self._queue.popleft()
            batch_bytes += size
        self._queue_bytes -= batch_bytes
        return tuple(taken)

    def _take_of(self, first: ShardBatch) -> ShardBatch:
        taken: list[KeyValue] = []
        batch_bytes = 0
        while self._queue:
            one = self._queue[0]
            if not isinstance(one, ShardBatch) or one[1:] != first[1:] or (taken and one.is_control):
                break
            size = _size_bytes(one)
            is_full = batch_bytes + size > self.max_batch_bytes or len(taken) + len(one.records) > RECORDS_A_BATCH
            if taken and is_full:
                break
            taken += one.records
            self._queue.popleft()
            batch_bytes += size
        self._queue_bytes -= batch_bytes
        return first._replace(records=tuple(taken))


def _size_bytes(entry: KeyValue | ShardBatch) -> int:
    return sum(map(size_bytes, entry.records)) if isinstance(entry, ShardBatch) else size_bytes(entry)


def _as_one(entries: Iterable[KeyValue | ShardBatch]) -> ShardBatch:
    records = []
    for entry in entries:
        assert not isinstance(entry, ShardBatch), "records of transactions are apart"
        records.append(entry)
    return ShardBatch(tuple(records))


def size_bytes(record: KeyValue) -> int:
    """Returns an upper bound of the record's size in a batch, short of headers."""
    key, value = record
    return len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
