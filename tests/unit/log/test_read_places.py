"""A consumer that reads on starts where its last read ended, without a search."""

import pytest

from tailrace.log.config import LogConfig
from tailrace.log.log import Log
from tailrace.log.memory import MemoryFilesystem
from tailrace.records.batch import HEADER_SIZE
from tailrace.records.record import Record, build


def test_a_cut_read_says_which_offset_follows() -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=100))
    batch = build([Record(value=bytes(500))] * 3)
    for _ in range(5):
        log.append([bytearray(batch)], 0, 1)
    segment = log.active
    for count in (1, 2, 3):
        limit = count * len(batch) + 10
        assert segment.end_within(0, limit) == (count * len(batch), count * 3)


def test_the_end_of_a_read_is_found_with_the_head_behind_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(MemoryFilesystem(), "/logs/t-0", LogConfig(index_interval_bytes=100))
    batch = build([Record(value=bytes(500))] * 3)
    for _ in range(20):
        log.append([bytearray(batch)], 0, 1)
    segment, length = log.active, len(batch)
    asked: list[tuple[int, int]] = []
    read = segment.file.pread

    def noted(length: int, position: int) -> bytes:
        asked.append((position, length))
        return read(length, position)

    monkeypatch.setattr(segment.file, "pread", noted)
    assert segment.end_within(0, 5 * length) == (5 * length, 15)
    assert asked == [(5 * length, HEADER_SIZE)]
    asked.clear()
    assert segment.end_within(0, 5 * length + 10) == (5 * length, 15)  # the entry's batch, and no more than its head
    assert asked == [(5 * length, HEADER_SIZE + 10)]
