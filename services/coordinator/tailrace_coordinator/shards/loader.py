"""Reads a partition into a machine, up to the barrier (Kafka's CoordinatorLoader)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tailrace.coordination.fields import BadRecord
from tailrace.log.segment.transactions import read_marker
from tailrace.net.turns import in_turns
from tailrace.records.batch import read_header, split
from tailrace.records.markers import COMMIT
from tailrace.records.record import Record, iterate
from tailrace.state import EndOfTransaction, InTransaction, KeyValue, ProducerIdAndEpoch, ShardBatch
from tailrace.steps import Steps
from tailrace_coordinator.shards.kind import CoordinatorShard, ShardKind
from tailrace_coordinator.shards.partition_log import Barrier, ShardLog

OnBadRecord = Callable[[int, BadRecord], None]  # (offset, what is wrong)


class LoadedShard(NamedTuple):
    """How far a machine has read."""

    barrier: Barrier
    next_offset: int


class CoordinatorLoader:
    """One loading of one shard. A damaged record is left out, as in Kafka: it must not keep all others away."""

    def __init__(
        self,
        log: ShardLog,
        kind: ShardKind[Any],
        machine: CoordinatorShard[Any],
        on_bad_record: OnBadRecord,
        applying: asyncio.Lock,
    ) -> None:
        self._log = log
        self._kind = kind
        self._machine = machine
        self._on_bad_record = on_bad_record
        self._applying = applying
        self._offset = 0  # of the next record

    async def load(self) -> LoadedShard:
        """Fences older owners, then applies all that is committed before the barrier.

        The loadings that share the lock apply one answer of the leader after the other. Side by side, all shards of a
        coordinator would be loaded at the same time, which is that of the last. A long one waits again for each answer.
        """
        barrier = await self._log.fence()
        self._offset = barrier.log_start_offset
        while self._offset <= barrier.offset:
            raw = await self._log.read(self._offset)
            async with self._applying:
                await in_turns(self._apply(raw))
        return LoadedShard(barrier, self._offset)

    def _apply(self, raw: bytes) -> Steps[None]:
        """Applies what lies at or after the offset, and moves the offset.

        Of values with one key that come one after the other, with nothing of transactions and no tombstone between, the
        last is applied alone, as if the log was compacted: in most logs nearly all are replaced, and decoding a record
        is most of the work.
        """
        values: dict[bytes | None, Record] = {}
        for record in self._records(raw):
            if isinstance(record, Record) and record.value is not None:
                values.pop(record.key, None)  # the new one is behind the others
                values[record.key] = record
            else:
                yield from self._apply_each(values.values())
                values = {}
                yield from self._apply_each((record,))
            yield
        yield from self._apply_each(values.values())

    def _apply_each(self, records: Iterable[Record | InTransaction[Record] | EndOfTransaction]) -> Steps[None]:
        for record in records:
            if isinstance(record, EndOfTransaction):
                self._machine.apply(record)
            elif isinstance(record, InTransaction):
                if (decoded := self._decoded(record.record)) is not None:
                    self._machine.apply(InTransaction(record.producer, decoded))
            elif (decoded := self._decoded(record)) is not None:
                self._machine.apply(decoded)
            yield

    def _decoded(self, record: Record) -> Any:
        """None for one that is passed over."""
        try:
            return self._kind.decode(record.key or b"", record.value)
        except BadRecord as bad:
            self._on_bad_record(record.offset, bad)
            return None

    def _records(self, raw: bytes) -> Iterator[Record | InTransaction[Record] | EndOfTransaction]:
        """Yields what lies at or after the offset; moves the offset."""
        for batch in split(raw):
            header = read_header(batch)
            if header.next_offset <= self._offset:
                continue
            producer = (
                ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
            )
            if not header.is_control:
                for record in iterate(batch, header=header):
                    if record.offset >= self._offset and record.key is not None:
                        yield record if producer is None else InTransaction(producer, record)
            elif producer is not None and (marker := read_marker(batch, header)) is not None:  # else a barrier
                yield EndOfTransaction(producer, marker.kind == COMMIT, marker.coordinator_epoch)
            self._offset = header.next_offset


async def written_since(log: ShardLog, offset: int, barrier: Barrier) -> ShardBatch | None:
    """All that lies between, short of barriers, as one append; None for nothing."""
    records: list[KeyValue] = []
    producer, is_control = None, False
    while offset <= barrier.offset:
        for batch in split(await log.read(offset)):
            header = read_header(batch)
            if header.next_offset <= offset or header.base_offset > barrier.offset:
                continue
            offset = header.next_offset
            if header.is_control and not header.is_transactional:
                continue
            if header.is_transactional:
                producer, is_control = ProducerIdAndEpoch(header.producer_id, header.producer_epoch), header.is_control
            records += [(record.key or b"", record.value) for record in iterate(batch)]
    return ShardBatch(tuple(records), producer, is_control) if records else None
