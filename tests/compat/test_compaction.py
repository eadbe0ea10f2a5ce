"""A compacted topic is compacted alike: the same (offset, key, value) survive here and in Apache Kafka."""

import random
import time
from itertools import count

import pytest

from support.raw import build as request
from support.records_field import iterate_all
from support.stage import Topic, create_topic
from support.targets import Target
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build

Row = tuple[int, bytes | None, bytes | None]

FETCH, VERSION = 1, 12
NOW = int(time.time() * 1000)
PATIENCE = 300  # looks, each a long poll of 100 ms
# Every batch is later than the one before by more than segment.ms, so each closes a segment.
CONFIGS = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"}


def produce(topic: Topic, rows: list[tuple[bytes, bytes | None]], at_ms: int, codec: Codec = Codec.NONE) -> list[Row]:
    """Writes one batch; its rows with their offsets."""
    data = build([Record(timestamp=at_ms, key=key, value=value) for key, value in rows], compression=codec)
    answer = topic.produce(bytes(data))
    assert answer.error_code == 0
    return [(answer.base_offset + index, key, value) for index, (key, value) in enumerate(rows)]


def surviving(topic: Topic) -> list[Row]:
    """Every record that is there; the last fetch waits a little for more."""
    found: list[Row] = []
    with topic.leader() as connection:
        position = 0
        while True:
            wanted = {"partition": 0, "fetch_offset": position, "partition_max_bytes": 1 << 20}
            fetch = request(
                FETCH,
                replica_id=-1,
                session_epoch=-1,
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[{"topic": topic.name, "partitions": [wanted]}],
                forgotten_topics_data=[],
            )
            answer = connection.ask(fetch, VERSION).responses[0].partitions[0]
            assert answer.error_code == 0
            rows = [(r.offset, r.key, r.value) for r in iterate_all(bytes(answer.records or b""))]
            found += [row for row in rows if row[0] >= position]
            if not rows:
                return found
            position = rows[-1][0] + 1


def wait_until(topic: Topic, expected: list[Row]) -> None:
    """Returns when exactly these survive; fails with what does instead."""
    found: list[Row] = []
    for _ in range(PATIENCE):
        found = surviving(topic)
        if found == expected:
            return
    assert found == expected


@pytest.mark.capability("log compaction: the last value of every key, at its offset; tombstones (KIP-534)")
@pytest.mark.parametrize("keep_tombstones", [True, False])
def test_the_same_records_survive(target: Target, keep_tombstones: bool) -> None:
    topic = create_topic(target, configs={**CONFIGS, "delete.retention.ms": "86400000" if keep_tombstones else "0"})
    choice, clock, written = random.Random(3), count(NOW - 100_000, 10), list[Row]()
    for number in range(40):
        keys = [b"key-%d" % choice.randrange(9) + b"x" * choice.choice([0, 30]) for _ in range(3)]
        rows = [(key, None if choice.random() < 0.3 else b"%d-%d" % (number, at)) for at, key in enumerate(keys)]
        written += produce(topic, rows, next(clock), list(Codec)[number % len(Codec)])
    tail = produce(topic, [(b"tail", b"0")], next(clock))
    last = {row[1]: row for row in written}
    expected = sorted(last.values())
    if keep_tombstones:
        wait_until(topic, expected + tail)
        return
    # The first pass that meets one gives it its horizon, a later one takes it, and a pass needs something new.
    for number in range(PATIENCE):
        tail += produce(topic, [(b"tail-%d" % number, b"v")], next(clock))
        if not any(value is None for _, _, value in surviving(topic)):
            break
    wait_until(topic, [row for row in expected if row[2] is not None] + tail)
