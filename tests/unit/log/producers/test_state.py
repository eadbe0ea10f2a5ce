"""Idempotence (KIP-98): duplicates, gaps, epochs, expiry, and Kafka's snapshot file."""

import errno

import pytest

from support.logs import DIRECTORY, NOW, append, open_log, some_batch, values_of, with_settings
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join
from tailrace.log.log import Log, LogAppendResult
from tailrace.log.producers.state import (
    MAX_SEQUENCE,
    BatchMetadata,
    ProducerEntry,
    ProducerState,
    decode_snapshot,
    encode_snapshot,
    last_sequence,
)
from tailrace.log.retention import delete_retention

HOUR_MS = 3_600_000


def send(log: Log, sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 1) -> LogAppendResult:
    batch = some_batch(*(values or (b"v",)), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return log.append([batch], 0, NOW)[0]


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    log = open_log(MemoryFilesystem())
    send(log, 0, b"a", b"b")
    first = send(log, 2, b"c", b"d")
    again = send(log, 2, b"c", b"d")
    assert again[:3] == first[:3] == (0, 2, 3) and log.log_end_offset == 4


def test_the_last_five_batches_are_known_and_an_older_one_is_out_of_order() -> None:
    log = open_log(MemoryFilesystem())
    for sequence in range(6):
        send(log, sequence)
    assert [send(log, sequence).base_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    assert send(log, 0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("sequence", "epoch", "code"),
    [
        (2, 3, ErrorCode.NONE),
        (3, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 4, ErrorCode.NONE),
        (2, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_after_sequence_1_of_epoch_3(sequence: int, epoch: int, code: ErrorCode) -> None:
    log = open_log(MemoryFilesystem())
    send(log, 0, b"a", b"b", epoch=3)
    assert send(log, sequence, epoch=epoch).error_code == code


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert send(open_log(MemoryFilesystem()), 77).error_code == 0


def test_a_duplicate_within_one_gathered_append_is_found() -> None:
    log = open_log(MemoryFilesystem())
    batches = [
        some_batch(b"v", producer_id=1, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1, 0, 1, 2)
    ]
    assert [answer.base_offset for answer in log.append(batches, 0, NOW)] == [0, 1, 0, 1, 2]
    assert log.log_end_offset == 3


def test_a_failed_write_leaves_the_sequence_free() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    send(log, 0)
    filesystem.fail_next("write", OSError(errno.ENOSPC, "full"))
    batches = [some_batch(b"v", producer_id=1, producer_epoch=0, base_sequence=sequence) for sequence in (1, 1, 2)]
    assert {answer.error_code for answer in log.append(batches, 0, NOW)} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert [send(log, 1).base_offset, send(log, 2).base_offset] == [1, 2]


def test_producers_are_remembered_across_segments_in_one_append() -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=300))
    batches = [some_batch(b"v" * 80, producer_id=1, producer_epoch=0, base_sequence=n) for n in range(9)]
    assert [answer.error_code for answer in log.append(batches, 0, NOW)] == [0] * 9
    assert send(log, 8, b"v" * 80).base_offset == 8


def test_sequences_wrap_to_zero() -> None:
    assert last_sequence(MAX_SEQUENCE, 1) == 0
    log = open_log(MemoryFilesystem())
    send(log, MAX_SEQUENCE - 1, b"a", b"b")
    assert send(log, 0).base_offset == 2


def test_quiet_producers_expire_but_not_those_in_a_transaction() -> None:
    state = ProducerState()
    state.entries = {1: ProducerEntry(0, (), 100), 2: ProducerEntry(0, (), 200), 3: ProducerEntry(0, (), 100, 0, 7)}
    state.expire(1150, 1000)
    assert sorted(state.entries) == [1, 2, 3], "seen quiet for the first time"
    state.expire(2149, 1000)
    assert sorted(state.entries) == [1, 2, 3]
    state.expire(2150, 1000)
    assert sorted(state.entries) == [2, 3]


def test_a_clock_that_jumps_ahead_makes_no_second_record_of_a_repeated_batch() -> None:
    log = open_log(MemoryFilesystem())
    send(log, 0, b"a")
    jumped = NOW + 26 * HOUR_MS
    for minutes in range(0, 10):
        delete_retention(log, jumped + minutes * 60_000, 0)
        assert send(log, 0, b"a") == LogAppendResult(0, 0, 0, -1, None)
    delete_retention(log, jumped + 600_000, 0)
    assert not log.producers.entries


def test_a_clock_that_is_set_back_again_lets_producers_be_as_old_as_they_were() -> None:
    state = ProducerState()
    state.entries = {1: ProducerEntry(0, (), NOW)}
    state.expire(NOW + 26 * HOUR_MS, 24 * HOUR_MS)
    state.expire(NOW + 1, 24 * HOUR_MS)
    state.expire(NOW + 24 * HOUR_MS, 24 * HOUR_MS)
    assert list(state.entries) == [1], "seen quiet for the first time since"


def test_who_writes_records_of_long_ago_is_remembered_while_it_writes() -> None:
    log = open_log(MemoryFilesystem())
    for minute in range(60):  # as when the records of another cluster are copied with their times
        now_ms = NOW + 400 * HOUR_MS + minute * 60_000
        assert send(log, minute, b"old").base_offset == minute
        delete_retention(log, now_ms, 0)
        assert send(log, minute, b"old").base_offset == minute
    assert len(values_of(log)) == 60


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_leader_its_follower_and_the_next_start_remember_a_producer_by_the_same_time(kind: str) -> None:
    filesystem, settings = MemoryFilesystem(), with_settings(message_timestamp_type=kind)
    leader, follower = open_log(filesystem, settings), open_log(MemoryFilesystem(), settings)
    for sequence, moment in enumerate((NOW - 9000, NOW - 5000)):
        batch = some_batch(b"v", timestamp=moment, producer_id=1, producer_epoch=0, base_sequence=sequence)
        assert leader.append([batch], 0, NOW)[0].error_code == 0
    follower.append_replicated(leader.read(0, 1000).read(), NOW)
    wanted = NOW if kind == "LogAppendTime" else NOW - 5000
    leader.close()
    for log in (leader, follower, open_log(filesystem, settings)):
        (entry,) = log.producers.entries.values()
        assert (entry.last_timestamp, entry.batches[-1].timestamp) == (wanted, wanted)


def test_truncation_forgets_the_batches_it_cut() -> None:
    log = open_log(MemoryFilesystem())
    for sequence in range(4):
        send(log, sequence)
    log.truncate_to(2)
    assert send(log, 3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [send(log, sequence).base_offset for sequence in (2, 3)] == [2, 3]
    assert len(values_of(log)) == 4


def test_a_snapshot_round_trips_with_the_last_batch_of_each_producer() -> None:
    state = ProducerState()
    batches = (BatchMetadata(4, 10, 1, 50), BatchMetadata(6, 12, 1, 60))
    state.entries = {7: ProducerEntry(2, batches, 60, 5, 11), 2**62: ProducerEntry(0, (), 9)}
    content = encode_snapshot(state.entries)
    assert len(content) == 10 + 2 * 46
    expected = {7: ProducerEntry(2, batches[1:], 60, 5, 11), 2**62: ProducerEntry(0, (), 9)}
    assert decode_snapshot(content).entries == expected


def test_a_damaged_snapshot_is_refused() -> None:
    state = ProducerState()
    state.entries = {7: ProducerEntry(2, (BatchMetadata(4, 10, 1, 50),), 60)}
    content = encode_snapshot(state.entries)
    for damaged in (b"", content[:-1], content + b"\0", content[:20] + b"\xff" + content[21:], b"\0\x02" + content[2:]):
        with pytest.raises(ApiError):
            decode_snapshot(damaged)


def test_a_roll_leaves_a_snapshot_named_after_the_new_segment() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=0)
    log.roll()
    log.flush()
    assert decode_snapshot(bytes(filesystem.content(join(DIRECTORY, f"{1:020d}.snapshot")))).entries.keys() == {3}
