"""Offsets that were committed within transactions (KIP-98), as a shard that loads its log must take them. Pure.

They count from the commit marker on and never after an abort; what a transaction that nobody ended has written does
not count. A key that was written outside of the transaction after it keeps the later value, as in Kafka. Only logs that
came from a Kafka have such batches: nobody writes them here yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tailrace.log.producers.transactions import COMMIT, marker_type
from tailrace.records.batch import BatchHeader
from tailrace.records.record import iterate


class Read(NamedTuple):
    """A record that counts."""

    offset: int
    key: bytes
    value: bytes | None


class TransactionalRecords:
    """Holds records back until their transaction is decided; one for each load, fed with all batches in order."""

    def __init__(self) -> None:
        self._held: dict[int, list[Read]] = {}  # by producer id
        self._later: dict[bytes, int] = {}  # while anything is held: what was written meanwhile, and where

    def decided(self, batch: Any, header: BatchHeader, from_offset: int) -> Iterator[Read]:
        """The records at or after from_offset that count now."""
        if header.is_control:
            if header.is_transactional:
                yield from self._ended(header, marker_type(batch, header))
            return
        read = [Read(r.offset, r.key, r.value) for r in iterate(batch) if r.offset >= from_offset and r.key is not None]
        if header.is_transactional:
            self._held.setdefault(header.producer_id, []).extend(read)
            return
        if self._held:
            self._later.update((record.key, record.offset) for record in read)
        yield from read

    def _ended(self, header: BatchHeader, marker: int | None) -> Iterator[Read]:
        if marker is None:
            return
        held = self._held.pop(header.producer_id, [])
        if marker == COMMIT:
            for record in held:
                if self._later.get(record.key, -1) < record.offset:
                    if self._held:
                        self._later[record.key] = record.offset
                    yield record
        if not self._held:
            self._later.clear()
