"""A consumer that reads on starts where its last read ended, without a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.read import WAIT
from tailrace.log.segment.search import end_within
from tailrace.records.batch import HEADER_SIZE
from tailrace.records.record import Record, build


def test_a_cut_read_says_which_offset_follows() -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=100))
    batch = build([Record(value=bytes(500))] * 3)
    for _ in range(5):
        log.append([bytearray(batch)], 0, 1)
    segment = log.segments.active
    for count in (1, 2, 3):
        limit = count * len(batch) + 10
        assert end_within(segment, 0, limit) == (count * len(batch), count * 3)


def test_the_end_of_a_read_is_found_with_the_head_behind_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=100))
    batch = build([Record(value=bytes(500))] * 3)
    for _ in range(20):
        log.append([bytearray(batch)], 0, 1)
    segment, length = log.segments.active, len(batch)
    asked: list[tuple[int, int]] = []
    read = segment.file.pread

    def noted(length: int, position: int) -> bytes:
        asked.append((position, length))
        return read(length, position)

    monkeypatch.setattr(segment.file, "pread", noted)
    assert end_within(segment, 0, 5 * length) == (5 * length, 15)
    assert asked == [(5 * length, HEADER_SIZE)]
    asked.clear()
    assert end_within(segment, 0, 5 * length + 10) == (5 * length, 15)  # the entry's batch, and no more than its head
    assert asked == [(5 * length, HEADER_SIZE + 10)]


def test_a_small_read_takes_its_bytes_along_with_what_says_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=100))
    batch = build([Record(value=bytes(500))] * 3)
    for _ in range(60):
        log.append([bytearray(batch)], 0, 1)
    length, everything = len(batch), log.read(0, 1 << 20).read()
    assert log.read(0, 2 * length).next_offset == 6  # whose place is known from now on
    asked: list[tuple[int, int]] = []
    read = log.segments.active.file.pread

    def noted(length: int, position: int) -> bytes:
        asked.append((position, length))
        return read(length, position)

    monkeypatch.setattr(log.segments.active.file, "pread", noted)
    for count in (1, 2, 5):
        piece = log.read(6, count * length + 10)
        assert piece.read() == everything[2 * length : (2 + count) * length]
        assert asked == [(2 * length, count * length + 10 + HEADER_SIZE)]
        asked.clear()
    piece = log.read(6, 10)  # the batch is larger
    assert piece.read() == everything[2 * length : 3 * length]
    assert asked[-1] == (2 * length, length)
    asked.clear()
    large = log.read(6, 50 * length + 10)  # one that may be sent uncopied
    assert large.length == 50 * length and sum(size for _, size in asked) < length


@given(st.lists(st.integers(0, 700), min_size=1, max_size=30), st.integers(1, 8000), st.data())
def test_what_is_known_changes_nothing_of_where_a_read_ends(
    sizes: list[int], max_bytes: int, data: st.DataObject
) -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=300))
    places = []
    for size in sizes:
        places.append(log.segments.active.size_bytes)
        log.append([bytearray(build([Record(value=bytes(size))] * 2))], 0, 1)
    segment, start = log.segments.active, data.draw(st.sampled_from(places))
    known = segment.read_to(start, start + max_bytes, WAIT)
    assert end_within(segment, start, start + max_bytes, known) == end_within(segment, start, start + max_bytes)
    torn = known[: data.draw(st.integers(0, len(known)))]
    assert end_within(segment, start, start + max_bytes, torn) == end_within(segment, start, start + max_bytes)
