"""Reads a partition into a machine, up to the barrier (Kafka's CoordinatorLoader)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.coordination.fields import BadRecord
from tailrace.log.segment.transactions import read_marker
from tailrace.net.turns import in_turns
from tailrace.records.batch import BatchHeader, read_header, split
from tailrace.records.markers import COMMIT
from tailrace.records.record import iterate
from tailrace.state import EndOfTransaction, InTransaction, KeyValue, ProducerIdAndEpoch, ShardBatch
from tailrace.steps import ROWS_A_STEP, Steps
from tailrace_coordinator.shards.kind import CoordinatorShard, ShardKind
from tailrace_coordinator.shards.partition_log import Barrier, ShardLog

_BYTES_A_ROW = 100  # a record of a group has a member in as many
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

    async def load(self) -> LoadedShard:
        """Fences older owners, then applies all that is committed before the barrier."""
        barrier = await self._log.fence()
        offset = barrier.log_start_offset
        while offset <= barrier.offset:
            offset = await in_turns(self._replay(await self._log.read(offset), offset))
        return LoadedShard(barrier, offset)

    def _replay(self, records: bytes, offset: int) -> Steps[int]:
        """Applies what lies at or after offset; returns the next offset."""
        done = 0
        for batch in split(records):
            header = read_header(batch)
            if header.next_offset <= offset:
                continue
            producer = (
                ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
            )
            if header.is_control:
                yield from self._replay_marker(batch, header, producer)
            else:
                for record in iterate(batch):
                    if record.offset >= offset and record.key is not None:
                        yield from self._apply(record.key, record.value, record.offset, producer)
                    done += 1 + len(record.value or b"") // _BYTES_A_ROW
                    if done >= ROWS_A_STEP:
                        done = 0
                        yield
            offset = header.next_offset
        return offset

    def _replay_marker(self, batch: Any, header: BatchHeader, producer: ProducerIdAndEpoch | None) -> Steps[None]:
        """A barrier is a control batch, too, and of nobody's transaction."""
        marker = read_marker(batch, header)
        if producer is not None and marker is not None:
            end = EndOfTransaction(producer, marker.kind == COMMIT, marker.coordinator_epoch)
            yield from self._machine.apply(end) or ()

    def _apply(self, key: bytes, value: bytes | None, offset: int, producer: ProducerIdAndEpoch | None) -> Steps[None]:
        try:
            record = self._kind.decode(key, value)
        except BadRecord as bad:
            self._on_bad_record(offset, bad)
            return
        if record is not None:
            yield from self._machine.apply(record if producer is None else InTransaction(producer, record)) or ()


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
