"""A bit flips anywhere in a closed log's files: it is found, other records are still served, nothing wrong ever is.

What cannot be found when it is read, because nothing in Kafka's format covers it: a leader epoch that stays plausible
(`tailrace verify-log` compares it with leader-epoch-checkpoint), and in a log with gaps, which only compaction leaves,
a base offset that stays within its gap. Kafka's broker looks at neither, nor at the rest of this.
"""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.logs import DIRECTORY, NOW, append, open_log, some_batch, with_settings
from tailrace.errors import ApiError, ErrorCode
from tailrace.log import lookup
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.read import TimestampOffset
from tailrace.log.segment.valid import MOST_LOOKED_AT
from tailrace.records.batch import split, validate
from tailrace.records.compression import Codec
from tailrace.records.record import iterate

COUNTS = [1, 3, 2, 5, 1, 1, 4, 2, 3, 1, 2, 2, 6, 1, 3, 2, 1, 2]  # records of each batch
END, LARGEST = sum(COUNTS), max(COUNTS)
SEGMENT, OFFSETS, TIMES = ".log", ".index", ".timeindex"
SETTINGS = {interval: with_settings(segment_bytes=700, index_interval_bytes=interval) for interval in (100, 4096)}


def written(interval: int) -> MemoryFilesystem:
    """A flushed log of three segments: the record at each offset has its number as its value."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, SETTINGS[interval])
    for number, count in enumerate(COUNTS):
        values = [b"%03d" % (log.log_end_offset + n) for n in range(count)]
        append(log, *values, leader_epoch=3, timestamp=NOW + number, codec=(Codec.NONE, Codec.LZ4)[number % 2])
    log.close()
    filesystem.kill()
    return filesystem


def consumed(log: Log, max_bytes: int) -> Iterator[int]:
    """The offsets that a consumer gets which checks CRCs and steps over what it cannot read; none is another's."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        position = offset
        try:
            batches = split(log.read(offset, max_bytes).read())
            assert batches
            for batch in batches:
                header = validate(batch)
                assert header.next_offset > offset
                for record in iterate(batch):
                    assert record.value == b"%03d" % record.offset
                    if record.offset >= position:
                        yield record.offset
                offset = header.next_offset
        except ApiError as refused:
            assert refused.code == ErrorCode.CORRUPT_MESSAGE
            offset += 1


def looked_up(log: Log, timestamp: int) -> TimestampOffset | None:
    try:
        return lookup.find(log, timestamp)
    except ApiError as refused:
        assert refused.code == ErrorCode.CORRUPT_MESSAGE
        return None


def check(log: Log, max_bytes: int, most_lost: int) -> None:
    """At most so many records are missing; what a lookup answers is right."""
    served = list(consumed(log, max_bytes))
    assert len(served) == len(set(served)) >= log.log_end_offset - most_lost
    for number in range(len(COUNTS)):
        found = looked_up(log, NOW + number)
        assert found is not None or most_lost
        if found is not None and found.timestamp == NOW + number:
            assert found.offset == sum(COUNTS[:number])


def flip(filesystem: MemoryFilesystem, suffix: str, where: float, bit: int) -> None:
    """Flips one bit of the bytes of all files with the suffix."""
    names = sorted(name for name in filesystem.list(DIRECTORY) if name.endswith(suffix))
    files = [filesystem.content(f"{DIRECTORY}/{name}") for name in names]
    at = int(where * sum(map(len, files)))
    for content in files:
        if at < len(content):
            content[at] ^= 1 << bit
            return
        at -= len(content)


EVERYWHERE = st.floats(0, 1, exclude_max=True)
BITS, SIZES, INTERVALS = st.integers(0, 7), st.sampled_from([1, 300, 1_000_000]), st.sampled_from(sorted(SETTINGS))


@given(EVERYWHERE, BITS, SIZES, INTERVALS, st.booleans())
def test_a_flipped_bit_below_the_recovery_point_costs_its_batch_only(
    where: float, bit: int, max_bytes: int, interval: int, clean: bool
) -> None:
    filesystem = written(interval)
    flip(filesystem, SEGMENT, where, bit)
    log = open_log(filesystem, SETTINGS[interval], recovery_point=END, clean=clean)
    assert log.log_end_offset == END
    check(log, max_bytes, most_lost=LARGEST)
    # It goes on behind the damage, also after a crash.
    append(log, b"%03d" % END, timestamp=NOW + 50)
    log.flush()
    filesystem.kill()
    log = open_log(filesystem, SETTINGS[interval], recovery_point=END + 1)
    assert log.log_end_offset == END + 1
    check(log, max_bytes, most_lost=LARGEST)


