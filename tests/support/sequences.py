"""Sequence numbers of a producer: batches of one record each, and what a log remembers of the producer."""

from __future__ import annotations

from support.broker import batch
from tailrace.log.producers.state import BatchMetadata, ProducerEntry
from tailrace.records.batch import BatchHeader, read_header


def sent(sequence: int, *, epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    """A batch of this sequence number."""
    return read_header(batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def known(last_sequence: int, epoch: int = 0) -> ProducerEntry:
    """A producer whose last batch is at offset 50."""
    return ProducerEntry(epoch, (BatchMetadata(last_sequence, 50, 0, 0),), 0)
