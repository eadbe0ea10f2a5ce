"""Appending and reading one log: offsets, whole batches, bounds, segments, refusals."""

import errno
import struct
from typing import Any

import pytest

from support.batches import Batch
from support.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    append,
    newest,
    open_log,
    records_of,
    some_batch,
    values_of,
    with_settings,
)
from support.records_field import iterate_all
from tailrace.errors import ApiError, ErrorCode
from tailrace.log import lookup
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import read_file
from tailrace.log.log import Log
from tailrace.records.batch import split
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build


def test_batches_get_consecutive_offsets_and_the_leaders_epoch() -> None:
    log = open_log(MemoryFilesystem())
    first, second = log.append([some_batch(b"a", b"b"), some_batch(b"c")], 7, NOW)
    assert (first.base_offset, first.last_offset, second.base_offset, log.log_end_offset) == (0, 1, 2, 3)
    assert [record.value for record in records_of(log)] == [b"a", b"b", b"c"]
    assert (log.epochs.latest, log.epochs.epoch_at(2), log.epochs.end_offset_for(7, 3)) == (7, 7, (7, 3))


def test_all_batches_of_one_append_go_out_with_one_write() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(segment_bytes=100_000))
    append(log, b"first, which also writes the leader epoch")
    before = filesystem.writes
    log.append([some_batch(b"v" * 50) for _ in range(20)], 0, NOW)
    assert filesystem.writes == before + 1


def test_a_refused_batch_does_not_stop_its_neighbours() -> None:
    log = open_log(MemoryFilesystem())
    damaged = some_batch(b"damaged")
    damaged[-1] ^= 1
    answers = log.append([some_batch(b"a"), damaged, bytearray(3), some_batch(b"b")], 0, NOW)
    assert [answer.error_code for answer in answers] == [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, 0]
    assert values_of(log) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("settings", "batch", "code"),
    [
        ({"max_message_bytes": 100}, some_batch(b"x" * 100), ErrorCode.MESSAGE_TOO_LARGE),
        ({"segment_bytes": 100}, some_batch(b"x" * 100), ErrorCode.RECORD_LIST_TOO_LARGE),
        ({"message_timestamp_after_max_ms": 5}, some_batch(b"x", timestamp=NOW + 6), ErrorCode.INVALID_TIMESTAMP),
        ({"message_timestamp_before_max_ms": 5}, some_batch(b"x", timestamp=NOW - 6), ErrorCode.INVALID_TIMESTAMP),
        ({}, some_batch(b"x", control=True), ErrorCode.INVALID_RECORD),
    ],
)
def test_the_topics_limits_are_kept(settings: dict[str, int], batch: bytearray, code: ErrorCode) -> None:
    log = open_log(MemoryFilesystem(), with_settings(**settings))
    (answer,) = log.append([batch], 0, NOW)
    assert (answer.error_code, log.log_end_offset, log.size_bytes) == (code, 0, 0)