@given(EVERYWHERE, BITS, SIZES, st.integers(0, len(COUNTS)))
def test_a_flipped_bit_above_the_recovery_point_cuts_the_log_there(
    where: float, bit: int, max_bytes: int, flushed: int
) -> None:
    filesystem = written(100)
    flip(filesystem, SEGMENT, where, bit)
    recovery_point = sum(COUNTS[:flushed])
    log = open_log(filesystem, SETTINGS[100], recovery_point=recovery_point)
    assert log.log_end_offset >= recovery_point
    check(log, max_bytes, most_lost=LARGEST)


@given(EVERYWHERE, BITS, SIZES, INTERVALS, st.sampled_from([OFFSETS, TIMES]), st.booleans())
def test_a_flipped_bit_in_an_index_costs_nothing(
    where: float, bit: int, max_bytes: int, interval: int, suffix: str, clean: bool
) -> None:
    filesystem = written(interval)
    flip(filesystem, suffix, where, bit)
    check(open_log(filesystem, SETTINGS[interval], recovery_point=END, clean=clean), max_bytes, most_lost=0)


@pytest.mark.parametrize("interval", [1, 200])
def test_no_bit_of_a_time_index_hides_a_batch_of_the_same_time_or_a_later_one(interval: int) -> None:
    config = with_settings(index_interval_bytes=interval)
    filesystem, times = MemoryFilesystem(), [5, 5, 9, 5, 9, 2, 9, 9, 12, 3, 12, 12]
    log = open_log(filesystem, config)
    for time in times:
        append(log, b"a", timestamp=time)
    log.roll()
    append(log, b"a", timestamp=1)
    log.close()
    path = log.segments[0].path(TIMES)
    valid = bytes(filesystem.content(path))
    for bit in range(8 * len(valid)):
        filesystem.kill()
        filesystem.content(path)[:] = valid
        filesystem.content(path)[bit // 8] ^= 1 << bit % 8
        again = open_log(filesystem, config, recovery_point=len(times) + 1, clean=True)
        for time in range(1, 13):
            first = next(offset for offset, found in enumerate(times) if found >= time)
            assert looked_up(again, time) == TimestampOffset(times[first], first, 0), (bit, time)


@pytest.mark.parametrize("suffix", [OFFSETS, TIMES])
@pytest.mark.parametrize("length", range(0, 60, 7))
def test_an_index_cut_at_any_byte_costs_nothing(suffix: str, length: int) -> None:
    filesystem = written(100)
    for name in filesystem.list(DIRECTORY):
        if name.endswith(suffix):
            del filesystem.content(f"{DIRECTORY}/{name}")[length:]
    check(open_log(filesystem, SETTINGS[100], recovery_point=END), 300, most_lost=0)


def test_damage_is_told_once_for_each_segment_and_an_index_is_mended() -> None:
    filesystem = written(100)
    log = open_log(filesystem, SETTINGS[100], recovery_point=END, clean=True)
    told: list[str] = []
    log.segments.on_damage = lambda segment: told.append(segment.path(""))
    index = filesystem.content(log.segments[0].path(OFFSETS))
    valid = bytes(index)
    index[3] ^= 1
    filesystem.content(log.segments[1].path(SEGMENT))[7] ^= 64
    for _ in range(3):
        check(log, 1, most_lost=LARGEST)
    assert sorted(told) == [segment.path("") for segment in log.segments[:2]]
    assert index == valid


@given(st.integers(0, 15), BITS)
def test_a_follower_appends_no_batch_that_is_damaged_or_does_not_follow(at: int, bit: int) -> None:
    follower = open_log(MemoryFilesystem())
    first, second = some_batch(b"a", b"b"), some_batch(b"c")
    leader = open_log(MemoryFilesystem())
    leader.append([first, second], 3, NOW)
    records = bytearray(leader.read(0, 1000).read())
    records[at] ^= 1 << bit
    try:
        follower.append_replicated(records, NOW, max_epoch=3)
    except ApiError as refused:
        assert refused.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
        assert follower.log_end_offset == 0
    else:
        assert at >= 12  # an earlier leader's epoch would be as good as this one's


def test_no_more_batches_are_looked_at_in_one_go_than_the_loop_can_spare() -> None:
    filesystem, batches = MemoryFilesystem(), 3 * MOST_LOOKED_AT
    log = open_log(filesystem, with_settings(segment_bytes=10**6))
    for _ in range(batches):
        append(log, b"small")
    log.close()
    log = open_log(filesystem, with_settings(segment_bytes=10**6), recovery_point=batches, clean=True)
    counts, offset = list[int](), 0
    while offset < batches:
        found = split(log.read(offset, 10**6).read())
        counts.append(len(found))
        offset = validate(found[-1]).next_offset
    assert counts == [MOST_LOOKED_AT] * 3
    assert len(split(log.read(0, 10**6).read())) == batches
