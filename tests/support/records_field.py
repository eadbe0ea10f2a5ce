"""The records of a records field, as a Fetch answer or a read of a log has it."""

from collections.abc import Iterator

from tailrace.records.batch import Bytes, whole_batches
from tailrace.records.record import Record, iterate


def iterate_all(records: Bytes) -> Iterator[Record]:
    """The records of all whole batches."""
    for batch in whole_batches(records):
        yield from iterate(batch)
