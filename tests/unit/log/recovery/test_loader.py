"""What a start makes of the files a crash left behind."""

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from support.batches import Batch, record
from support.logs import DIRECTORY, NOW, append, open_log, records_of, values_of, with_settings
from tailrace.errors import ApiError
from tailrace.log import lookup
from tailrace.log.filesystem.memory import MemoryFilesystem, Stopped
from tailrace.log.filesystem.port import join
from tailrace.log.log import Log
from tailrace.log.segment.segment import file_name
from tailrace.records.batch import read_header
from tailrace.records.record import Record, build

FIRST = join(DIRECTORY, file_name(0, ".log"))
NOBODYS = ("notes.log", "7.log", "\N{SUPERSCRIPT TWO}" * 20 + ".log", "0" * 21 + ".log", "notes.log.swap")


def three_batches() -> tuple[MemoryFilesystem, list[int]]:
    """A log of three batches of two records, and where each ends."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    ends = []
    for number in range(3):
        append(log, b"%d" % number, b"x" * 20)
        ends.append(log.size_bytes)
    return filesystem, ends


def reopen(filesystem: MemoryFilesystem, **options: object) -> Log:
    filesystem.kill()
    return open_log(filesystem, **options)  # type: ignore[arg-type]


def test_a_tail_torn_at_any_byte_is_cut_at_the_first_bad_batch() -> None:
    _, ends = three_batches()
    for size in range(ends[-1] + 1):
        filesystem, _ = three_batches()
        del filesystem.content(FIRST)[size:]
        log = reopen(filesystem)
        whole = sum(end <= size for end in ends)
        assert (log.log_end_offset, log.size_bytes) == (2 * whole, ends[whole - 1] if whole else 0)
        assert log.recovery_result.cut_bytes == size - log.size_bytes
        append(log, b"next")
        assert values_of(log)[-1] == b"next" and len(values_of(log)) == 2 * whole + 1


def test_a_flipped_bit_anywhere_in_the_last_batch_cuts_it_off() -> None:
    _, ends = three_batches()
    for position in range(ends[1], ends[2]):
        filesystem, _ = three_batches()
        filesystem.content(FIRST)[position] ^= 0x80
        # The leader epoch is outside the CRC: no checksum of Kafka's covers it.
        if not ends[1] + 12 <= position < ends[1] + 16:
            log = reopen(filesystem)
            assert log.log_end_offset == 4 or position < ends[1] + 8  # a larger base offset is a gap
            append(log, b"next")
            assert values_of(log)[:4] == [b"0", b"x" * 20, b"1", b"x" * 20]


def test_a_hole_of_zeros_before_good_batches_cuts_them_too() -> None:
    filesystem, ends = three_batches()
    content = filesystem.content(FIRST)
    content[ends[0] : ends[1]] = bytes(ends[1] - ends[0])
    assert reopen(filesystem).log_end_offset == 2


def test_segments_behind_a_bad_one_are_dropped() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(segment_bytes=200))
    for number in range(12):
        append(log, b"%d" % number * 20)
    bases = list(log.segments.bases)
    filesystem.content(join(DIRECTORY, file_name(bases[2], ".log")))[40] ^= 1
    log = reopen(filesystem)
    assert log.log_end_offset == bases[2] and log.segments.bases == bases[:3]
    assert len(records_of(log)) == bases[2]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("by", ["recovery", "truncation"])
def test_a_crash_while_segments_are_dropped_leaves_no_gap_in_a_compacted_log(by: str, power: bool) -> None:
    """Where gaps are usual nobody would find it: a follower would vouch for records that it does not have."""
    config, whole = with_settings(segment_bytes=200, cleanup_policy="compact"), 0
    for calls in range(1000):
        filesystem = MemoryFilesystem()
        log = open_log(filesystem, config)
        for number in range(12):
            log.append([build([Record(timestamp=NOW, key=b"k", value=b"%d" % number * 20)])], 0, NOW)
        drop: Callable[[], object] = partial(log.truncate_to, 3)
        if by == "recovery":
            filesystem.content(join(DIRECTORY, file_name(log.segments.bases[2], ".log")))[40] ^= 1
            drop = partial(open_log, filesystem, config)
        filesystem.crash_proof()
        filesystem.stop_after(calls)
        with suppress(Stopped):
            drop()
            whole = calls
        if power:
            filesystem.crash(random.Random(calls))
        else:
            filesystem.kill()
        log = open_log(filesystem, config)
        assert [record.offset for record in records_of(log)] == list(range(log.log_end_offset)), calls
        if whole:
            return
    raise AssertionError("it never ends")


def test_a_cut_behind_a_gap_that_a_crash_prevented_leaves_no_damage() -> None:
    filesystem, config = MemoryFilesystem(), with_settings(cleanup_policy="compact")
    log = open_log(filesystem, config)
    for offsets in ((0,), (1,), (5, 6, 7)):  # the gap is as wide as what lies behind it
        records = [record(at - offsets[0], b"v", b"k") for at in offsets]
        log.append_replicated(Batch(records=records, base_offset=offsets[0], leader_epoch=0).encode(), NOW)
    log.flush()
    lowered = list[int]()
    log.hooks.lower_checkpoint = lambda name, offset: lowered.append(offset)
    filesystem.fail_next("truncate", OSError("the disk fails"))
    with pytest.raises(OSError, match="the disk fails"):
        log.truncate_to(5)
    filesystem.kill()
    log = open_log(filesystem, config, recovery_point=lowered[0])
    assert [found.offset for found in records_of(log)] == [0, 1, 5, 6, 7]
    assert not any(segment.holes for segment in log.segments)


def test_a_torn_first_batch_that_begins_before_its_leaders_log_start_is_no_damage() -> None:
    filesystem, config = MemoryFilesystem(), with_settings()
    log = open_log(filesystem, config)
    log.reset_to(4)
    log.flush()
    lowered = list[int]()
    log.hooks.lower_checkpoint = lambda name, offset: lowered.append(offset)
    log.append_replicated(
        Batch(records=[record(n, b"v") for n in range(3)], base_offset=3, leader_epoch=0).encode(), NOW
    )
    filesystem.content(join(DIRECTORY, file_name(3, ".log")))[-1] ^= 1
    filesystem.kill()
    log = open_log(filesystem, config, recovery_point=lowered[0], log_start_offset=4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert not any(segment.holes for segment in log.segments)


def test_nothing_below_the_recovery_point_is_checked_again() -> None:
    filesystem, ends = three_batches()
    filesystem.content(FIRST)[ends[0] - 1] ^= 1  # in the records of the first batch
    assert reopen(filesystem, recovery_point=4).log_end_offset == 6
    assert reopen(filesystem, recovery_point=0).log_end_offset == 0


def test_a_flipped_bit_in_the_length_of_the_last_flushed_batch_takes_nothing_of_what_follows() -> None:
    # That lies outside the CRC, and what follows is found only where the batch ends.
    _, ends = three_batches()
    for bit in range(32):
        filesystem, _ = three_batches()
        filesystem.content(FIRST)[ends[0] + 8 + bit // 8] ^= 1 << bit % 8
        log = reopen(filesystem, recovery_point=4)
        assert (log.log_end_offset, log.size_bytes) == (6, ends[2])
        assert [record.value for record in records_of(log, 4)] == [b"2", b"x" * 20]
        assert [record.value for record in records_of(log, 0, max_offset=2)] == [b"0", b"x" * 20]
        with pytest.raises(ApiError, match="offsets 2 to 3 are damaged"):
            log.read(2, 400)


def test_a_flipped_bit_in_the_last_offset_of_the_last_flushed_batch_does_not_give_its_offsets_again() -> None:
    filesystem, ends = three_batches()
    filesystem.content(FIRST)[ends[1] + 26] ^= 1  # its last offset delta, 1, is 0
    log = reopen(filesystem, recovery_point=6)
    assert (log.log_end_offset, log.size_bytes) == (6, ends[2])
    with pytest.raises(ApiError, match="offsets 4 to 5 are damaged"):
        log.read(4, 400)


def test_a_torn_tail_does_not_stay_behind_the_last_flushed_batch_whose_offset_is_wrong() -> None:
    """There it would hide, at the next start, that this offset is wrong: what came next was not served any more."""
    filesystem, ends = three_batches()
    filesystem.content(FIRST)[ends[1] + 7] ^= 0x80  # its base offset, which no CRC covers, is 132
    filesystem.content(FIRST).extend(bytes(22))
    log = reopen(filesystem, recovery_point=6)
    assert (log.log_end_offset, log.size_bytes) == (6, ends[2])
    append(log, b"behind it")
    log.flush()
    log = reopen(filesystem, recovery_point=7, clean=True)
    assert [record.offset for record in records_of(log, 6)] == [6]


def test_a_flipped_bit_in_the_offset_of_the_last_batch_behind_a_gap_moves_no_end_of_a_log_that_was_stopped() -> None:
    filesystem, settings = copied(0, 1), with_settings(cleanup_policy="compact")
    log = open_log(filesystem, settings)
    at = log.size_bytes
    records = [record(0, b"v", b"k"), record(1, b"v", b"k")]
    log.append_replicated(Batch(records=records, base_offset=4, leader_epoch=0).encode(), NOW)
    log.close()
    filesystem.kill()
    filesystem.content(FIRST)[at + 7] ^= 1  # 4 is 5, and the log cannot have ended within the batch
    log = open_log(filesystem, settings, recovery_point=6, clean=True)
    assert log.log_end_offset == 6
    with pytest.raises(ApiError, match="offsets 2 to 5 are damaged"):
        log.read(4, 400)


def test_epochs_are_known_though_a_crash_took_the_log_start_that_was_behind_them_all() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"a", b"b", leader_epoch=3)
    log.advance_log_start_offset(2)
    log.flush()
    assert reopen(filesystem, recovery_point=2).epochs.entries() == [(3, 0)]


@pytest.mark.parametrize("valid", [True, False])
def test_a_torn_tail_behind_the_last_flushed_batch_is_cut_whether_that_one_is_sound_or_not(valid: bool) -> None:
    filesystem, ends = three_batches()
    filesystem.content(FIRST)[ends[2] - 1] ^= 1
    if not valid:
        filesystem.content(FIRST)[ends[1] - 1] ^= 1  # its length may be the right one, and nothing follows elsewhere
    log = reopen(filesystem, recovery_point=4)
    assert (log.log_end_offset, log.size_bytes) == (4, ends[1])


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "zeros", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_indexes_are_rebuilt(suffix: str, damage: str, clean: bool) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for number in range(40):
        append(log, b"%d" % number * 9, timestamp=NOW + number)
    log.close()
    expected = records_of(log)
    for base_offset in log.segments.bases:
        path = join(DIRECTORY, file_name(base_offset, suffix))
        content = filesystem.content(path)
        assert content or base_offset == log.segments.bases[-1]
        if damage == "missing":
            filesystem.remove(path)
        else:
            content[:] = {
                "empty": b"",
                "cut": content[: len(content) // 2 + 1],
                "zeros": bytes(len(content)),
                "garbage": b"\xa5" * len(content),
            }[damage]
    log = reopen(filesystem, clean=clean, recovery_point=40)
    assert records_of(log) == expected
    for number in range(40):
        found = lookup.find(log, NOW + number)
        assert found is not None and found.offset == number


def test_a_clean_close_and_open_is_no_change_at_all() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for number in range(40):
        append(log, b"%d" % number, leader_epoch=number // 10, timestamp=NOW + number)
        log.close()
        again = open_log(filesystem, clean=True, recovery_point=log.recovery_point)
        assert again.log_end_offset == number + 1 == again.recovery_point
        log = again
    assert [record.value for record in records_of(log)] == [b"%d" % number for number in range(40)]
    assert log.epochs.entries() == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_leader_epochs_come_back_from_the_batches_when_their_file_is_lost() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for epoch in (1, 1, 4, 6):
        append(log, b"v", leader_epoch=epoch)
    log.flush()
    filesystem.remove(join(DIRECTORY, "leader-epoch-checkpoint"))
    assert reopen(filesystem).epochs.entries() == [(1, 0), (4, 2), (6, 3)]


def test_producers_come_back_from_the_snapshot_and_the_batches_after_it() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for number in range(20):
        append(log, b"v" * 40, producer_id=number % 3, producer_epoch=0, base_sequence=number // 3)
    expected = {producer: entry.batches[-1] for producer, entry in log.producers.entries.items()}
    again = reopen(filesystem)
    assert {producer: entry.batches[-1] for producer, entry in again.producers.entries.items()} == expected


def test_retries_of_all_that_was_in_flight_are_known_again_after_a_clean_start() -> None:
    """A snapshot has a producer's last batch only; the four before it come from the log, also over segments."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for sequence in range(12):
        append(log, b"v" * 200, producer_id=8, producer_epoch=0, base_sequence=sequence)
    assert len(log.segments.bases) > 2
    log.close()
    again = reopen(filesystem, clean=True, recovery_point=12)
    assert again.producers.entries[8].batches == log.producers.entries[8].batches
    repeated = again.log_end_offset - 5
    assert append(again, b"v" * 200, producer_id=8, producer_epoch=0, base_sequence=7).base_offset == repeated


