"""Transactions in the log (KIP-98): the last stable offset, the index of aborted ones, and both after every end."""

import random

import pytest

from support.logs import DIRECTORY, NOW, append, open_log, some_batch, with_settings
from support.transactions import all_batches, data_batch, expected, marker_batch, read_committed, write
from tailrace.errors import ErrorCode
from tailrace.log.compaction import plan
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join, read_file
from tailrace.log.log import Log
from tailrace.log.producers.open_transactions import OpenTransactions
from tailrace.log.producers.state import ProducerEntry, decode_snapshot, encode_snapshot
from tailrace.log.retention import delete_retention
from tailrace.log.segment.transactions import AbortedTransaction, decode
from tailrace.records.batch import read_header
from tailrace.records.markers import ABORT, COMMIT

WIDE = with_settings(segment_bytes=100_000)
INDEX = join(DIRECTORY, "0" * 20 + ".txnindex")


def stable(log: Log) -> int:
    return log.last_stable_offset(log.log_end_offset)


def aborted(log: Log, offset: int = 0, max_bytes: int = 100_000) -> list[tuple[int, int]]:
    return log.aborted_transactions(offset, log.read(offset, max_bytes))


def test_the_last_stable_offset_is_the_first_of_an_open_transaction() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    assert stable(log) == 0
    append(log, b"plain")
    write(log, data_batch(7), data_batch(8), data_batch(7))
    assert (log.log_end_offset, stable(log), log.last_stable_offset(1)) == (4, 1, 1)
    write(log, marker_batch(7, COMMIT))
    assert stable(log) == 2
    write(log, marker_batch(8, ABORT))
    assert stable(log) == log.log_end_offset == 6


def test_a_marker_that_is_not_replicated_yet_decides_nothing() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7), data_batch(8), marker_batch(8, COMMIT), marker_batch(7, COMMIT))
    # At 3 transaction 8 has ended for good, but 7 began before it.
    assert [log.last_stable_offset(mark) for mark in range(5)] == [0, 0, 0, 0, 4]


def test_what_held_the_last_stable_offset_down_is_forgotten_in_any_order_of_the_markers() -> None:
    transactions = OpenTransactions()
    for first in (1, 2, 3):
        transactions.begin(first, first)
    assert [transactions.end(first, marker) for first, marker in ((2, 4), (1, 5), (3, 6))] == [1, 3, 7]
    found = []
    for mark in (4, 5, 6, 7):
        transactions.replicated(mark)
        found.append(transactions.first_unstable_offset)
    assert found == [1, 1, 3, 2**63 - 1] and len(transactions) == 0


def test_below_the_log_start_nothing_is_unstable() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7, b"a", b"b"))
    append(log, b"plain")
    log.advance_log_start_offset(2)
    assert stable(log) == 2


def test_an_abort_is_in_the_index_with_the_last_stable_offset_after_it() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), data_batch(8), data_batch(9), marker_batch(9, COMMIT), marker_batch(7, ABORT))
    write(log, marker_batch(8, ABORT), marker_batch(6, ABORT))  # the last ends nothing, so it is in no index
    log.roll()
    rows = [AbortedTransaction(7, 0, 4, 1), AbortedTransaction(8, 1, 5, 6)]
    assert decode(read_file(filesystem, INDEX)) == rows
    append(log, b"next")
    log.roll()
    assert [name for name in filesystem.list(DIRECTORY) if name.endswith(".txnindex")] == ["0" * 20 + ".txnindex"]


def test_a_read_is_told_of_the_aborts_that_concern_it_and_of_no_others() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    size = len(data_batch(7))
    write(log, data_batch(7), marker_batch(7, ABORT), data_batch(8), data_batch(9), marker_batch(9, COMMIT))
    write(log, data_batch(7), marker_batch(8, ABORT), marker_batch(7, ABORT))
    assert aborted(log) == [(7, 0), (8, 2), (7, 5)]
    assert aborted(log, 2) == [(8, 2), (7, 5)]
    assert aborted(log, 0, size) == [(7, 0)]
    assert aborted(log, 2, size) == [(8, 2)]
    assert aborted(log, 3, size) == [(8, 2)]
    assert aborted(log, 7) == [(7, 5)]


def test_an_abort_is_told_of_though_its_marker_is_segments_further_on() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7), data_batch(8))
    for _ in range(3):
        log.roll()
        append(log, b"plain")
    log.roll()
    write(log, marker_batch(7, ABORT), data_batch(9), marker_batch(9, ABORT), marker_batch(8, ABORT))
    assert aborted(log) == [(7, 0), (8, 1)]
    assert aborted(log, 3) == [(7, 0), (8, 1)]
    assert aborted(log, 6) == [(9, 6), (8, 1)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_knows_the_open_and_the_aborted_transactions(clean: bool) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT), data_batch(8, epoch=3))
    if clean:
        log.close()
    log = open_log(filesystem, WIDE, clean=clean)
    assert (stable(log), aborted(log)) == (2, [(7, 0)])
    entry = log.producers.entries[8]
    assert (entry.producer_epoch, entry.current_txn_first_offset) == (3, 2)
    write(log, marker_batch(8, ABORT, epoch=3))
    assert (stable(log), aborted(log)) == (4, [(7, 0), (8, 2)])


