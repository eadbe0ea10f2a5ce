"""Offsets committed within transactions, in a log that came from a Kafka: which of them a loading shard takes."""

from support.logs import NOW
from support.transactions import marker_batch
from tailrace.log.producers.transactions import ABORT, COMMIT
from tailrace.records.batch import read_header, stamp
from tailrace.records.record import Record, build
from tailrace_coordinator.shards.transactional_records import TransactionalRecords


def offsets(key: bytes, value: bytes, producer_id: int = -1) -> bytearray:
    return build([Record(timestamp=NOW, key=key, value=value)], producer_id=producer_id, transactional=producer_id >= 0)


def loaded(*batches: bytearray) -> dict[bytes, bytes | None]:
    """What a shard knows after these batches."""
    transactions, known = TransactionalRecords(), {}
    for offset, batch in enumerate(batches):
        stamp(batch, 0, offset, 0)
        for record in transactions.decided(batch, read_header(batch), 0):
            known[record.key] = record.value
    return known


def test_an_offset_counts_from_its_commit_on() -> None:
    old, new = offsets(b"k", b"old"), offsets(b"k", b"new", 7)
    assert loaded(old, new) == {b"k": b"old"}
    assert loaded(old, new, marker_batch(8, COMMIT)) == {b"k": b"old"}
    assert loaded(old, new, marker_batch(7, COMMIT)) == {b"k": b"new"}


def test_an_aborted_offset_never_counts() -> None:
    old, new = offsets(b"k", b"old"), offsets(b"k", b"new", 7)
    assert loaded(old, new, marker_batch(7, ABORT), marker_batch(7, COMMIT)) == {b"k": b"old"}


def test_of_an_offset_that_was_committed_twice_the_later_record_counts_whatever_the_markers_order() -> None:
    first, plain = offsets(b"k", b"first", 7), offsets(b"k", b"plain")
    assert loaded(first, plain, marker_batch(7, COMMIT)) == {b"k": b"plain"}
    second = offsets(b"k", b"second", 8)
    ends = [marker_batch(8, COMMIT), marker_batch(7, COMMIT)]
    assert loaded(first, second, *ends) == {b"k": b"second"}
    assert loaded(first, second, *reversed(ends)) == {b"k": b"second"}
    assert loaded(first, plain, marker_batch(7, COMMIT), offsets(b"k", b"next", 7), marker_batch(7, COMMIT)) == {
        b"k": b"next"
    }
