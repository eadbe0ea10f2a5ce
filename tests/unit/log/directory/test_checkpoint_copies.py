"""A bit flips in one of the small files, which carry no check in Kafka's format: every bit of every one is tried.

What comes of it is what was there before: offset checkpoints have twins, a transaction index has sums, and leader
epochs are compared with the batches.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import pytest

from support.logs import DIRECTORY, NOW, append, open_log, some_batch, values_of, with_settings
from support.transactions import data_batch, marker_batch, read_committed, write
from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX, read_checkpoint, write_checkpoint
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import (
    CLEANER_OFFSET,
    LEADER_EPOCH,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    REPLICATION_OFFSET,
    format_offsets,
    parse_offsets,
)
from tailrace.log.filesystem.memory import MemoryFilesystem, Stopped
from tailrace.log.filesystem.port import join, read_file
from tailrace.log.log import Log
from tailrace.log.segment.valid import headers
from tailrace.records.batch import stamp
from tailrace.records.markers import ABORT, COMMIT

CHECKPOINTS = (RECOVERY_POINT, LOG_START_OFFSET, CLEANER_OFFSET, REPLICATION_OFFSET)
WIDE = with_settings(segment_bytes=100_000)
INDEX, SUMS = (join(DIRECTORY, "0" * 20 + suffix) for suffix in (".txnindex", ".txnsums"))


def flips(valid: bytes) -> Iterator[tuple[str, bytes]]:
    """The content with a bit flipped, and which: of a digit each in turn, of another byte one."""
    for at, byte in enumerate(valid):
        for bit in range(8) if byte in b"0123456789" else (at % 8,):
            flipped = bytearray(valid)
            flipped[at] ^= 1 << bit
            yield f"bit {bit} of byte {at}: {bytes(flipped)!r}", bytes(flipped)


def replace(filesystem: MemoryFilesystem, path: str, content: bytes) -> None:
    file = filesystem.open(path, create=True)
    file.truncate(0)
    file.pwritev([content], 0)


# -- offset checkpoints ----------------------------------------------------------------------------------------------


def closed_dir() -> MemoryFilesystem:
    """A log of ten records whose first four were deleted, and an empty one."""
    filesystem = MemoryFilesystem()
    logs = LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=0)
    log = logs.create("t", 0, UUID(int=1), WIDE)
    logs.create("other", 11, UUID(int=2), WIDE)
    for _ in range(10):
        append(log, b"a")
    log.advance_log_start_offset(4)
    log.cleaned_offset = 3
    logs.high_watermarks |= {("t", 0): 9, ("other", 11): 0}
    logs.close()
    filesystem.kill()
    return filesystem


def known(logs: LogDir) -> object:
    """All that the checkpoints say, and the log by it."""
    log = logs.log("t", 0)
    assert log is not None
    said = (logs.last_shutdown.clean, logs.offsets.by_name())
    return (*said, log.recovery_point, log.log_start_offset, log.cleaned_offset, values_of(log))


def opened(filesystem: MemoryFilesystem) -> LogDir:
    filesystem.kill()
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["", COPY_SUFFIX])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_no_bit_of_a_checkpoint_changes_what_is_believed(name: str, suffix: str, clean: bool) -> None:
    filesystem = closed_dir()
    marker = bytes(filesystem.content("/logs/.kafka_cleanshutdown"))
    path = join("/logs", name + suffix)
    valid = bytes(filesystem.content(path))
    if not clean:
        filesystem.remove("/logs/.kafka_cleanshutdown")
    expected = known(opened(filesystem))
    for what, flipped in flips(valid):
        replace(filesystem, path, flipped)
        if clean:
            replace(filesystem, "/logs/.kafka_cleanshutdown", marker)
        logs = opened(filesystem)
        assert known(logs) == expected, what
        if not suffix:
            assert logs.findings.mended == [name] and read_file(filesystem, path) == valid, what


def test_what_kafka_wrote_since_is_believed() -> None:
    filesystem = closed_dir()
    filesystem.content(join("/logs", REPLICATION_OFFSET))[:] = format_offsets({("t", 0): 6})
    logs = opened(filesystem)
    assert logs.high_watermarks == {("t", 0): 6} and logs.findings.mended == []


def test_what_cannot_be_read_or_is_empty_comes_back_from_its_twin() -> None:
    for content in (b"nonsense", b""):
        filesystem = closed_dir()
        filesystem.content(join("/logs", LOG_START_OFFSET))[:] = content
        logs = opened(filesystem)
        assert logs.log("t", 0).log_start_offset == 4 and logs.findings.mended == [LOG_START_OFFSET]  # type: ignore[union-attr]


@pytest.mark.parametrize("first", range(0, 150, 30))
def test_a_crash_between_a_checkpoint_and_its_twin_never_brings_back_what_was_before(first: int) -> None:
    for seed in range(first, first + 30):
        crash_between(random.Random(seed))


def crash_between(dice: random.Random) -> None:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/logs")
    written = [3]
    write_checkpoint(filesystem, "/logs", RECOVERY_POINT, format_offsets({("t", 0): 3}))
    filesystem.stop_after(dice.randrange(30))
    with suppress(Stopped):
        for offset in (2, 6, 4, 5):  # each but a bit from the one before
            before = written[-1]
            written = [before, offset]
            write_checkpoint(filesystem, "/logs", RECOVERY_POINT, format_offsets({("t", 0): offset}))
            written = [offset]
    if dice.random() < 0.7:
        filesystem.crash(dice)
    else:
        filesystem.kill()
    on_disk = read_file(filesystem, join("/logs", RECOVERY_POINT))
    content, mended = read_checkpoint(filesystem, "/logs", RECOVERY_POINT, parse_offsets)
    assert content == on_disk and not mended
    assert parse_offsets(content)["t", 0] in written


# -- transaction indexes ---------------------------------------------------------------------------------------------


def with_transactions() -> MemoryFilesystem:
    """Aborted and committed transactions that overlap, of two segments, closed."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, WIDE)
    write(log, data_batch(7), data_batch(9), data_batch(7), marker_batch(9, COMMIT), data_batch(9), data_batch(9))
    write(log, marker_batch(7, ABORT), data_batch(9), marker_batch(9, ABORT), data_batch(7), data_batch(7))
    log.roll()
    write(log, data_batch(7), marker_batch(7, ABORT), data_batch(9), marker_batch(9, COMMIT))
    log.close()
    filesystem.kill()
    return filesystem


