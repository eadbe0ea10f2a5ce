"""Transactions in a compacted log, as Kafka's cleaner treats them."""

from struct import Struct

import pytest

from support.logs import DIRECTORY, NOW, open_log, with_settings
from tailrace.errors import ApiError
from tailrace.log.compaction import plan
from tailrace.log.compaction.rewrite import RewriteLimits
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join, read_file
from tailrace.log.log import Log
from tailrace.log.retention import delete_retention
from tailrace.records.batch import read_header, split
from tailrace.records.markers import ABORT, COMMIT
from tailrace.records.record import Record, build, iterate

COMPACTED = with_settings(
    cleanup_policy="compact", segment_bytes=100_000, min_cleanable_dirty_ratio=0.01, delete_retention_ms=1000
)
INDEX_ENTRY = Struct(">hqqqq")


def data(log: Log, producer_id: int, key: bytes, value: bytes | None = b"v") -> int:
    return write(log, producer_id, Record(timestamp=NOW, key=key, value=value), control=False)


def marker(log: Log, producer_id: int, kind: int) -> int:
    record = Record(timestamp=NOW, key=Struct(">hh").pack(0, kind), value=Struct(">hi").pack(0, 1))
    return write(log, producer_id, record, control=True)


def write(log: Log, producer_id: int, record: Record, *, control: bool) -> int:
    """As a coordinator writes it."""
    batch = build([record], producer_id=producer_id, producer_epoch=0, transactional=True, control=control)
    (answer,) = log.append([batch], 0, NOW, from_client=False)
    assert answer.error_code == 0
    return answer.base_offset


def plain(log: Log, key: bytes, value: bytes = b"v") -> None:
    log.append([build([Record(timestamp=NOW, key=key, value=value)])], 0, NOW)


def compact(log: Log, now_ms: int, limits: RewriteLimits = RewriteLimits(), *, quiet: bool = True) -> None:  # noqa: B008
    log.roll()
    plain(log, b"active", b"%d" % now_ms)
    if quiet:  # for so long that producers are forgotten: or the last batch of each would stay
        log.producers.expire(NOW, 0)
    compaction = plan.begin(log, now_ms, log.log_end_offset, limits)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)


def contents(log: Log) -> list[tuple[int, bytes | str | None]]:
    """(offset, key) of the records, "marker" for control records."""
    found: list[tuple[int, bytes | str | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = split(log.read(offset, 100_000).read())
        for batch in batches:
            header = read_header(batch)
            found += [(r.offset, "marker" if header.is_control else r.key) for r in iterate(batch)]
            offset = header.next_offset
    return [row for row in found if row[1] != b"active"]


def test_aborted_records_go_at_once_and_supersede_nothing() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    plain(log, b"k")
    data(log, 7, b"k", b"aborted")
    data(log, 7, b"only aborted")
    marker(log, 7, ABORT)
    compact(log, NOW)
    assert contents(log) == [(0, b"k"), (3, "marker")]


def test_a_marker_goes_a_delete_retention_after_the_last_of_its_records() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    data(log, 7, b"k", b"aborted")
    marker(log, 7, ABORT)
    data(log, 8, b"k", b"committed")
    marker(log, 8, COMMIT)
    compact(log, NOW)
    # This pass removed the aborted record; only the next finds nothing left of that transaction.
    assert contents(log) == [(1, "marker"), (2, b"k"), (3, "marker")]
    compact(log, NOW + 2000)
    assert contents(log) == [(1, "marker"), (2, b"k"), (3, "marker")]
    plain(log, b"k", b"newer")
    compact(log, NOW + 2999)
    assert (1, "marker") in contents(log) and (2, b"k") not in contents(log)
    compact(log, NOW + 3000)
    assert [row for row in contents(log) if row[1] == "marker"] == [(3, "marker")]
    compact(log, NOW + 9000)
    compact(log, NOW + 9001)
    assert "marker" not in [what for _, what in contents(log)]
    assert [what for _, what in contents(log)] == [b"k"]


def test_a_pass_ends_before_the_first_transaction_that_is_open() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    plain(log, b"k", b"old")
    plain(log, b"k", b"new")
    opened = data(log, 7, b"k", b"perhaps")
    plain(log, b"k", b"newest")
    compact(log, NOW)
    assert log.cleaned_offset == opened
    assert contents(log) == [(1, b"k"), (2, b"k"), (3, b"k")]
    marker(log, 7, ABORT)
    compact(log, NOW)
    assert [row for row in contents(log) if row[1] == b"k"] == [(3, b"k")]


def test_a_log_that_begins_with_an_open_transaction_waits() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    data(log, 7, b"k")
    compact(log, NOW)
    assert log.cleaned_offset == 0 and contents(log) == [(0, b"k")]


def test_a_log_whose_first_segments_are_gone_and_that_begins_with_an_open_transaction_waits() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    plain(log, b"deleted")
    log.roll()
    log.advance_log_start_offset(1)
    assert delete_retention(log, NOW, 1) == 1
    data(log, 7, b"k")
    compact(log, NOW)
    assert (log.cleaned_offset, contents(log)) == (1, [(1, b"k")])


def test_a_full_map_in_the_middle_of_a_transaction_keeps_the_verdict() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    for key in (b"a", b"b", b"c", b"d"):
        plain(log, key)
    for key in (b"a", b"b", b"c", b"d"):
        data(log, 7, key, b"aborted")
    marker(log, 7, ABORT)
    for _ in range(6):
        compact(log, NOW, RewriteLimits(max_keys=2))
    assert [row for row in contents(log) if row[1] != "marker"] == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_the_transaction_index_names_the_aborts_whose_marker_stays() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    rows = []
    for number in range(2):
        first = data(log, 7 + number, b"k%d" % number)
        last = marker(log, 7 + number, ABORT)
        rows.append((0, 7 + number, first, last, last + 1))
    path = join(DIRECTORY, "0" * 20 + ".txnindex")
    log.roll()
    # The last row's marker is nowhere in the log: a consumer would wait for it forever.
    content = b"".join(INDEX_ENTRY.pack(*row) for row in (*rows, (0, 9, 1, 99, 1)))
    filesystem.open(path, create=True).pwritev([content], 0)
    compact(log, NOW)
    assert log.aborted_transactions(0, log.read(0, 1000)) == [(7, 0), (8, 2)]
    assert read_file(filesystem, path) == b"".join(INDEX_ENTRY.pack(*row) for row in rows)
    compact(log, NOW + 1)
    compact(log, NOW + 5000)
    with pytest.raises(FileNotFoundError):
        read_file(filesystem, path)


def test_an_active_producers_last_marker_stays_without_its_record() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    data(log, 7, b"k")
    marker(log, 7, COMMIT)
    plain(log, b"k", b"newer")
    for now_ms in (NOW, NOW + 1, NOW + 5000, NOW + 9000):
        compact(log, now_ms, quiet=False)
    headers = [read_header(batch) for batch in split(log.read(0, 100_000).read())]
    (kept,) = [header for header in headers if header.is_control]
    assert (kept.producer_id, kept.record_count, kept.base_offset) == (7, 0, 1)


def test_a_damaged_batch_ends_the_pass() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    plain(log, b"k", b"old")
    plain(log, b"k", b"new")
    log.roll()
    plain(log, b"active")
    filesystem.content(join(DIRECTORY, "0" * 20 + ".log"))[70] ^= 1
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    with pytest.raises(ApiError, match="CRC"):
        compaction.run()