@pytest.mark.parametrize(
    ("settings", "times", "blamed"),
    [
        ({"message_timestamp_before_max_ms": 1000}, (NOW, NOW - 1001, NOW - 1000), (1,)),
        ({"message_timestamp_after_max_ms": 1000}, (NOW + 1001, NOW + 1000, NOW + 5000), (0, 2)),
        ({"message_timestamp_before_max_ms": 1, "message_timestamp_type": "LogAppendTime"}, (NOW - 9, NOW), None),
        ({"message_timestamp_before_max_ms": 1000}, (-1, NOW), None),
    ],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_outside_the_times_allowed_are_named(
    settings: dict[str, Any], times: tuple[int, ...], blamed: tuple[int, ...] | None, codec: Codec
) -> None:
    log = open_log(MemoryFilesystem(), with_settings(**settings))
    batch = build([Record(timestamp=time, value=b"v") for time in times], compression=codec)
    (answer,) = log.append([batch], 0, NOW)
    expected = ErrorCode.NONE if blamed is None else ErrorCode.INVALID_TIMESTAMP
    assert (answer.error_code, answer.record_errors) == (expected, blamed or ())


def test_a_coordinator_may_write_what_a_client_may_not() -> None:
    log = open_log(MemoryFilesystem(), with_settings(max_message_bytes=10))
    (answer,) = log.append([some_batch(b"x", control=True)], 0, NOW, from_client=False)
    assert answer.error_code == 0


def test_log_append_time_is_stamped_and_answered() -> None:
    log = open_log(MemoryFilesystem(), with_settings(message_timestamp_type="LogAppendTime"))
    (answer,) = log.append([some_batch(b"x", timestamp=5)], 0, NOW)
    assert (answer.log_append_time_ms, records_of(log)[0].timestamp, newest(log)) == (NOW, NOW, NOW)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch(codec: Codec) -> None:
    log = open_log(MemoryFilesystem())
    append(log, b"a")
    append(log, b"b", b"c", b"d", codec=codec)
    assert [record.offset for record in iterate_all(log.read(2, 10_000).read())] == [1, 2, 3]


def test_reads_from_every_offset_see_every_later_record() -> None:
    log = open_log(MemoryFilesystem())
    for number in range(60):
        append(log, *([b"%d" % number] * (number % 4 + 1)), timestamp=NOW + number)
    assert len(log.segments.bases) > 3
    everything = records_of(log)
    assert [record.offset for record in everything] == list(range(log.log_end_offset))
    for offset in range(log.log_end_offset):
        assert records_of(log, offset, max_bytes=150) == everything[offset:]


@pytest.mark.parametrize("max_bytes", [1, 100, 150, 250, 999])
def test_a_read_holds_whole_batches_within_max_bytes_but_at_least_one(max_bytes: int) -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=100_000))
    for _ in range(30):
        append(log, b"v" * 40)
    size = len(some_batch(b"v" * 40))
    for offset in (0, 13, 29):
        data = log.read(offset, max_bytes).read()
        assert len(split(data)) == max(1, min(30 - offset, max_bytes // size))
        assert log.read(offset, size - 1, min_one=False).length == 0


def test_nothing_at_or_above_the_high_watermark_is_read() -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=700))
    for _ in range(20):
        append(log, b"a", b"b")
    for high_watermark in range(0, 41, 2):
        assert len(records_of(log, 0, max_bytes=10_000, max_offset=high_watermark)) == high_watermark
    assert log.read(8, 1000, max_offset=8).read() == b""
    assert log.read(20, 1000, max_offset=8).read() == b""


def test_the_end_is_empty_and_beyond_it_is_out_of_range() -> None:
    log = open_log(MemoryFilesystem())
    append(log, b"a", b"b", b"c")
    log.advance_log_start_offset(1)
    assert log.read(3, 1000).read() == b""
    for offset in (0, 4, -1):
        with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
            log.read(offset, 1000)


def test_a_reader_at_the_tail_follows_through_a_roll() -> None:
    log = open_log(MemoryFilesystem())
    for number in range(40):
        append(log, b"%d" % number)
        assert values_of(log, offset=number) == [b"%d" % number]


def test_segments_roll_by_size_and_by_the_records_time() -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=200, segment_ms=1000))
    append(log, b"a", timestamp=NOW)
    append(log, b"b", timestamp=NOW + 1001)
    append(log, b"c" * 130, timestamp=NOW + 1001)
    append(log, b"d", timestamp=NOW + 1500)
    assert log.segments.bases == [0, 1, 2, 3]


def test_max_compaction_lag_ms_closes_a_compacted_logs_segment() -> None:
    for policy, expected in (("compact", [0, 2]), ("delete", [0])):
        settings = with_settings(segment_ms=10_000, max_compaction_lag_ms=1000, cleanup_policy=policy)
        log = open_log(MemoryFilesystem(), settings)
        for late_ms in (0, 1000, 1001):
            log.append([build([Record(timestamp=NOW + late_ms, key=b"k", value=b"v")])], 0, NOW)
        assert log.segments.bases == expected


def test_segment_jitter_ms_takes_another_share_of_segment_ms_for_every_log() -> None:
    settings = with_settings(segment_ms=1000, segment_jitter_ms=800)
    ages = []
    for number in range(20):
        log = Log.open(MemoryFilesystem(), f"/logs/topic-{number}", settings)
        append(log, b"first", timestamp=NOW)
        ages.append(log.limits.roll_after_ms(log.segments.active))
        append(log, b"not yet", timestamp=NOW + ages[-1])
        assert log.segments.bases == [0]
        append(log, b"now", timestamp=NOW + ages[-1] + 1)
        assert log.segments.bases == [0, 2]
    assert all(200 < age <= 1000 for age in ages) and len(set(ages)) > 10