def test_a_damaged_snapshot_is_passed_over() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for number in range(20):
        append(log, b"v" * 40, producer_id=8, producer_epoch=0, base_sequence=number)
    log.close()
    for name in filesystem.list(DIRECTORY):
        if name.endswith(".snapshot"):
            filesystem.content(join(DIRECTORY, name))[10] ^= 1
    assert reopen(filesystem).producers.entries[8].batches[-1].last_sequence == 19


def test_leftovers_of_deletion_and_compaction_are_removed() -> None:
    filesystem, _ = three_batches()
    for name in NOBODYS:
        filesystem.open(join(DIRECTORY, name), create=True)
    for name in (file_name(0, ".index.deleted"), file_name(0, ".log.cleaned"), "leader-epoch-checkpoint.tmp"):
        filesystem.open(join(DIRECTORY, name), create=True)
    reopen(filesystem)
    names = filesystem.list(DIRECTORY)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp", ".swap"))]
    assert {name for name in NOBODYS if not name.endswith(".swap")} <= {*names}


def test_a_start_offset_beyond_the_log_begins_it_anew_there() -> None:
    filesystem, _ = three_batches()
    log = reopen(filesystem, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, log.segments.bases) == (50, 50, [50])


def copied(*offsets: int, **settings: Any) -> MemoryFilesystem:
    """A follower's log: a leader whose log was compacted has only these offsets, a batch each."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(cleanup_policy="compact", **settings))
    for offset in offsets:
        log.append_replicated(Batch(records=[record(0, b"v", b"k")], base_offset=offset, leader_epoch=0).encode(), NOW)
    filesystem.kill()
    return filesystem


@pytest.mark.parametrize(
    ("offsets", "segment_bytes"),
    [
        ((0, 3, 6, 9, 12), 200),  # the last batch of a segment is behind a gap
        ((0, 1, 2, 5), 200),  # the last of all, and no flipped bit makes 5 of 3
        ((0, 1, 4, 5, 7, 8, 12), 10_000),  # from 9 to 12 it would, but the log has gaps
        ((5,), 200),
        ((0, 3 * 2**31, 3 * 2**31 + 1), 200),  # more than a segment can hold
        ((0, 2**31 + 5), 200),
    ],
)
def test_gaps_that_a_leaders_compaction_left_are_no_damage_whatever_the_policy_is_now(
    offsets: tuple[int, ...], segment_bytes: int
) -> None:
    """The topic was compacted once, and the broker is killed: that costs nothing that was written."""
    log = open_log(copied(*offsets, segment_bytes=segment_bytes), with_settings(segment_bytes=segment_bytes))
    assert (log.log_end_offset, log.recovery_result.cut_bytes) == (offsets[-1] + 1, 0)
    assert [found.offset for found in records_of(log)] == list(offsets)


@pytest.mark.parametrize("lost", range(8, 61))
def test_a_torn_batch_says_nothing_of_the_flushed_one_before_it_that_is_behind_a_gap(lost: int) -> None:
    """A power cut took the page that the torn one begins in, and kept the next."""
    settings = with_settings(cleanup_policy="compact", segment_bytes=10_000)
    filesystem = copied(0, 1, 5, 6, segment_bytes=10_000)
    log = open_log(filesystem, settings)
    log.append_replicated(Batch(records=[record(0, b"v", b"k")], base_offset=300, leader_epoch=0).encode(), NOW)
    behind = log.size_bytes
    log.append_replicated(Batch(records=[record(0, b"v", b"k")], base_offset=301, leader_epoch=0).encode(), NOW)
    log.close()
    filesystem.kill()
    content = filesystem.content(FIRST)
    content[behind : behind + lost] = bytes(lost)
    assert open_log(filesystem, settings).log_end_offset == 301


def test_a_tail_that_is_lost_between_segments_is_found_all_the_same() -> None:
    filesystem = copied(0, 1, 4, 5, 8, 9, segment_bytes=200)
    bases = list(open_log(filesystem, with_settings(segment_bytes=200)).segments.bases)
    assert bases == [0, 2, 6]
    filesystem.kill()
    content = filesystem.content(join(DIRECTORY, file_name(2, ".log")))
    del content[len(content) // 2 :]  # a power cut took offset 5
    log = open_log(filesystem, with_settings(segment_bytes=200))
    assert (log.log_end_offset, log.segments.bases) == (5, [0, 2])


@pytest.mark.parametrize(("recovery_point", "cleaned_offset", "end"), [(0, 0, 2), (2, 0, 2), (3, 0, 10), (0, 6, 10)])
def test_an_empty_segment_that_no_cleaner_has_seen_is_a_lost_tail_in_a_compacted_log_too(
    recovery_point: int, cleaned_offset: int, end: int
) -> None:
    """A power cut took 2..5: below the recovery point or the cleaner's it is the gap of a (Kafka's) compaction."""
    filesystem = copied(0, 1, 4, 5, 8, 9, segment_bytes=200)
    filesystem.content(join(DIRECTORY, file_name(2, ".log"))).clear()
    settings = with_settings(segment_bytes=200, cleanup_policy="compact")
    log = open_log(filesystem, settings, recovery_point=recovery_point, cleaned_offset=cleaned_offset)
    assert log.log_end_offset == end


@pytest.mark.parametrize("before", [(), (0, 1)])
def test_a_segment_that_a_cut_in_a_gap_has_emptied_does_not_pass_for_one_that_lost_its_records(
    before: tuple[int, ...],
) -> None:
    """A roll leaves none such: without the recovery point all behind it would be cut."""
    filesystem, settings = copied(*before), with_settings(cleanup_policy="compact")
    log = open_log(filesystem, settings)
    if before:
        log.roll()
    for base_offset in (6, 9):
        log.append_replicated(Batch(records=[record(0, b"v", b"k")], base_offset=base_offset).encode(), NOW)
    log.truncate_to(5)
    assert (log.segments.active.size_bytes, log.log_end_offset) == (0, 5)
    log.roll()
    log.append_replicated(Batch(records=[record(0, b"v", b"k")], base_offset=6).encode(), NOW)
    found = [*before, 6]
    assert [one.offset for one in records_of(log)] == found and log.read(0, 400).length
    log.flush()
    filesystem.crash(random.Random(1))
    again = open_log(filesystem, settings)
    assert [one.offset for one in records_of(again)] == found and again.log_end_offset == 7
    assert again.segments.bases == ([0, 5] if before else [5])


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_what_a_power_loss_took_behind_a_damaged_flushed_batch_is_no_part_of_the_hole(policy: str) -> None:
    """Of the batches 1 and 2, behind the recovery point, only the latter was on the disk: it does not follow."""
    filesystem, settings = MemoryFilesystem(), with_settings(cleanup_policy=policy)
    log, ends = open_log(filesystem, settings), [0]
    for number in range(3):
        log.append([build([Record(timestamp=NOW, key=b"k%d" % number, value=b"v" * 20)])], 0, NOW)
        ends.append(log.size_bytes)
    filesystem.kill()
    content = filesystem.content(FIRST)
    content[ends[0] + 59] ^= 16
    content[ends[1] : ends[2]] = bytes(ends[2] - ends[1])
    log = open_log(filesystem, settings, recovery_point=1)
    assert log.log_end_offset == 1
    with pytest.raises(ApiError, match="offsets 0 to 0 are damaged"):
        log.read(0, 400)
    log.append([build([Record(timestamp=NOW, key=b"k", value=b"next")])], 0, NOW)
    filesystem.kill()
    log = open_log(filesystem, settings, recovery_point=1)
    assert log.log_end_offset == 2 and read_header(log.read(1, 400).read()).base_offset == 1
