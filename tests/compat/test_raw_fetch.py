"""Fetch on the wire: sessions (KIP-227), long polling, sizes, offsets."""

import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from support.batches import batch
from support.raw import REQUESTS, build
from support.stage import Topic, create_topic, filled_topic
from support.targets import Target

pytestmark = pytest.mark.also_plain

OFFSET_OUT_OF_RANGE, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 1, 70, 71
VERSION = 12


def fetch_request(
    *topics: Topic, offsets: dict[int, int], session: tuple[int, int] = (0, -1), forgotten: Any = (), **fields: Any
) -> Any:
    limit = fields.pop("partition_max_bytes", 1 << 20)
    rows = [{"partition": p, "fetch_offset": o, "partition_max_bytes": limit} for p, o in offsets.items()]
    named = [{"topic": topic.name, "partitions": rows} for topic in topics]
    sizes = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    ids = {"session_id": session[0], "session_epoch": session[1]}
    return build(1, replica_id=-1, topics=named, forgotten_topics_data=list(forgotten), **ids, **sizes)


def partitions(answer: Any) -> dict[int, Any]:
    return {row.partition_index: row for topic in answer.responses for row in topic.partitions}


@pytest.mark.capability("fetch sessions (KIP-227)")
def test_an_incremental_fetch_names_only_what_changed(target: Target) -> None:
    topic = create_topic(target, partitions=1)
    with topic.leader() as connection:
        opened = connection.ask(fetch_request(topic, offsets={0: 0}, session=(0, 0)), VERSION)
        assert opened.error_code == 0
        assert opened.session_id > 0
        assert list(partitions(opened)) == [0]
        session = opened.session_id
        quiet = connection.ask(fetch_request(offsets={}, session=(session, 1)), VERSION)
        assert (quiet.error_code, quiet.responses) == (0, [])
        topic.produce(batch(b"news"))
        news = connection.ask(fetch_request(offsets={}, session=(session, 2)), VERSION)
        assert partitions(news)[0].high_watermark == 1
        assert len(bytes(partitions(news)[0].records)) > 61
        moved = connection.ask(fetch_request(topic, offsets={0: 1}, session=(session, 3)), VERSION)
        assert (moved.error_code, moved.responses) == (0, [])


@pytest.mark.capability("fetch sessions (KIP-227)")
def test_a_forgotten_partition_is_not_answered_any_more(target: Target) -> None:
    topic = create_topic(target)
    with topic.leader() as connection:
        session = connection.ask(fetch_request(topic, offsets={0: 0}, session=(0, 0)), VERSION).session_id
        forget = [{"topic": topic.name, "partitions": [0]}]
        connection.ask(fetch_request(offsets={}, session=(session, 1), forgotten=forget), VERSION)
        topic.produce(batch(b"unseen"))
        answer = connection.ask(fetch_request(offsets={}, session=(session, 2)), VERSION)
        assert answer.responses == []


@pytest.mark.capability("fetch sessions (KIP-227)")
def test_wrong_session_ids_and_epochs_have_their_own_errors(target: Target) -> None:
    topic = create_topic(target)
    with topic.leader() as connection:
        unknown = connection.ask(fetch_request(offsets={}, session=(123456, 1)), VERSION)
        assert unknown.error_code == FETCH_SESSION_ID_NOT_FOUND
        session = connection.ask(fetch_request(topic, offsets={0: 0}, session=(0, 0)), VERSION).session_id
        wrong = connection.ask(fetch_request(offsets={}, session=(session, 9)), VERSION)
        assert wrong.error_code == INVALID_FETCH_SESSION_EPOCH
        closed = connection.ask(fetch_request(topic, offsets={0: 0}, session=(session, -1)), VERSION)
        assert (closed.error_code, closed.session_id) == (0, 0)
        gone = connection.ask(fetch_request(offsets={}, session=(session, 1)), VERSION)
        assert gone.error_code == FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.capability("fetch long-polls: min_bytes, max_wait_ms")
def test_an_append_wakes_a_waiting_fetch(target: Target) -> None:
    topic = create_topic(target)
    with target.raw(topic.leaders[0], timeout_s=60) as connection:
        started = time.monotonic()
        sent = connection.send(fetch_request(topic, offsets={0: 0}, max_wait_ms=30_000), VERSION)
        writer = threading.Timer(0.2, topic.produce, (batch(b"wake up"),))
        writer.start()
        answer = connection.receive(1, VERSION, sent)
        writer.join()
    assert len(bytes(partitions(answer)[0].records)) > 61
    assert 0.15 < time.monotonic() - started < 30


@pytest.mark.capability("fetch long-polls: min_bytes, max_wait_ms")
def test_a_fetch_without_news_is_an_empty_success_at_its_timeout(target: Target) -> None:
    topic = filled_topic(target)
    with topic.leader() as connection:
        started = time.monotonic()
        answer = connection.ask(fetch_request(topic, offsets={0: 3}, max_wait_ms=300), VERSION)
        waited = time.monotonic() - started
    row = partitions(answer)[0]
    assert (answer.error_code, row.error_code, row.high_watermark, bytes(row.records)) == (0, 0, 3, b"")
    assert waited > 0.25