def test_the_clock_closes_a_segment_that_begins_without_a_timestamp() -> None:
    filesystem, settings = MemoryFilesystem(), with_settings(segment_ms=1000, segment_bytes=9999)
    leader, follower = open_log(filesystem, settings), Log.open(filesystem, "/logs/copy-0", settings)

    def written(timestamp: int, now_ms: int) -> list[int]:
        at = leader.log_end_offset
        leader.append([some_batch(b"v", timestamp=timestamp)], 0, now_ms)
        piece = leader.read(at, 1000)
        assert piece is not None
        follower.append_replicated(piece.read(), now_ms)
        assert leader.segments.bases == follower.segments.bases
        return list(leader.segments.bases)

    assert written(-1, NOW) == written(-1, NOW + 500) == written(NOW + 500, NOW + 1000) == [0]
    assert written(-1, NOW + 1001) == [0, 3]  # from here on since this one was written
    assert written(-1, NOW + 2001) == [0, 3] and written(NOW, NOW + 2002) == [0, 3, 5]
    assert written(-1, NOW + 9999) == [0, 3, 5] and written(NOW + 1001, NOW + 9999) == [0, 3, 5, 7]  # its own time
    leader.append([some_batch(b"v", timestamp=-1)], 0, NOW + 9999)
    leader.roll()
    leader.append([some_batch(b"v", timestamp=-1)], 0, NOW + 9999)
    leader.close()
    again = open_log(filesystem, settings)  # when it was written nobody knows any more: since the first append now
    for now_ms, expected in ((NOW + 20_000, 0), (NOW + 21_000, 0), (NOW + 21_001, 1)):
        before = len(again.segments.bases)
        again.append([some_batch(b"v", timestamp=-1)], 0, now_ms)
        assert len(again.segments.bases) == before + expected


@pytest.mark.parametrize(("index_bytes", "entries"), [(24, 1), (36, 2), (40, 2), (60, 4)])
def test_an_index_is_full_one_entry_before_the_time_index_would_be(index_bytes: int, entries: int) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(
        filesystem, with_settings(segment_index_bytes=index_bytes, index_interval_bytes=0, segment_bytes=99_999)
    )
    for number in range(20):
        append(log, b"v", timestamp=NOW + number)
    log.close()
    sizes = [len(read_file(filesystem, f"{DIRECTORY}/{base:020}.timeindex")) for base in log.segments.bases[:-1]]
    assert len(sizes) > 2 and {size // 12 for size in sizes} == {entries}  # apache/kafka: TimeIndex.isFull


def test_segments_roll_when_an_index_is_full() -> None:
    log = open_log(
        MemoryFilesystem(), with_settings(segment_index_bytes=24, index_interval_bytes=0, segment_bytes=9999)
    )
    for _ in range(10):
        append(log, b"v")
    assert len(log.segments.bases) > 2


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_whose_index_is_full_rolls_at_once_also_after_a_restart(clean: bool) -> None:
    filesystem, settings = MemoryFilesystem(), with_settings(segment_index_bytes=24, segment_bytes=9_999_999)
    log = open_log(filesystem, settings)
    while not log.segments.active.full:
        append(log, b"v" * 100)
    full_at = log.log_end_offset
    log.close()
    again = open_log(filesystem, settings, clean=clean, recovery_point=full_at if clean else 0)
    append(again, b"v")
    assert again.segments.bases == [0, full_at]


@pytest.mark.parametrize("index_bytes", [4, 23])
def test_every_batch_has_a_segment_where_the_index_takes_no_entry(index_bytes: int) -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_index_bytes=index_bytes, segment_bytes=9999))
    for _ in range(4):
        append(log, b"v")
    assert log.segments.bases == [0, 1, 2, 3]


def test_one_append_may_fill_several_segments() -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=300))
    answers = log.append([some_batch(b"v" * 80) for _ in range(9)], 0, NOW)
    assert [answer.base_offset for answer in answers] == list(range(9))
    assert log.segments.bases == [0, 2, 4, 6, 8] and len(records_of(log)) == 9


