"""A consumer that reads on starts where its last read ended, without a search."""

from tailrace.log.config import LogConfig
from tailrace.log.log import Log
from tailrace.log.memory import MemoryFilesystem
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