@pytest.mark.capability("fetch long-polls: min_bytes, max_wait_ms")
def test_min_bytes_waits_for_more_than_there_is(target: Target) -> None:
    topic = filled_topic(target)
    with topic.leader() as connection:
        started = time.monotonic()
        request = fetch_request(topic, offsets={0: 0}, max_wait_ms=300, min_bytes=50_000)
        answer = connection.ask(request, VERSION)
        waited = time.monotonic() - started
    assert len(bytes(partitions(answer)[0].records)) == 103
    assert waited > 0.25


@pytest.mark.capability("fetch answers whole batches, at least one")
def test_a_fetch_answers_at_least_one_batch_above_its_limits(target: Target) -> None:
    topic = create_topic(target)
    for _ in range(2):
        topic.produce(batch(bytes(5000)))
    with topic.leader() as connection:
        request = fetch_request(topic, offsets={0: 0}, max_bytes=100, partition_max_bytes=100)
        answer = connection.ask(request, VERSION)
    records = bytes(partitions(answer)[0].records)
    assert 5000 < len(records) < 5200


@pytest.mark.capability("fetch answers whole batches, at least one")
def test_an_offset_inside_a_batch_gets_the_whole_batch(target: Target) -> None:
    topic = filled_topic(target)
    with topic.leader() as connection:
        whole, inside = (
            bytes(partitions(connection.ask(fetch_request(topic, offsets={0: offset}), VERSION))[0].records)
            for offset in (0, 2)
        )
    assert whole == inside


@pytest.mark.capability("read_committed equals the high watermark without transactions")
def test_read_committed_reads_up_to_the_high_watermark(target: Target) -> None:
    topic = filled_topic(target)
    with topic.leader() as connection:
        answer = connection.ask(fetch_request(topic, offsets={0: 0}, isolation_level=1), VERSION)
    row = partitions(answer)[0]
    assert (row.high_watermark, row.last_stable_offset, len(bytes(row.records))) == (3, 3, 103)
    assert row.aborted_transactions == []


@pytest.mark.capability("consume from an offset")
def test_offsets_outside_the_log_are_out_of_range(target: Target) -> None:
    topic = filled_topic(target)
    request = build(
        21, topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}], timeout_ms=9000
    )
    with topic.leader() as connection:
        assert connection.ask(request, 2).topics[0].partitions[0].low_watermark == 2
        rows = [partitions(connection.ask(fetch_request(topic, offsets={0: n}), VERSION))[0] for n in (1, 2, 3, 4)]
    assert [row.error_code for row in rows] == [OFFSET_OUT_OF_RANGE, 0, 0, OFFSET_OUT_OF_RANGE]
    assert rows[1].log_start_offset == 2


def on_one_node(topic: Topic) -> list[int]:
    """The partitions that share a leader with the first."""
    return [number for number, leader in enumerate(topic.leaders) if leader == topic.leaders[0]]


@pytest.mark.capability("fetch answers are even over partitions")
def test_a_session_whose_answers_are_short_serves_its_partitions_in_turn(target: Target) -> None:
    topic = create_topic(target, partitions=6)
    mine, one = on_one_node(topic), batch(b"v" * 100)
    for number in mine:
        for _ in range(12):
            assert topic.produce(one, partition=number).error_code == 0
    offsets, served = dict.fromkeys(mine, 0), []
    with topic.leader() as connection:
        asked, session = dict(offsets), 0
        for epoch in range(1 + 4 * len(mine)):
            request = fetch_request(topic, offsets=asked, session=(session, epoch), max_bytes=2 * len(one))
            answer = connection.ask(request, VERSION)
            session, asked = answer.session_id, {}
            for number, row in partitions(answer).items():
                if row.records:
                    offsets[number] += len(bytes(row.records)) // len(one)
                    asked[number] = offsets[number]
                    served.append(number)
    counts = [served.count(number) for number in mine]
    assert min(counts) >= 4 and max(counts) - min(counts) <= 1, served
    assert all(first != second for first, second in pairwise(served[1:])), served  # Kafka's second is the first again


@pytest.mark.capability("fetch answers are even over partitions")
def test_a_waiting_fetch_is_answered_with_what_one_request_brought_to_all_of_its_partitions(target: Target) -> None:
    topic = create_topic(target, partitions=6)
    mine, one = on_one_node(topic), batch(b"v" * 100)
    produce = REQUESTS[0]
    rows = [produce.TopicProduceData.PartitionProduceData(index=n, records=one, version=9) for n in mine]
    data = [produce.TopicProduceData(name=topic.name, partition_data=rows, version=9)]
    request = produce(acks=1, timeout_ms=10_000, topic_data=data, version=9)
    with topic.leader() as reader, topic.leader() as writer:
        waiting = reader.send(fetch_request(topic, offsets=dict.fromkeys(mine, 0), max_wait_ms=10_000), VERSION)
        assert all(row.error_code == 0 for row in writer.ask(request, 9).responses[0].partition_responses)
        answer = reader.receive(1, VERSION, waiting)
    found = {number: len(bytes(row.records)) for number, row in partitions(answer).items()}
    if target.is_kafka:  # appends one partition after the other, and may wake the fetch before the last of them
        assert set(found) == set(mine) and len(one) in found.values()
        assert set(found.values()) <= {0, len(one)}
    else:
        assert found == dict.fromkeys(mine, len(one))