def test_a_snapshot_carries_the_open_transactions() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(9), data_batch(7), marker_batch(9, COMMIT, coordinator_epoch=4))
    state = decode_snapshot(encode_snapshot(log.producers.entries))
    assert state.entries == log.producers.entries
    assert state.entries[9].coordinator_epoch == 4
    assert state.transactions.first_unstable_offset == 1 and len(state.transactions) == 1


def test_without_its_snapshot_a_transaction_whose_beginning_was_deleted_begins_where_the_log_has_it_first() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7))
    log.roll()
    append(log, b"plain")
    write(log, data_batch(7))
    log.advance_log_start_offset(1)
    delete_retention(log, NOW, log.log_end_offset)
    log.close()
    assert log.segments.bases == [1] and stable(log) == 1
    for name in [name for name in filesystem.list(DIRECTORY) if name.endswith(".snapshot")]:
        filesystem.remove(join(DIRECTORY, name))
    again = open_log(filesystem, WIDE)
    assert stable(again) == again.producers.entries[7].current_txn_first_offset == 2
    write(again, marker_batch(7, ABORT))
    assert (stable(again), aborted(again, 1)) == (4, [(7, 2)])


def test_a_follower_has_the_same_index() -> None:
    twin_files = MemoryFilesystem()
    log, twin = open_log(MemoryFilesystem(), WIDE), open_log(twin_files, with_settings(segment_bytes=200))
    write(log, data_batch(7), data_batch(8), marker_batch(7, ABORT), data_batch(7), marker_batch(8, ABORT))
    twin.append_replicated(log.read(0, 100_000).read(), NOW)
    assert (stable(twin), aborted(twin)) == (3, [(7, 0), (8, 1)])
    assert len(twin.segments.bases) > 1
    twin.close()
    found = []
    for name in sorted(twin_files.list(DIRECTORY)):
        if name.endswith(".txnindex"):
            found += decode(read_file(twin_files, join(DIRECTORY, name)))
    assert found == [AbortedTransaction(7, 0, 2, 1), AbortedTransaction(8, 1, 4, 3)]


def test_a_cut_opens_the_transactions_again_whose_marker_it_took() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT), data_batch(8), marker_batch(8, ABORT))
    log.close()
    log.truncate_to(3)
    assert (stable(log), aborted(log)) == (2, [(7, 0)])
    write(log, marker_batch(8, COMMIT))
    log.roll()
    assert decode(read_file(filesystem, INDEX)) == [AbortedTransaction(7, 0, 1, 2)]
    log.truncate_to(1)
    assert (stable(log), aborted(log)) == (0, [])


def test_a_cut_through_segments_takes_their_indexes() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT))
    log.roll()
    write(log, data_batch(7), marker_batch(7, ABORT))
    log.roll()
    append(log, b"plain")
    log.truncate_to(2)
    assert aborted(log) == [(7, 0)]
    log.close()
    sizes = {path: len(filesystem.content(path)) for path in (INDEX, join(DIRECTORY, f"{2:020d}.txnindex"))}
    assert list(sizes.values()) == [34, 0]
    log.truncate_to(1)
    assert f"{2:020d}.txnindex" not in filesystem.list(DIRECTORY)


def test_beginning_anew_forgets_all_transactions() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT), data_batch(8))
    log.reset_to(50)
    assert stable(log) == 50
    append(log, b"plain")
    assert (stable(log), aborted(log, 50)) == (51, [])


def test_retention_takes_the_index_with_its_segment() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT))
    log.roll()
    write(log, data_batch(8), marker_batch(8, ABORT))
    log.advance_log_start_offset(2)
    assert delete_retention(log, NOW, log.log_end_offset) == 1
    assert [path for path in log.segments.pending_deletions.due(2**62) if ".txnindex" in path] == [INDEX + ".deleted"]
    assert aborted(log, 2) == [(8, 2)]


@pytest.mark.parametrize("damage", ["cut", "version", "order"])
def test_a_damaged_index_is_rebuilt_from_the_batches_also_at_a_clean_start(damage: str) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), data_batch(8), marker_batch(7, ABORT))
    log.roll()
    write(log, marker_batch(8, ABORT))
    log.close()
    intact = bytes(filesystem.content(INDEX))
    content = filesystem.content(INDEX)
    if damage == "cut":
        del content[-1:]
    elif damage == "version":
        content[1] = 9
    else:
        content += intact
    log = open_log(filesystem, WIDE, clean=True, recovery_point=4)
    assert aborted(log) == [(7, 0), (8, 1)]
    assert bytes(filesystem.content(INDEX)) == intact


