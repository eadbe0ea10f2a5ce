"""ListOffsets: exact by timestamp also inside compressed batches and with timestamps out of order."""

import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from support.batches import Batch, record
from support.logs import NOW, append, newest, open_log, records_of, with_settings
from tailrace.log import lookup
from tailrace.log.compaction import plan
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build


@pytest.mark.parametrize("seed", range(8))
def test_timestamps_are_found_exactly_in_any_order_and_codec(seed: int) -> None:
    choice = random.Random(seed)
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=2000, index_interval_bytes=100))
    for _ in range(40):
        records = [Record(timestamp=choice.randrange(500), value=b"v") for _ in range(choice.randrange(1, 6))]
        log.append([build(records, compression=choice.choice(list(Codec)))], 3, NOW)
    log.advance_log_start_offset(choice.randrange(20))
    everything = records_of(log)
    for timestamp in range(0, 510, 7):
        expected = next((record for record in everything if record.timestamp >= timestamp), None)
        found = lookup.find(log, timestamp)
        assert (found and found.offset) == (expected and expected.offset)
        assert found is None or (found.leader_epoch == 3 and expected and found.timestamp == expected.timestamp)
    newest = max(everything, key=lambda record: record.timestamp)
    largest = lookup.find(log, None)
    assert largest is not None and (largest.offset, largest.timestamp) == (newest.offset, newest.timestamp)


def test_lookups_stop_at_the_high_watermark() -> None:
    log = open_log(MemoryFilesystem())
    for timestamp in (10, 50, 20, 90):
        append(log, b"v", timestamp=timestamp)
    assert lookup.find(log, 60, max_offset=3) is None
    largest = lookup.find(log, None, max_offset=3)
    assert largest is not None and (largest.offset, largest.timestamp) == (1, 50)


def test_an_empty_log_has_no_timestamps() -> None:
    log = open_log(MemoryFilesystem())
    assert lookup.find(log, 0) is None
    assert lookup.find(log, None) is None
    assert newest(log) == -1


def test_of_records_that_carry_no_timestamp_the_first_is_the_newest() -> None:
    log = open_log(MemoryFilesystem())
    append(log, b"a", b"b", timestamp=-1)
    append(log, b"c", timestamp=-1)
    assert lookup.find(log, None) == (-1, 0, 0)
    log.advance_log_start_offset(1)
    assert lookup.find(log, None) == (-1, 1, 0)
    assert lookup.find(log, 0) is None
    log.advance_log_start_offset(3)
    assert lookup.find(log, None) is None


def test_a_batch_of_nonsense_is_found_by_its_header() -> None:
    log = open_log(MemoryFilesystem())
    nonsense = bytearray(Batch(attributes=Codec.ZSTD, payload=b"not zstd", base_timestamp=70).encode())
    assert log.append([nonsense], 0, NOW)[0].error_code == 0
    append(log, b"v", timestamp=80)
    found, largest = lookup.find(log, 60), lookup.find(log, None)
    assert found is not None and (found.offset, found.timestamp) == (0, 70)
    assert largest is not None and (largest.offset, largest.timestamp) == (1, 80)


def test_a_deleted_record_is_not_the_newest_any_more() -> None:
    log = open_log(MemoryFilesystem())
    log.append([build([Record(timestamp=9), Record(timestamp=3), Record(timestamp=5)])], 0, NOW)
    log.advance_log_start_offset(1)
    largest = lookup.find(log, None)
    assert largest is not None and (largest.offset, largest.timestamp) == (2, 5)


def test_the_newest_record_is_found_where_a_newer_batch_was_emptied() -> None:
    filesystem = MemoryFilesystem()
    config = with_settings(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    log = open_log(filesystem, config)
    for sequence, (key, time) in enumerate([(b"k", NOW + 9), (b"l", NOW + 1)]):
        record = Record(timestamp=time, key=key, value=b"v")
        log.append([build([record], producer_id=sequence, producer_epoch=0, base_sequence=0)], 0, NOW)
    log.append([build([Record(timestamp=NOW + 2, key=b"k", value=b"w")])], 0, NOW)
    log.roll()
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    newest = lookup.find(log, None)
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (2, NOW + 2)


def test_the_newest_record_is_found_below_a_high_watermark_inside_a_batch() -> None:
    log = open_log(MemoryFilesystem())
    records = [Record(timestamp=NOW + time, value=b"v") for time in (3, 1, 7)]
    log.append([build(records)], 0, NOW)
    assert [lookup.find(log, None, end) for end in (1, 2)] == [(NOW + 3, 0, 0)] * 2


def test_a_lookup_holds_one_record_of_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes may hold millions of them."""
    read, log = list[int](), open_log(MemoryFilesystem(), with_settings(segment_bytes=100_000))
    log.append([build([Record(timestamp=NOW + at, value=b"v") for at in range(1000)])], 0, NOW)
    entries = lookup.entries  # type: ignore[attr-defined]

    def counted(*arguments: Any) -> Iterator[Any]:
        for entry in entries(*arguments):
            read.append(entry.offset_delta)
            yield entry

    monkeypatch.setattr(lookup, "entries", counted)
    found = lookup.find(log, NOW + 3)
    assert found is not None and (found.offset, read) == (3, [0, 1, 2, 3])


def test_a_lookup_makes_nothing_of_a_records_headers() -> None:
    """A few kilobytes may hold millions of them."""
    log, count = open_log(MemoryFilesystem(), with_settings(segment_bytes=500_000)), 100_000
    log.append([bytearray(Batch(records=[record(0, b"v", headers=[("", b"")] * count)]).encode())], 0, NOW)
    tracemalloc.start()
    try:
        assert lookup.find(log, 0) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * count
