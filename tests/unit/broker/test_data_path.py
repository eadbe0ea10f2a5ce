"""Produce, Fetch and their neighbours against a broker on a Unix socket, as tables of request -> answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.broker import (
    OFFSETS_ID,
    TOPIC_ID,
    Running,
    batch,
    image,
    running,
    topic,
)
from support.records_field import iterate_all
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.real import RealFile
from tailrace.net.client import Disconnected
from tailrace.records.record import Record, build
from tailrace.wire import codec
from tailrace.wire.hot.produce import encode_internal_produce
from tailrace.wire.messages import (
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    FenceShardRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from tailrace_broker.fetch.delayed import DelayedFetch


def values(records: Any) -> list[bytes | None]:
    return [record.value for record in iterate_all(bytes(records or b""))]


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12, 13])
async def test_what_is_produced_is_fetched(tmp_path: Path, version: int) -> None:
    async with running(tmp_path) as broker:
        row = await broker.produce(0, batch(b"a", b"b"), version=version)
        assert (row.error_code, row.base_offset) == (0, 0)
        row = await broker.produce(0, batch(b"c"), version=version)
        assert row.base_offset == 2
        fetched = await broker.fetch(0, 0, version=13 if version == 13 else 4)
        assert values(fetched.records) == [b"a", b"b", b"c"]
        assert fetched.high_watermark == fetched.last_stable_offset == 3


@pytest.mark.parametrize(
    ("partition", "version", "code"),
    [
        (2, 9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_partition_that_is_not_led_here_is_refused(
    tmp_path: Path, partition: int, version: int, code: ErrorCode
) -> None:
    async with running(tmp_path) as broker:
        assert (await broker.produce(partition, batch(b"a"), version=version)).error_code == code
        assert (await broker.fetch(partition, 0)).error_code == code


async def test_a_producer_that_repeats_itself_is_told_of_a_new_leader_and_of_a_topic_made_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for _ in range(2):
            assert (await broker.produce(0, batch(b"a"), version=9)).error_code == 0
        here = broker.follower.image
        broker.follower.move(topics={**here.topics, "t": topic("t", TOPIC_ID, 1, 0, 1)})
        assert (await broker.produce(0, batch(b"b"), version=9)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.follower.move(topics={})
        assert (await broker.produce(0, batch(b"b"), version=9)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.follower.move(topics={"t": topic("t", UUID(int=6), 0)})
        assert (await broker.produce(0, batch(b"c"), version=9)).base_offset == 0


async def test_a_consumer_that_repeats_itself_is_told_of_a_new_leader_and_of_a_topic_made_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        for _ in range(2):
            assert values((await broker.fetch(0, 0)).records) == [b"a"]
        here = broker.follower.image
        broker.follower.move(topics={**here.topics, "t": topic("t", TOPIC_ID, 1, 0, 1)})
        assert (await broker.fetch(0, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.follower.move(topics={})
        assert (await broker.fetch(0, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.follower.move(topics={"t": topic("t", UUID(int=6), 0)})
        await broker.produce(0, batch(b"b"))
        for _ in range(2):
            assert values((await broker.fetch(0, 0)).records) == [b"b"]
        broker.follower.move(topics={"t": topic("t", UUID(int=8), 0)})  # at once, led here before and after
        assert (await broker.produce(0, batch(b"c"))).base_offset == 0
        assert values((await broker.fetch(0, 0)).records) == [b"c"]


async def test_leader_hints_name_the_new_leader_as_the_client_knows_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        data = ProduceRequest.TopicProduceData
        row = data.PartitionProduceData(index=2, records=batch(b"a"))
        request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[data(name="t", partition_data=[row])])
        answer = await broker.client.ask(request, timeout_ms=60_000, version=12)
        hint = answer.responses[0].partition_responses[0].current_leader
        assert (hint.leader_id, hint.leader_epoch) == (1, 3)
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(1, "front", 9093)]
        answer = await broker.client.ask(broker.fetch_request(2, 0), timeout_ms=60_000, version=17)
        assert answer.responses[0].partitions[0].current_leader.leader_id == 1
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(1, "front", 9093)]


@pytest.mark.parametrize(
    ("acks", "transactional_id", "code"),
    [
        (2, None, ErrorCode.INVALID_REQUIRED_ACKS),
        (-2, None, ErrorCode.INVALID_REQUIRED_ACKS),
        (3, "tx", ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
async def test_a_produce_that_cannot_be_promised_is_refused(
    tmp_path: Path, acks: int, transactional_id: str | None, code: ErrorCode
) -> None:
    async with running(tmp_path) as broker:
        data = ProduceRequest.TopicProduceData
        row = data.PartitionProduceData(index=0, records=batch(b"a"))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1,
            topic_data=[data(name="t", partition_data=[row])],
        )
        answer = await broker.client.ask(request, timeout_ms=60_000, version=9)
        assert answer.responses[0].partition_responses[0].error_code == code
        assert (await broker.fetch(0, 0)).high_watermark == 0


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.parametrize("version", [3, 9, 12])
async def test_plain_records_are_taken_under_any_transactional_id(
    tmp_path: Path, version: int, transactional_id: str | None
) -> None:
    async with running(tmp_path) as broker:
        data = ProduceRequest.TopicProduceData
        rows = [data.PartitionProduceData(index=0, records=records) for records in (batch(b"a"), transactional_batch())]
        codes = []
        for row in rows:
            topics = [data(name="t", partition_data=[row])]
            request = ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1, topic_data=topics)
            answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
            codes.append(answer.responses[0].partition_responses[0].error_code)
        no_coordinator = ErrorCode.NOT_ENOUGH_REPLICAS
        refused = no_coordinator if transactional_id else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert codes == [ErrorCode.NONE, refused]


def transactional_batch() -> bytes:
    return batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def damaged(at: int, value: int) -> bytes:
    data = bytearray(batch(b"abcdefgh"))
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (damaged(70, 0xEE), ErrorCode.CORRUPT_MESSAGE),
        (damaged(16, 1), ErrorCode.INVALID_RECORD),
        (damaged(16, 9), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"a")[:40], ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["crc", "magic-1", "magic-9", "short", "shorter", "empty", "two-batches", "control", "too-large"],
)
async def test_a_bad_batch_is_refused_and_its_neighbours_are_not(
    tmp_path: Path, records: bytes, code: ErrorCode
) -> None:
    async with running(tmp_path, image(**{"max.message.bytes": "1000"})) as broker:
        bad, good = await asyncio.gather(broker.produce(0, records), broker.produce(0, batch(b"good")))
        assert bad.error_code == code
        assert (good.error_code, good.base_offset) == (0, 0)


async def test_a_transactional_batch_without_a_transaction_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        row = await broker.produce(0, transactional_batch())
        assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_an_answer_has_the_append_time_only_where_the_topic_says_so(tmp_path: Path, kind: str) -> None:
    async with running(tmp_path, image(**{"message.timestamp.type": kind})) as broker:
        row = await broker.produce(0, batch(b"a"))
        assert (row.log_append_time_ms > 0) is (kind == "LogAppendTime")


@pytest.mark.parametrize("version", [4, 5, 11, 12])
@pytest.mark.parametrize("level", [0, 1])
async def test_aborted_transactions_are_null_for_who_did_not_ask(tmp_path: Path, version: int, level: int) -> None:
    async with running(tmp_path) as broker:
        row = await broker.fetch(0, 0, version=version, isolation_level=level)
        assert row.aborted_transactions == ([] if level else None)
        assert (await broker.fetch(9, 0, version=version)).aborted_transactions == []


async def test_many_pipelined_requests_are_answered_in_order_with_dense_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        rows = await asyncio.gather(*(broker.produce(i % 2, batch(b"%d" % i)) for i in range(100)))
        assert [row.base_offset for row in rows] == [i // 2 for i in range(100)]


async def test_a_duplicate_of_an_idempotent_batch_gets_the_first_offset(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
        second = batch(b"c", producer_id=9, producer_epoch=0, base_sequence=2)
        rows = await broker.produce(0, first, second, first)
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 2), (0, 0)]
        gap = batch(b"d", producer_id=9, producer_epoch=0, base_sequence=7)
        assert (await broker.produce(0, gap)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert values((await broker.fetch(0, 0)).records) == [b"a", b"b", b"c"]


async def test_acks_zero_gets_no_answer_and_an_error_closes_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        data = ProduceRequest.TopicProduceData

        def request(partition: int) -> ProduceRequest:
            row = data.PartitionProduceData(index=partition, records=batch(b"a"))
            return ProduceRequest(acks=0, timeout_ms=1, topic_data=[data(name="t", partition_data=[row])])

        frame = codec.encode_request(request(0), 9, 1, "c")
        wire = await broker.open_wire()
        wire.write(frame)
        assert (await broker.fetch(0, 0, max_wait_ms=5000)).high_watermark == 1
        wire.write(codec.encode_request(request(2), 9, 2, "c"))
        with pytest.raises(Disconnected):
            await broker.fetch(0, 0, max_wait_ms=5000, min_bytes=1 << 20)


async def test_internal_topics_take_appends_from_their_owner_only(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        row = await broker.produce(0, batch(b"a"), name="__consumer_offsets")
        assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def internal_produce(broker: Running, shard_epoch: int, base_offset: int = 0) -> int:
    records = build([Record(value=b"v")], base_offset=base_offset)
    frame = encode_internal_produce(
        13, 1, "coordinator", OFFSETS_ID.bytes, 0, records, shard_epoch=shard_epoch, timeout_ms=100
    )
    answer = await broker.service.ask_frame(frame[4:], timeout_ms=5000)
    body = codec.decode_response(0, 13, codec.response_body(0, 13, memoryview(answer)))
    return int(body.responses[0].partition_responses[0].error_code)


async def fence(broker: Running, shard_epoch: int) -> Any:
    request = FenceShardRequest(topic_id=OFFSETS_ID, partition=0, shard_epoch=shard_epoch, coordinator_id=1)
    return await broker.service.ask(request, timeout_ms=60_000)


def give_shard(broker: Running, shard_epoch: int) -> None:
    shard = broker.follower.image.shards["__consumer_offsets", 0]
    broker.follower.move(shards={("__consumer_offsets", 0): replace(shard, shard_epoch=shard_epoch)})


async def test_a_shard_epoch_that_no_controller_gave_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    shard_epoch = 2**31 - 1
    async with running(tmp_path) as broker:
        assert (await fence(broker, shard_epoch)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await internal_produce(broker, shard_epoch) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fence(broker, 5)).barrier_offset == 0
        assert await internal_produce(broker, 5) == 0
    async with running(tmp_path) as broker:
        assert await internal_produce(broker, 5) == 0
        assert broker.broker.lookups.count == 0  # the image knows: the log is not read for it


async def test_a_new_owner_that_knows_its_epoch_before_the_broker_is_fenced_in_when_the_news_comes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        asked = asyncio.create_task(fence(broker, 7))
        await asyncio.wait(
            {asked, asyncio.ensure_future(broker.follower.waited_for.wait())}, return_when="FIRST_COMPLETED"
        )
        give_shard(broker, 6)
        give_shard(broker, 7)
        assert (await asked).barrier_offset == 0


async def test_a_new_topic_that_its_shards_owner_knows_before_the_broker_is_fenced_when_the_news_comes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        known = broker.follower.image
        without = {name: one for name, one in known.topics.items() if name != "__consumer_offsets"}
        names = {topic_id: name for topic_id, name in known.topic_names.items() if topic_id != OFFSETS_ID}
        broker.follower.move(topics=without, topic_names=names)
        asked = asyncio.create_task(fence(broker, 5))
        await asyncio.wait(
            {asked, asyncio.ensure_future(broker.follower.waited_for.wait())}, return_when="FIRST_COMPLETED"
        )
        assert not asked.done()
        broker.follower.move(topics=known.topics, topic_names=known.topic_names)
        assert (await asked).error_code == ErrorCode.NONE


async def test_an_older_shard_epoch_is_fenced_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert await internal_produce(broker, 4) == ErrorCode.NOT_COORDINATOR  # the image says 5
        assert await internal_produce(broker, 5) == 0
        give_shard(broker, 7)
        assert (await fence(broker, 7)).barrier_offset == 1
        assert await internal_produce(broker, 6) == ErrorCode.NOT_COORDINATOR
        assert (await fence(broker, 6)).error_code == ErrorCode.NOT_COORDINATOR
        assert await internal_produce(broker, 7) == 0
    async with running(tmp_path) as broker:
        broker.follower.stale = True  # the image, which is that of the start, says 5, and the barrier in the log 7
        assert await internal_produce(broker, 6) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await internal_produce(broker, 5, base_offset=1) == ErrorCode.NOT_COORDINATOR
        assert (await fence(broker, 5)).error_code == ErrorCode.NOT_COORDINATOR
        assert broker.broker.lookups.count == 1  # a thread has read the log
        assert (await fence(broker, 6)).error_code == ErrorCode.NOT_COORDINATOR
        assert await internal_produce(broker, 6) == ErrorCode.NOT_COORDINATOR
        assert (await fence(broker, 7)).barrier_offset == 3
        assert await internal_produce(broker, 7) == 0
        assert broker.broker.lookups.count == 1


@pytest.mark.parametrize(
    ("failed", "code"), [(False, ErrorCode.NOT_LEADER_OR_FOLLOWER), (True, ErrorCode.KAFKA_STORAGE_ERROR)]
)
async def test_a_search_for_the_last_barrier_that_says_nothing_lets_no_older_owner_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool, code: ErrorCode
) -> None:
    async with running(tmp_path) as broker:
        give_shard(broker, 7)
        assert (await fence(broker, 7)).barrier_offset == 0
    async with running(tmp_path) as broker:
        broker.follower.stale = True
        find = broker.broker.lookups.find

        async def found_by_another_leader(search: Any) -> Any:
            found = await find(search)
            if failed:
                raise OSError
            topic = broker.follower.image.topics["__consumer_offsets"]
            (shard,) = topic.partitions
            led = replace(topic, partitions=(replace(shard, leader_epoch=shard.leader_epoch + 1),))
            broker.follower.move(topics={**broker.follower.image.topics, topic.name: led})
            return found

        monkeypatch.setattr(broker.broker.lookups, "find", found_by_another_leader)
        assert (await fence(broker, 5)).error_code == code
        monkeypatch.undo()
        assert (await fence(broker, 5)).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_shards_append_lands_only_where_its_owner_believes_the_log_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        give_shard(broker, 7)
        assert (await fence(broker, 7)).barrier_offset == 0
        assert await internal_produce(broker, 7, base_offset=1) == 0
        assert await internal_produce(broker, 7, base_offset=1) == ErrorCode.NOT_COORDINATOR
        assert await internal_produce(broker, 7, base_offset=3) == ErrorCode.NOT_COORDINATOR
        assert await internal_produce(broker, 7, base_offset=2) == 0


async def test_a_fetch_waits_for_data_and_is_woken_by_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        waiting = asyncio.create_task(broker.fetch(0, 0, max_wait_ms=60_000))
        await broker.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        other = broker.again()
        await other.produce(0, batch(b"news"))
        assert values((await waiting).records) == [b"news"]
        await other.client.close()
        assert broker.broker.wakeups.purgatory.count(DelayedFetch) == 0


async def test_a_fetch_below_min_bytes_is_an_empty_success_at_its_timeout(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        row = await broker.fetch(0, 0, max_wait_ms=30, min_bytes=1)
        assert (row.error_code, bytes(row.records or b"")) == (0, b"")


@pytest.mark.parametrize("offset", [-1, 3, 10**12])
async def test_an_offset_outside_the_log_is_out_of_range_at_once(tmp_path: Path, offset: int) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a", b"b"))
        row = await broker.fetch(0, offset, max_wait_ms=60_000)
        assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_mid_batch_offset_returns_the_whole_batch_and_one_batch_passes_any_limit(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a", b"b", b"c"), batch(b"d"))
        row = await broker.fetch(0, 1, max_bytes=1, partition_max_bytes=1)
        assert values(row.records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("epoch", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (3, 0), (4, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, 0)]
)
async def test_a_clients_leader_epoch_is_checked(tmp_path: Path, epoch: int, code: int) -> None:
    async with running(tmp_path) as broker:
        request = broker.fetch_request(0, 0)
        request.topics[0].partitions[0].current_leader_epoch = epoch
        answer = await broker.client.ask(request, timeout_ms=60_000, version=12)
        assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(("last_epoch", "code"), [(3, 0), (2, 0), (4, ErrorCode.OFFSET_OUT_OF_RANGE)])
async def test_who_read_in_an_epoch_that_nobody_knows_does_not_go_on(
    tmp_path: Path, last_epoch: int, code: int
) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        request = broker.fetch_request(0, 0)
        request.topics[0].partitions[0].last_fetched_epoch = last_epoch
        answer = await broker.client.ask(request, timeout_ms=60_000, version=12)
        assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(("whole", "partition"), [(-1, 100), (100, -1), (-(2**31), 100)])
@pytest.mark.parametrize("version", [4, 12, 13])
async def test_a_fetch_of_a_negative_size_is_refused_as_kafka_refuses_it(
    tmp_path: Path, version: int, whole: int, partition: int
) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        for _ in range(2):
            row = await broker.fetch(0, 0, version=version, max_bytes=whole, partition_max_bytes=partition)
            assert (row.error_code, row.high_watermark) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        assert values((await broker.fetch(0, 0, version=version, max_bytes=0)).records) == [b"a"]


async def test_an_incremental_fetch_names_only_what_has_news(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        request = broker.fetch_request(0, 0, session_id=0, session_epoch=0)
        want = FetchRequest.FetchTopic.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
        request.topics[0].partitions.append(want)
        full = await broker.client.ask(request, timeout_ms=60_000, version=12)
        assert len(full.responses[0].partitions) == 2
        await broker.produce(1, batch(b"x"))

        def again(epoch: int) -> FetchRequest:
            return FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                session_id=full.session_id,
                session_epoch=epoch,
                topics=[],
            )

        news = await broker.client.ask(again(1), timeout_ms=60_000, version=12)
        assert [p.partition_index for t in news.responses for p in t.partitions] == [1]
        wrong = await broker.client.ask(again(9), timeout_ms=60_000, version=12)
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def list_offset(broker: Running, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=-1
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[row])]
    )
    answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


async def test_offsets_are_found_by_time_and_at_both_ends(tmp_path: Path) -> None:
    start = 1_700_000_000_000
    async with running(tmp_path) as broker:
        for i in range(5):
            await broker.produce(0, batch(b"%d" % i, timestamp=start + i * 100))
        assert await list_offset(broker, -2) == (0, 0, -1)
        assert await list_offset(broker, -1) == (0, 5, -1)
        assert await list_offset(broker, -3) == (0, 4, start + 400)
        assert await list_offset(broker, -4) == (0, 0, -1)
        assert await list_offset(broker, -5) == (0, -1, -1)
        assert await list_offset(broker, start + 150) == (0, 2, start + 200)
        assert await list_offset(broker, start + 10_000) == (0, -1, -1)
        assert (await list_offset(broker, -3, version=6))[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [1, 7, 11])
@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
async def test_a_negative_time_that_is_none_of_kafkas_is_refused(tmp_path: Path, timestamp: int, version: int) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        assert await list_offset(broker, timestamp, version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


@pytest.mark.parametrize("timestamps", [(-1, -1), (-1, -3), (-2, 100), (-2, 1_700_000_000_000)])
@pytest.mark.parametrize("version", [1, 7, 11])
async def test_a_partition_that_is_asked_for_twice_is_refused_once_and_its_neighbours_are_not(
    tmp_path: Path, version: int, timestamps: tuple[int, int]
) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        one = ListOffsetsRequest.ListOffsetsTopic
        asked = ((0, timestamps[0]), (1, -1), (0, timestamps[1]))
        rows = [
            one.ListOffsetsPartition(partition_index=index, timestamp=time, current_leader_epoch=-1)
            for index, time in asked
        ]
        for topics in ([one(name="t", partitions=rows)], [one(name="t", partitions=[row]) for row in rows]):
            request = ListOffsetsRequest(replica_id=-1, topics=topics)
            answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
            (told,) = answer.topics
            found = [(row.partition_index, row.error_code, row.offset) for row in told.partitions]
            assert found == [(0, ErrorCode.INVALID_REQUEST, -1), (1, 0, 0)]
        several = [one(name="t", partitions=[row]) for row in rows[:2]]
        answer = await broker.client.ask(
            ListOffsetsRequest(replica_id=-1, topics=several), timeout_ms=5000, version=version
        )
        assert [[row.partition_index for row in told.partitions] for told in answer.topics] == [[0, 1]]


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (-2, ErrorCode.FENCED_LEADER_EPOCH), (3, 0)])
async def test_of_negative_epochs_only_one_says_nothing(tmp_path: Path, epoch: int, code: int) -> None:
    async with running(tmp_path) as broker:
        one, other = ListOffsetsRequest.ListOffsetsTopic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        ends = one.ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        epochs = other.OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=3)
        for request in (
            ListOffsetsRequest(replica_id=-1, topics=[one(name="t", partitions=[ends])]),
            OffsetForLeaderEpochRequest(replica_id=-1, topics=[other(topic="t", partitions=[epochs])]),
        ):
            answer = await broker.client.ask(request, timeout_ms=60_000)
            assert answer.topics[0].partitions[0].error_code == code


async def test_the_beginning_of_an_empty_log_has_the_leaders_epoch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        one = ListOffsetsRequest.ListOffsetsTopic
        row = one.ListOffsetsPartition(partition_index=0, timestamp=-2, current_leader_epoch=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[one(name="t", partitions=[row])])
        found = (await broker.client.ask(request, timeout_ms=60_000)).topics[0].partitions[0]
        assert (found.error_code, found.offset, found.leader_epoch) == (0, 0, 3)


async def test_an_end_that_is_asked_right_behind_a_record_counts_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for number in range(1, 20):
            written, end = await asyncio.gather(broker.produce(0, batch(b"a")), list_offset(broker, -1))
            assert (written.base_offset, end) == (number - 1, (0, number, -1))


@pytest.mark.parametrize(
    ("offset", "code", "low"),
    [(1, 0, 1), (-1, 0, 3), (3, 0, 3), (4, ErrorCode.OFFSET_OUT_OF_RANGE, -1), (-2, ErrorCode.OFFSET_OUT_OF_RANGE, -1)],
)
async def test_records_are_deleted_up_to_the_high_watermark(tmp_path: Path, offset: int, code: int, low: int) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"), batch(b"b"), batch(b"c"))
        topic_row = DeleteRecordsRequest.DeleteRecordsTopic
        row = topic_row.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[topic_row(name="t", partitions=[row])], timeout_ms=1000)
        answer = await broker.client.ask(request, timeout_ms=60_000)
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.low_watermark) == (code, low)
        if not code:
            assert (await list_offset(broker, -2))[1] == low


async def test_of_two_places_to_delete_to_the_last_one_counts(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"), batch(b"b"), batch(b"c"))
        one = DeleteRecordsRequest.DeleteRecordsTopic
        rows = [one.DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (3, 9, 1)]
        request = DeleteRecordsRequest(topics=[one(name="t", partitions=rows)], timeout_ms=1000)
        (found,) = (await broker.client.ask(request, timeout_ms=60_000)).topics[0].partitions
        assert (found.error_code, found.low_watermark) == (0, 1)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("delete", 0),
        ("compact,delete", 0),
        ("", 0),  # nothing is cleaned, which keeps nobody from it
        ("compact", ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_the_cleanup_policy_says_whether_records_may_be_deleted(tmp_path: Path, policy: str, code: int) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": policy})) as broker:
        topic_row = DeleteRecordsRequest.DeleteRecordsTopic
        row = topic_row.DeleteRecordsPartition(partition_index=0, offset=0)
        request = DeleteRecordsRequest(topics=[topic_row(name="t", partitions=[row])], timeout_ms=1000)
        answer = await broker.client.ask(request, timeout_ms=60_000)
        assert answer.topics[0].partitions[0].error_code == code


async def test_the_end_of_a_leader_epoch_is_told(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"), batch(b"b"))
        one = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        row = one.OffsetForLeaderPartition(partition=0, current_leader_epoch=3, leader_epoch=3)
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[one(topic="t", partitions=[row])])
        found = (await broker.client.ask(request, timeout_ms=60_000)).topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 3, 2)


async def test_log_dirs_have_sizes_and_room(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a" * 500))
        (found,) = (await broker.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results
        sizes = {(t.name, p.partition_index): p.partition_size for t in found.topics for p in t.partitions}
        assert sizes["t", 0] > 500
        assert found.total_bytes > found.usable_bytes > 0


async def test_every_config_of_the_broker_is_described(tmp_path: Path) -> None:
    async with running(tmp_path, num_partitions="7") as broker:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        request = DescribeConfigsRequest(
            resources=[resource(resource_type=4, resource_name="0", configuration_keys=None)], include_synonyms=True
        )
        (found,) = (await broker.service.ask(request, timeout_ms=60_000)).results
        entries = {entry.name: entry for entry in found.configs}
        assert len(entries) > 200
        assert (entries["num.partitions"].value, entries["num.partitions"].config_source) == ("7", 4)
        request.resources[0].configuration_keys = []
        (again,) = (await broker.service.ask(request, timeout_ms=60_000)).results
        assert len(again.configs) == len(entries)
        request.resources[0].resource_name = "5"
        assert (await broker.service.ask(request, timeout_ms=60_000)).results[0].error_code == ErrorCode.INVALID_REQUEST
        request.resources[0].resource_name = "9" * 5000  # more digits than Python makes a number of
        assert (await broker.service.ask(request, timeout_ms=60_000)).results[0].error_code == ErrorCode.INVALID_REQUEST


async def test_producer_ids_are_refused_retriably_while_no_controller_gives_a_block(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        answer = await broker.client.ask(request, timeout_ms=60_000)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-2, -1), (-1, 0), (-1, 32767)])
async def test_half_of_a_producer_id_is_refused(tmp_path: Path, producer_id: int, producer_epoch: int) -> None:
    async with running(tmp_path) as broker:
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=1,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        assert (await broker.client.ask(request, timeout_ms=60_000)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_deleted_topic_wakes_its_fetches_and_loses_its_data(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        waiting = asyncio.create_task(broker.fetch(0, 1, max_wait_ms=60_000))
        await broker.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        broker.follower.move(topics={}, topic_names={})
        assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        new = topic("t", TOPIC_ID.__class__(int=99), 0)
        broker.follower.move(topics={"t": new}, topic_names={new.topic_id: "t"})
        assert (await broker.fetch(0, 0)).high_watermark == 0


async def test_acknowledged_records_survive_an_unclean_end(tmp_path: Path) -> None:
    class PowerCut(Exception):
        pass

    with pytest.raises(PowerCut):
        async with running(tmp_path) as broker:
            await broker.produce(0, batch(b"a"), batch(b"b"))
            raise PowerCut
    async with running(tmp_path) as broker:
        assert values((await broker.fetch(0, 0)).records) == [b"a", b"b"]


async def test_what_goes_in_and_out_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a", b"b"), batch(b"c"))
        await broker.produce(9, batch(b"d"))
        await broker.fetch(0, 0)
        metrics = broker.broker.metrics
        size = len(batch(b"a", b"b")) + len(batch(b"c"))
        assert (metrics.messages_in, metrics.bytes_in, metrics.bytes_out) == (3, size, size)
        assert metrics.failed_produce_requests == 1
        names = {sample.name for metric in metrics.collect() for sample in metric.samples}
        assert {"tailrace_bytes_in_total", "tailrace_messages_in_total"} <= names


async def test_a_disk_that_cannot_be_read_is_a_storage_error_of_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"a"))
        monkeypatch.setattr(RealFile, "pread_cached", fail)
        assert (await broker.fetch(0, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_changed_topic_config_holds_for_the_next_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert (await broker.produce(0, batch(b"x" * 3000))).error_code == 0
        broker.follower.move(configs={(2, "t"): {"max.message.bytes": "1000"}})
        assert (await broker.produce(0, batch(b"x" * 3000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        broker.follower.move(configs={(4, ""): {"message.max.bytes": "5000"}})
        assert (await broker.produce(0, batch(b"x" * 3000))).error_code == 0
        assert (await broker.produce(0, batch(b"x" * 6000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
