"""ListOffsets on the wire: lookups by time, inside batches and out of order, and the special times by version."""

import gzip
import time
from typing import Any

import pytest

from support.batches import Batch, batch, record
from support.raw import build
from support.stage import Topic, create_topic
from support.targets import Target

pytestmark = pytest.mark.also_plain

UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST = 3, 42

UNSUPPORTED_VERSION = 35
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
START_MS = int(time.time() * 1000) - 60_000


def timed(*deltas: int, compressed: bool = False) -> bytes:
    """One batch of records at START_MS plus these milliseconds each."""
    records = [record(index, b"v", timestamp_delta=delta) for index, delta in enumerate(deltas)]
    packed = gzip.compress(b"".join(records)) if compressed else None
    newest = START_MS + max(deltas)
    return Batch(records, int(compressed), base_timestamp=START_MS, max_timestamp=newest, payload=packed).encode()


def look_up(topic: Topic, timestamp: int, version: int = 10) -> tuple[int, int, int]:
    """(error code, offset, timestamp)."""
    row = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": topic.name, "partitions": [row]}]
    request: Any = build(
        2, replica_id=-1, isolation_level=0, topics=topics, **({"timeout_ms": 5000} if version >= 10 else {})
    )
    with topic.leader() as connection:
        found = connection.ask(request, version).topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


@pytest.mark.capability("offsets by timestamp, exact inside compressed batches and out of order")
@pytest.mark.parametrize("compressed", [False, True])
def test_timestamps_out_of_order_are_found_exactly(target: Target, compressed: bool) -> None:
    topic = create_topic(target)
    assert topic.produce(timed(5000, 1000, 9000, compressed=compressed)).error_code == 0
    assert topic.produce(timed(3000, 7000, compressed=compressed)).error_code == 0
    assert topic.produce(timed(9000, 12_000, 11_000, compressed=compressed)).error_code == 0
    wanted = (0, 5000, 5001, 9000, 9001, 11_000, 12_000, 12_001)
    found = [look_up(topic, START_MS + delta) for delta in wanted]
    assert [offset for _, offset, _ in found] == [0, 0, 2, 2, 6, 6, 6, -1]
    moments = [5000, 5000, 9000, 9000, 12_000, 12_000, 12_000]
    assert [at for _, _, at in found] == [*(START_MS + delta for delta in moments), -1]
    assert look_up(topic, MAX_TIMESTAMP) == (0, 6, START_MS + 12_000)


@pytest.mark.capability("offsets by timestamp, exact inside compressed batches and out of order")
def test_of_records_with_the_largest_timestamp_the_first_is_found(target: Target) -> None:
    topic = create_topic(target)
    for deltas in ((1, 5, 5), (5, 2), (3,)):
        assert topic.produce(timed(*deltas)).error_code == 0
    assert look_up(topic, MAX_TIMESTAMP) == (0, 1, START_MS + 5)


@pytest.mark.capability("earliest, latest, max timestamp, earliest local, latest tiered, by version")
def test_special_times_are_answered_from_their_version_on(target: Target) -> None:
    topic = create_topic(target)
    assert topic.produce(timed(1, 2, 3)).error_code == 0
    request = build(
        21, topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}], timeout_ms=9000
    )
    with topic.leader() as connection:
        assert connection.ask(request, 2).topics[0].partitions[0].low_watermark == 2
    answers = {
        (timestamp, version): look_up(topic, timestamp, version)
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
        for version in (1, 6, 7, 8, 9, 10, 11)
    }
    told = {
        LATEST: (1, (0, 3, -1)),
        EARLIEST: (1, (0, 2, -1)),
        MAX_TIMESTAMP: (7, (0, 2, START_MS + 3)),
        EARLIEST_LOCAL: (8, (0, 2, -1)),
        LATEST_TIERED: (9, (0, -1, -1)),
        EARLIEST_PENDING_UPLOAD: (11, (0, -1, -1)),
    }
    for (timestamp, version), answer in answers.items():
        since, expected = told[timestamp]
        if version >= since:
            assert answer == expected, (timestamp, version)
        else:
            assert answer == (UNSUPPORTED_VERSION, -1, -1), (timestamp, version)


@pytest.mark.capability("offsets by timestamp, exact inside compressed batches and out of order")
def test_an_empty_log_has_no_timestamps(target: Target) -> None:
    topic = create_topic(target)
    assert [look_up(topic, timestamp) for timestamp in (0, START_MS, MAX_TIMESTAMP)] == [(0, -1, -1)] * 3
    assert [look_up(topic, timestamp)[1] for timestamp in (EARLIEST, LATEST, EARLIEST_LOCAL)] == [0, 0, 0]