def test_an_index_without_a_segment_is_removed() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    append(log, b"plain")
    log.close()
    path = join(DIRECTORY, f"{5:020d}.txnindex")
    filesystem.open(path, create=True)
    open_log(filesystem, WIDE, clean=True, recovery_point=1)
    assert not [name for name in filesystem.list(DIRECTORY) if name.endswith(".txnindex")]


def test_what_recovery_finds_counts_and_not_what_the_index_said() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), marker_batch(7, ABORT))
    log.close()
    segment = filesystem.content(join(DIRECTORY, "0" * 20 + ".log"))
    del segment[-5:]
    log = open_log(filesystem, WIDE)
    assert (log.log_end_offset, stable(log), aborted(log)) == (1, 0, [])
    assert "0" * 20 + ".txnindex" not in filesystem.list(DIRECTORY)


def test_a_marker_of_an_old_producer_or_coordinator_epoch_is_refused() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7, epoch=2), marker_batch(7, COMMIT, epoch=2, coordinator_epoch=5), data_batch(7, epoch=2))
    old = [marker_batch(7, ABORT, epoch=1, coordinator_epoch=5), marker_batch(7, ABORT, epoch=2, coordinator_epoch=4)]
    codes = [answer.error_code for answer in log.append(old, 0, NOW, from_client=False)]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert (log.log_end_offset, stable(log)) == (3, 2)
    # A coordinator that fences a producer aborts with an epoch of its own, and it counts from then on.
    write(log, marker_batch(7, ABORT, epoch=3, coordinator_epoch=6))
    assert stable(log) == 4
    assert log.producers.entries[7] == ProducerEntry(3, (), NOW, 6, -1)


def test_a_producer_in_a_transaction_writes_nothing_outside_of_it() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7))
    outside = some_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=1)
    assert log.append([outside], 0, NOW)[0].error_code == ErrorCode.INVALID_TXN_STATE
    newer = some_batch(b"x", producer_id=7, producer_epoch=1, base_sequence=0)
    assert log.append([newer], 0, NOW)[0].error_code == ErrorCode.INVALID_TXN_STATE
    write(log, marker_batch(7, COMMIT))
    outside = some_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=1)
    assert log.append([outside], 0, NOW)[0].error_code == 0


def test_a_failed_write_ends_and_begins_nothing() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7))
    filesystem.fail_next("write", OSError(28, "full"))
    batches = [marker_batch(7, ABORT), data_batch(8)]
    answers = log.append(batches, 0, NOW, from_client=False)
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert stable(log) == 0 and not log.segments.has_aborted and 8 not in log.producers.entries
    write(log, marker_batch(7, ABORT))
    assert aborted(log) == [(7, 0)]


def test_what_compaction_leaves_is_told_as_before() -> None:
    log = open_log(MemoryFilesystem(), with_settings(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01))
    write(log, data_batch(7, b"aborted"), data_batch(8, b"committed"), marker_batch(7, ABORT), marker_batch(8, COMMIT))
    log.roll()
    write(log, data_batch(9, b"open"))
    before = read_committed(log, log.log_end_offset, 10_000, 0)
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    assert read_committed(log, log.log_end_offset, 10_000, 0) == before == [(1, b"committed")]
    assert expected(all_batches(log), log.log_end_offset).last_stable_offset == stable(log) == 4
    assert aborted(log) == [(7, 0)]


def test_a_marker_is_a_marker_only_if_it_says_so() -> None:
    """A control batch of another type (a shard barrier) touches no transaction."""
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7), marker_batch(7, 10_004))
    assert stable(log) == 0
    assert read_header(log.read(1, 1).read()).is_control


def test_a_transaction_is_late_when_its_producer_has_been_silent() -> None:
    log = open_log(MemoryFilesystem(), WIDE)
    write(log, data_batch(7), data_batch(8), marker_batch(8, COMMIT))
    assert [log.producers.late_transactions(NOW + waited, 100) for waited in (100, 101)] == [0, 1]
    write(log, marker_batch(7, ABORT))
    assert log.producers.late_transactions(NOW + 101, 100) == 0


class WithoutNames(random.Random):
    """A crash that keeps every byte of the files, and no change of names that was not synced."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


def test_a_crash_after_a_cut_does_not_bring_back_what_was_known_of_the_records_that_went() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), data_batch(8))
    log.roll()
    log.flush()
    log.truncate_to(1)
    write(log, marker_batch(7, ABORT), data_batch(9))
    log.flush()
    filesystem.crash(WithoutNames())
    log = open_log(filesystem, WIDE, recovery_point=log.recovery_point)
    assert (log.log_end_offset, stable(log), aborted(log)) == (3, 2, [(7, 0)])
    assert 8 not in log.producers.entries