def test_a_slice_stays_readable_after_its_segment_is_gone() -> None:
    log = open_log(MemoryFilesystem())
    append(log, b"kept")
    held = log.read(0, 1000)
    log.reset_to(100)
    assert [record.value for record in iterate_all(held.read())] == [b"kept"]
    assert log.log_start_offset == log.log_end_offset == 100


def test_a_full_disk_refuses_the_append_and_heals() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"before")
    filesystem.fail_next("write", OSError(errno.ENOSPC, "No space left on device"))
    answers = log.append([some_batch(b"x"), some_batch(b"y")], 0, NOW)
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert log.log_end_offset == 1 and log.storage_error is not None
    append(log, b"after")
    assert values_of(log) == [b"before", b"after"]
    assert values_of(open_log(filesystem)) == [b"before", b"after"]


def test_replicated_batches_keep_their_offsets_and_epochs() -> None:
    leader, follower = open_log(MemoryFilesystem()), open_log(MemoryFilesystem())
    for epoch in (0, 0, 3, 5):
        append(leader, b"v", b"w", leader_epoch=epoch)
    follower.append_replicated(leader.read(0, 10_000).read(), NOW)
    assert records_of(follower) == records_of(leader)
    assert follower.epochs.entries() == leader.epochs.entries() == [(0, 0), (3, 4), (5, 6)]
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        follower.append_replicated(leader.read(0, 10_000).read(), NOW)


def test_a_follower_takes_a_gap_of_more_offsets_than_a_segment_can_hold() -> None:
    filesystem, config = MemoryFilesystem(), with_settings(cleanup_policy="compact")
    follower = open_log(filesystem, config)
    # What the cleaner has left of a leader's log; the first batch does not fit into a segment that begins at 0 either.
    offsets = [2**31 + 1, 2**31 + 2, 2**33, *range(2**35, 2**35 + 20)]
    for offset in offsets:
        follower.append_replicated(Batch(base_offset=offset, leader_epoch=0).encode(), NOW)
    assert [record.offset for record in records_of(follower)] == offsets
    assert follower.segments.bases[:4] == [0, 2**31 + 1, 2**33, 2**35]
    follower.flush()
    filesystem.kill()
    assert [record.offset for record in records_of(open_log(filesystem, config))] == offsets
    follower = open_log(filesystem, config, recovery_point=offsets[-1] + 1)
    assert [record.offset for record in records_of(follower)] == offsets
    assert lookup.find(follower, 0) == (newest(follower), offsets[0], 0)


@pytest.mark.parametrize("offset", range(13))
def test_truncation_cuts_the_batch_that_holds_the_offset(offset: int) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(segment_bytes=200))
    for number in range(4):
        append(log, b"a", b"b", b"c", leader_epoch=number)
    log.truncate_to(offset)
    kept = offset // 3 * 3
    assert (log.log_end_offset, len(records_of(log))) == (kept, kept)
    assert log.epochs.latest == kept // 3 - 1
    append(log, b"new", leader_epoch=9)
    reopened = open_log(filesystem, with_settings(segment_bytes=200))
    assert records_of(reopened) == records_of(log) and reopened.epochs.entries() == log.epochs.entries()


def test_settings_may_change_while_the_log_is_open() -> None:
    log = open_log(MemoryFilesystem())
    log.config = with_settings(max_message_bytes=10)
    assert log.append([some_batch(b"x")], 0, NOW)[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    log.config = SMALL
    append(log, b"x")


def test_the_time_index_has_no_entry_for_what_has_no_timestamp() -> None:
    """As Kafka's: its empty index ends at -1, and only what is later is added."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(segment_bytes=2000, index_interval_bytes=100))
    for number in range(30):
        append(log, b"v" * 50, timestamp=-1 if number < 28 else NOW)
    log.close()
    for base in log.segments.bases:
        times = read_file(filesystem, f"{DIRECTORY}/{base:020}.timeindex")
        assert read_file(filesystem, f"{DIRECTORY}/{base:020}.index")
        assert times == (b"" if base < log.segments.active.base_offset else struct.pack(">qi", NOW, 28 - base))
    found = lookup.find(open_log(filesystem, clean=True, recovery_point=30), 0)
    assert found is not None and (found.offset, found.timestamp) == (28, NOW)
