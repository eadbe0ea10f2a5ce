"""Logs on a file system in memory, and the records in them, for the tests of the log."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogConfig
from tailrace.log.directory.findings import Stray
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.log import Log, LogAppendResult
from tailrace.log.segment.search import max_timestamp
from tailrace.log.segment.segment import Segment
from tailrace.records.batch import read_header, split
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build, iterate

DIRECTORY = "/logs/topic-0"
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150, message_timestamp_after_max_ms=2**62)
NOW = 1_000_000


def open_log(filesystem: Filesystem, config: LogConfig = SMALL, **options: Any) -> Log:
    """The log in DIRECTORY."""
    return Log.open(filesystem, DIRECTORY, config, **options)


def some_batch(*values: bytes, timestamp: int = NOW, codec: Codec = Codec.NONE, **fields: Any) -> bytearray:
    """A batch of unkeyed values."""
    return build([Record(timestamp=timestamp, value=value) for value in values], compression=codec, **fields)


def append(log: Log, *values: bytes, leader_epoch: int = 0, **fields: Any) -> LogAppendResult:
    """Appends one batch and asserts that it was taken."""
    (appended,) = log.append([some_batch(*values, **fields)], leader_epoch, NOW)
    assert appended.error_code == 0, appended
    return appended


def records_of(
    log: Log, offset: int | None = None, max_bytes: int = 400, max_offset: int | None = None
) -> list[Record]:
    """All records from offset on, read as a consumer does, slice by slice."""
    position = log.log_start_offset if offset is None else offset
    end = log.log_end_offset if max_offset is None else max_offset
    found: list[Record] = []
    while position < end:
        batches = split(log.read(position, max_bytes, max_offset).read())
        if not batches:
            break
        found += [record for batch in batches for record in iterate(batch) if record.offset >= position]
        position = read_header(batches[-1]).next_offset  # compaction may have taken the last records of a batch
    return found


def newest(log: Log) -> int:
    """The largest timestamp of any batch, -1 for an empty log."""
    return max(map(max_timestamp, log.segments))


def values_of(log: Log, **where: Any) -> list[bytes | None]:
    """The values of records_of."""
    return [record.value for record in records_of(log, **where)]


def with_settings(**settings: Any) -> LogConfig:
    """SMALL with other settings."""
    return replace(SMALL, **settings)


class RecoveredLogs:
    """Hears of the logs that a log directory has recovered."""

    def __init__(self, hear: Callable[[TopicPartition, Log], None]) -> None:
        self.recovered = hear

    def put_aside(self, stray: Stray) -> None: ...

    def damaged(self, key: TopicPartition, segment: Segment) -> None: ...

    def mended(self, name: str) -> None: ...