@pytest.mark.capability("offsets by timestamp, exact inside compressed batches and out of order")
def test_of_records_without_a_timestamp_the_first_is_the_newest(target: Target) -> None:
    topic = create_topic(target)
    for _ in range(2):
        assert topic.produce(batch(b"a", b"b", base_timestamp=-1)).error_code == 0
    assert [look_up(topic, timestamp) for timestamp in (MAX_TIMESTAMP, 0, START_MS)] == [(0, 0, -1), *[(0, -1, -1)] * 2]


@pytest.mark.capability("earliest, latest, max timestamp, earliest local, latest tiered, by version")
def test_a_partition_that_is_asked_for_twice_is_refused_once(target: Target) -> None:
    topic = create_topic(target, partitions=2)
    rows = [{"partition_index": n, "timestamp": EARLIEST, "current_leader_epoch": -1} for n in (0, 1, 0)]
    for version in (1, 6, 9):
        request = build(2, replica_id=-1, isolation_level=0, topics=[{"name": topic.name, "partitions": rows}])
        with topic.leader() as connection:
            found = connection.ask(request, version).topics[0].partitions
        assert [row.error_code for row in found if row.partition_index == 0] == [42]
        assert len(found) == 2


@pytest.mark.capability("message.timestamp.type, message.timestamp.after.max.ms")
def test_with_log_append_time_only_the_brokers_clock_is_looked_up(target: Target) -> None:
    topic = create_topic(target, configs={"message.timestamp.type": "LogAppendTime"})
    appended = [topic.produce(timed(5000, 1000, compressed=compressed)) for compressed in (False, True)]
    times = [answer.log_append_time_ms for answer in appended]
    assert look_up(topic, START_MS) == (0, 0, times[0])
    assert look_up(topic, times[0]) == (0, 0, times[0])
    assert look_up(topic, times[1] + 1) == (0, -1, -1)
    code, offset, at = look_up(topic, MAX_TIMESTAMP)
    assert (code, at) == (0, times[1])
    assert offset == (2 if times[1] > times[0] else 0)


@pytest.mark.capability("message.timestamp.before.max.ms")
def test_records_from_before_the_limit_are_refused_with_their_places(target: Target) -> None:
    topic = create_topic(target, configs={"message.timestamp.before.max.ms": "3600000"})
    hours_ago = -3 * 3600 * 1000
    for compressed in (False, True):
        for deltas, blamed in (((hours_ago, 0), [0]), ((0, hours_ago, 1, hours_ago), [1, 3])):
            answer = topic.produce(timed(*deltas, compressed=compressed))
            assert answer.error_code == 32
            assert [row.batch_index for row in answer.record_errors] == blamed
    assert topic.produce(timed(0, 1)).base_offset == 0


@pytest.mark.capability("message.timestamp.type, message.timestamp.after.max.ms")
def test_records_from_after_the_limit_are_refused_with_their_places(target: Target) -> None:
    topic = create_topic(target, configs={"message.timestamp.after.max.ms": "600000"})
    later = 3 * 3600 * 1000
    for compressed in (False, True):
        answer = topic.produce(timed(0, later, 1, compressed=compressed))
        assert answer.error_code == 32
        assert [row.batch_index for row in answer.record_errors] == [1]
    assert topic.produce(timed(0, 60_001)).base_offset == 0


@pytest.mark.capability("max.message.bytes")
def test_max_message_bytes_counts_what_is_sent_not_what_it_decompresses_to(target: Target) -> None:
    topic = create_topic(target, configs={"max.message.bytes": "1000"})
    records = [record(0, bytes(50_000))]
    assert topic.produce(Batch(records, 1, payload=gzip.compress(b"".join(records))).encode()).error_code == 0
    records = [record(0, time.time_ns().to_bytes(8, "big") * 2000)]
    packed = gzip.compress(b"".join(records), 0)
    assert topic.produce(Batch(records, 1, payload=packed).encode()).error_code == 10
    assert topic.produce(batch(b"small")).base_offset == 1


@pytest.mark.capability("earliest, latest, max timestamp, earliest local, latest tiered, by version")
@pytest.mark.parametrize("version", [1, 6, 7, 11])
def test_a_topic_asked_for_in_several_places_is_answered_in_one(target: Target, version: int) -> None:
    topic = create_topic(target)
    assert topic.produce(batch(b"x")).error_code == 0
    repeated, different = [(0, -1), (0, -2), (5, -1), (0, -1)], [(0, -1), (5, -1)]
    with topic.leader() as connection:
        for rows, expected in ((repeated, (INVALID_REQUEST, -1)), (different, (0, 1))):
            places = [
                [{"partition_index": number, "timestamp": when, "current_leader_epoch": -1}] for number, when in rows
            ]
            topics = [{"name": topic.name, "partitions": place} for place in places]
            request = build(2, replica_id=-1, isolation_level=0, topics=topics)
            (answer,) = connection.ask(request, version).topics
            found = sorted((row.partition_index, row.error_code, row.offset) for row in answer.partitions)
            assert found == [(0, *expected), (5, UNKNOWN_TOPIC_OR_PARTITION, -1)]
