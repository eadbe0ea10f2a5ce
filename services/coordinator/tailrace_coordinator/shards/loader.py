"""Reads a partition into a machine, up to the barrier (Kafka's CoordinatorLoader)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tailrace.coordination.fields import BadRecord
from tailrace.log.segment.transactions import read_marker
from tailrace.net.turns import turns
from tailrace.records.batch import read_header, split
from tailrace.records.markers import COMMIT
from tailrace.records.record import iterate
from tailrace.state import EndOfTransaction, InTransaction, KeyValue, ProducerIdAndEpoch, ShardBatch
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
        self, log: ShardLog, kind: ShardKind[Any], machine: CoordinatorShard[Any], on_bad_record: OnBadRecord
    ) -> None:
        self._log = log
        self._kind = kind
        self._machine = machine
        self._on_bad_record = on_bad_record
        self._offset = 0  # of the next record

    async def load(self) -> LoadedShard:
        """Fences older owners, then applies all that is committed before the barrier."""
        barrier = await self._log.fence()
        self._offset = barrier.log_start_offset
        while self._offset <= barrier.offset:
            async for record in turns(self._records(await self._log.read(self._offset))):
                self._machine.apply(record)
        return LoadedShard(barrier, self._offset)

    def _records(self, raw: bytes) -> Iterator[Any]:
        """Yields what lies at or after the offset as the machine applies it; moves the offset."""
        for batch in split(raw):
            header = read_header(batch)
            if header.next_offset <= self._offset:
                continue
            producer = (
                ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
            )
            if not header.is_control:
                yield from self._decoded(batch, producer)
            elif producer is not None and (marker := read_marker(batch, header)) is not None:  # else a barrier
                yield EndOfTransaction(producer, marker.kind == COMMIT, marker.coordinator_epoch)
            self._offset = header.next_offset

    def _decoded(self, batch: Any, producer: ProducerIdAndEpoch | None) -> Iterator[Any]:
        for raw in iterate(batch):
            if raw.offset < self._offset or raw.key is None:
                continue
            try:
                record = self._kind.decode(raw.key, raw.value)
            except BadRecord as bad:
                self._on_bad_record(raw.offset, bad)
                continue
            if record is not None:
                yield record if producer is None else InTransaction(producer, record)


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
