"""A log is cut into segments where Apache Kafka cuts it: by size, by its indexes' fullness, by its records' times."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.stage import Topic, create_topic
from support.targets import Target
from tailrace.records.record import Record, build

NOW = int(time.time() * 1000) - 10_000_000
MIB = 1 << 20
Batch = tuple[int, int, int]  # records, bytes of each value, time after NOW in ms


def same_size(count: int, step_ms: int = 0, size: int = 50) -> list[Batch]:
    return [(1, size, number * step_ms) for number in range(count)]


def mixed(count: int, step_ms: int) -> list[Batch]:
    """Batches of one to five records and of odd sizes, their times now and then going back."""
    return [
        (1 + number % 5, 20 + number * 37 % 190, (number - 7 * (number % 9 == 4)) * step_ms) for number in range(count)
    ]


def encoded(batch: Batch) -> bytes:
    records, size, after_ms = batch
    return bytes(build([Record(timestamp=NOW + after_ms, key=b"k", value=bytes(size))] * records))


def of_bytes(size: int) -> Batch:
    """A batch that takes so many bytes, and more than 20,000."""
    return (1, size - (len(encoded((1, 20_000, 0))) - 20_000), 0)


HALF = MIB // 2
INDEXED = {"index.interval.bytes": "100"}
CASES: dict[str, tuple[dict[str, str], list[Batch], Sequence[int]]] = {
    "offset index": ({**INDEXED, "segment.index.bytes": "40"}, same_size(60), range(0, 60, 6)),
    "time index": ({**INDEXED, "segment.index.bytes": "40"}, same_size(60, 10), range(0, 60, 3)),
    "odd index": (
        {**INDEXED, "segment.index.bytes": "55"},
        mixed(60, 10),
        [0, 16, 30, 45, 55, 70, 81, 96, 108, 123, 136, 151, 165],
    ),
    "one entry": ({**INDEXED, "segment.index.bytes": "24"}, same_size(20, 10), range(0, 20, 2)),
    "no time entry": ({**INDEXED, "segment.index.bytes": "16"}, same_size(12, 10), range(12)),
    "each batch indexed": (
        {"index.interval.bytes": "0", "segment.index.bytes": "64"},
        mixed(40, 10),
        [0, 16, 31, 48, 63, 78, 96, 111],
    ),
    "size": ({"segment.bytes": str(MIB)}, same_size(40, 1, 100_000), range(0, 40, 10)),
    "size to the byte": (
        {"segment.bytes": str(MIB)},
        list(map(of_bytes, [HALF, HALF, 30_000, HALF, HALF - 29_999])),
        [0, 2, 4],
    ),
    "time": ({"segment.ms": "1000"}, mixed(60, 90), [0, 33, 70, 106, 141]),
    "time to the millisecond": ({"segment.ms": "1000"}, same_size(7, 500) + same_size(5, 1001), [0, 3, 6, 11]),
}


def produced(topic: Topic, batches: Sequence[Batch]) -> None:
    for batch in batches:
        assert topic.produce(encoded(batch)).error_code == 0


def base_offsets(topic: Topic) -> list[int]:
    """The segments' base offsets, by the files."""
    (directory,) = directories(topic)
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def directories(topic: Topic) -> Iterator[Path]:
    return topic.target.folder.glob(f"*/{topic.name}-0")


@pytest.mark.parametrize("case", CASES)
def test_segments_begin_where_apache_kafkas_do(target: Target, case: str) -> None:
    configs, batches, expected = CASES[case]
    topic = create_topic(target, configs=configs)
    produced(topic, batches)
    assert base_offsets(topic) == list(expected)