@pytest.mark.parametrize("recovery_point", [0, 15])
@pytest.mark.parametrize("path", [INDEX, SUMS, INDEX.replace("00.txn", "11.txn"), SUMS.replace("00.txn", "11.txn")])
def test_no_bit_of_a_transaction_index_shows_what_was_aborted(path: str, recovery_point: int) -> None:
    filesystem = with_transactions()
    clean = bool(recovery_point)
    expected = read_committed(open_log(filesystem, WIDE), 15, 10**6, 0)
    valid = bytes(filesystem.content(path))
    for what, flipped in flips(valid):
        replace(filesystem, path, flipped)
        log = open_log(filesystem, WIDE, recovery_point=recovery_point, clean=clean)
        assert read_committed(log, 15, 10**6, 0) == expected, what
        assert read_file(filesystem, path) == valid, what


def test_entries_of_kafka_have_no_sums_and_get_them_when_the_index_is_written_next() -> None:
    filesystem = with_transactions()
    filesystem.remove(SUMS)
    expected = bytes(filesystem.content(INDEX))
    log = open_log(filesystem, WIDE, recovery_point=15, clean=True)
    log.segments[0].save_indexes()
    assert (len(expected) // 34, len(filesystem.content(SUMS))) == (2, 8)
    filesystem.content(INDEX)[20] ^= 1
    open_log(filesystem, WIDE, recovery_point=15, clean=True)
    assert filesystem.content(INDEX) == expected


def test_sums_go_where_their_index_goes() -> None:
    filesystem = with_transactions()
    log = open_log(filesystem, WIDE, recovery_point=15, clean=True)
    log.truncate_to(0)
    log.close()
    assert [name for name in filesystem.list(DIRECTORY) if ".txnsums" in name and "deleted" not in name] == [
        SUMS.rpartition("/")[2]
    ]
    assert bytes(filesystem.content(SUMS)) == b""
    filesystem.remove(INDEX)
    open_log(filesystem, WIDE)
    assert [name for name in filesystem.list(DIRECTORY) if "txn" in name] == []


# -- leader epochs ---------------------------------------------------------------------------------------------------

EPOCHS = [(0, 0), (1, 6), (4, 9), (12, 12)]
A_BATCH_EARLIER = [(0, 0), (1, 6), (4, 8), (12, 12)]  # a bit away; as good as right, see epoch_check
# An epoch's last batch says the next one: then that is believed to begin there, which is as harmless.
ENDS_EARLIER = ([(0, 0), (1, 5), (4, 9), (12, 12)], [(0, 0), (1, 6), (4, 9), (12, 11)])
FILE = join(DIRECTORY, LEADER_EPOCH)
SHORT = with_settings(segment_bytes=350)


def with_epochs() -> MemoryFilesystem:
    """Fifteen records of four epochs, in batches of one and two, closed."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, SHORT)
    for (epoch, start), (_, end) in zip(EPOCHS, [*EPOCHS[1:], (0, 15)], strict=True):
        append(log, b"a", b"b", leader_epoch=epoch)
        for _ in range(end - start - 2):
            append(log, b"c", leader_epoch=epoch)
    log.close()
    assert (log.epochs.entries(), len(log.segments)) == (EPOCHS, 3)
    filesystem.kill()
    return filesystem


def epochs(log: Log) -> list[tuple[int, int]]:
    return log.epochs.entries()


def test_no_bit_of_the_leader_epochs_changes_what_is_believed_and_they_are_written_anew() -> None:
    filesystem = with_epochs()
    valid = bytes(filesystem.content(FILE))
    for what, flipped in flips(valid):
        replace(filesystem, FILE, flipped)
        log = open_log(filesystem, SHORT, recovery_point=15, clean=True)
        log.close()
        if epochs(log) != A_BATCH_EARLIER:
            assert epochs(log) == EPOCHS and log.recovery_result.epochs_mended, what
            assert read_file(filesystem, FILE) == valid, what


@pytest.mark.parametrize("recovery_point", [0, 7, 15])
def test_after_a_crash_only_a_first_epoch_that_begins_later_is_believed(recovery_point: int) -> None:
    filesystem = with_epochs()
    for what, flipped in flips(bytes(filesystem.content(FILE))):
        replace(filesystem, FILE, flipped)
        found = epochs(open_log(filesystem, SHORT, recovery_point=recovery_point))
        # As after DeleteRecords, of which a crash took the checkpoint: what lies before it is of no known epoch.
        assert found in (EPOCHS, A_BATCH_EARLIER) or (found[1:] == EPOCHS[1:] and found[0][0] == 0 < found[0][1] < 6), (
            what
        )


@pytest.mark.parametrize(("recovery_point", "clean"), [(0, False), (12, False), (13, True)])
def test_no_flipped_beginning_hides_an_epoch_of_a_single_batch(recovery_point: int, clean: bool) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, SHORT)
    for number in range(13):
        append(log, b"a", leader_epoch=3 if number == 12 else 0)
    log.close()
    filesystem.kill()
    for what, flipped in flips(bytes(filesystem.content(FILE))):
        if b"\n3 " in flipped:  # else two say two epochs, and nobody knows which is the damaged one
            replace(filesystem, FILE, flipped)
            found = epochs(open_log(filesystem, SHORT, recovery_point=recovery_point, clean=clean))
            assert found[-1] == (3, 12) and found[0][0] == 0, what


@pytest.mark.parametrize(("recovery_point", "clean"), [(61, True), (61, False), (40, False)])
def test_a_beginning_in_a_gap_of_a_compacted_log_is_compared_with_the_batch_before_the_gap(
    recovery_point: int, clean: bool
) -> None:
    filesystem, compacted = MemoryFilesystem(), with_settings(segment_bytes=350, cleanup_policy="compact")
    log = open_log(filesystem, compacted)
    for epoch, offset in [(0, 0), (0, 5), (1, 17), (1, 20), (1, 30), (1, 52), (1, 59), (2, 60)]:
        batch = some_batch(b"a")
        stamp(batch, 0, offset, epoch)
        log.append_replicated(bytes(batch), NOW)
    log.close()
    filesystem.kill()
    valid = bytes(filesystem.content(FILE))
    for flipped in (valid.replace(b"17", b"57"), valid.replace(b"17", b"37")):
        replace(filesystem, FILE, flipped)
        found = epochs(open_log(filesystem, compacted, recovery_point=recovery_point, clean=clean))
        assert found == [(0, 0), (1, 17), (2, 60)], flipped


@pytest.mark.parametrize("start", range(15))
def test_epochs_are_believed_wherever_a_log_begins_or_was_cut(start: int) -> None:
    filesystem = with_epochs()
    log = open_log(filesystem, SHORT, recovery_point=15, clean=True)
    log.truncate_to(start + 1)
    log.advance_log_start_offset(min(start, log.log_end_offset))
    log.note_epoch(20, log.log_end_offset)
    log.close()
    before = epochs(log)
    filesystem.kill()
    again = open_log(
        filesystem, SHORT, recovery_point=log.log_end_offset, log_start_offset=log.log_start_offset, clean=True
    )
    assert not again.recovery_result.epochs_mended
    assert epochs(again) in (before, before[:-1])  # an epoch that wrote nothing


@pytest.mark.parametrize(("recovery_point", "clean"), [(15, True), (15, False), (14, False)])
def test_no_flipped_epoch_of_a_batch_is_believed_against_the_file_and_the_batches_beside_it(
    recovery_point: int, clean: bool
) -> None:
    filesystem = with_epochs()
    for segment in open_log(filesystem, SHORT, recovery_point=15, clean=True).segments:
        content = filesystem.content(segment.path(".log"))
        for start in [position for position, header in headers(segment, 0) if header.next_offset <= recovery_point]:
            for bit in range(12 * 8, 16 * 8):
                content[start + bit // 8] ^= 1 << bit % 8
                log = open_log(filesystem, SHORT, recovery_point=recovery_point, clean=clean)
                where = f"{segment.base_offset}: bit {bit} of the batch at {start}"
                assert epochs(log) in (EPOCHS, *ENDS_EARLIER) and log.log_end_offset == 15, where
                content[start + bit // 8] ^= 1 << bit % 8


def test_the_look_at_the_epochs_does_not_grow_with_the_log() -> None:
    reads = []
    for batches in (30, 300):
        filesystem = MemoryFilesystem()
        log = open_log(filesystem, SHORT)
        for number in range(batches):
            append(log, b"a", leader_epoch=number * 3 // batches)
        log.close()
        filesystem.kill()
        before = filesystem.reads
        open_log(filesystem, SHORT, recovery_point=batches, clean=True)
        reads.append(filesystem.reads - before)
    assert reads[1] <= reads[0] + 2, reads
