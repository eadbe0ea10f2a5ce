"""Shard barriers as other programs see them that read the log."""

from struct import unpack

from tailrace.records.batch import read_header
from tailrace.records.record import iterate
from tailrace_broker.partitions.shard_barriers import BARRIER_TYPE, barrier


def test_kafkas_transaction_coordinator_leaves_a_barrier_alone() -> None:
    """It does not look whether a batch is one of control records, and takes keys of version 0 for transactional ids."""
    batch = barrier(7, 1, 1_700_000_000_000)
    (record,) = iterate(bytes(batch))
    assert record.key is not None
    version, kind = unpack(">hh", record.key)
    assert (kind, read_header(batch).is_control) == (BARRIER_TYPE, True)
    assert version > 0  # of less, consumers say that the record is invalid
