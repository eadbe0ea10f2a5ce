"""What a throttled client sees (KIP-219): whole answers in order, and heartbeats in time: it stays in its group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient

from integration.quota.load import CLOCK, alter_quotas, until_led
from support.batches import Batch, record
from support.waiting import HUNG_S
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.codec import decode_response, encode_request, response_body, response_correlation_id
from tailrace.wire.messages import (
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
    ProduceRequest,
    SyncGroupRequest,
)

SESSION_MS = 6000
LONGEST_MS = SESSION_MS // 3
TIMEOUT_MS = 30_000
NOT_YET = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
TOPIC = "measured"
SMALL_BATCH = Batch(records=[record(0, bytes(2000))]).encode()
BATCH = Batch(records=[record(0, bytes(100_000))]).encode()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"quota.max.throttle.ms": str(LONGEST_MS), "group.initial.rebalance.delay.ms": "0"}
    with Cluster(port=0, settings=settings) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        try:
            admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}})
        finally:
            admin.close()
        until_led(Address.parse(running.bootstrap), TOPIC)
        yield running


async def joined(client: Client, group: str) -> tuple[str, int]:
    """Member id and generation of the only member."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    find = FindCoordinatorRequest(key=group, key_type=0)  # makes the topic of the groups
    while True:
        found = await client.ask(find, timeout_ms=TIMEOUT_MS, version=2)
        answer = await client.ask(request, timeout_ms=TIMEOUT_MS, version=3)
        if not found.error_code and answer.error_code not in NOT_YET:
            break
        await CLOCK.sleep(100)
    assert answer.error_code == 0
    given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"")
    sync = SyncGroupRequest(
        group_id=group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=[given]
    )
    assert (await client.ask(sync, timeout_ms=TIMEOUT_MS, version=2)).error_code == 0
    return answer.member_id, answer.generation_id


async def test_heartbeats_on_the_connection_of_a_throttled_producer_keep_its_member(cluster: Cluster) -> None:
    address = Address.parse(cluster.bootstrap)
    await alter_quotas(address, {"client-id": "member"}, producer_byte_rate=100.0)
    data = ProduceRequest.TopicProduceData
    rows = [data.PartitionProduceData(index=0, records=BATCH)]
    produce = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[data(name=TOPIC, partition_data=rows)])
    client = Client(address, "member")
    try:
        member_id, generation_id = await joined(client, "throttled")
        heartbeat = HeartbeatRequest(group_id="throttled", generation_id=generation_id, member_id=member_id)
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < 1.5 * SESSION_MS / 1000:
            answer = await client.ask(produce, timeout_ms=TIMEOUT_MS, version=9)
            assert answer.throttle_time_ms == LONGEST_MS
            assert (await client.ask(heartbeat, timeout_ms=TIMEOUT_MS, version=3)).error_code == 0
    finally:
        await client.close()


def test_a_throttled_consumer_keeps_its_partitions(cluster: Cluster) -> None:
    address = Address.parse(cluster.bootstrap)
    asyncio.run(alter_quotas(address, {"client-id": "reader"}, consumer_byte_rate=10_000.0))
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1}
    )  # a Fetch brings a whole batch
    for _ in range(20):
        producer.produce(TOPIC, bytes(100_000))
    assert producer.flush(HUNG_S) == 0
    revoked: list[object] = []
    assigned: list[object] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": "reader",
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
        }
    )
    consumer.subscribe(
        [TOPIC],
        on_assign=lambda _, partitions: assigned.extend(partitions),
        on_revoke=lambda _, partitions: revoked.extend(partitions),
        on_lost=lambda _, partitions: revoked.extend(partitions),
    )
    read = 0
    begun_s = time.monotonic()
    while not read or time.monotonic() - begun_s < 1.5 * SESSION_MS / 1000:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            read += 1
    assert assigned and not revoked
    assert read < 20  # it was throttled
    consumer.close()


async def test_throttled_answers_list_their_topics_and_keep_their_order(cluster: Cluster) -> None:
    address = Address.parse(cluster.bootstrap)
    await alter_quotas(address, {"client-id": "pipelined"}, producer_byte_rate=10_000.0, consumer_byte_rate=10_000.0)
    produce_topic, fetch_topic = ProduceRequest.TopicProduceData, FetchRequest.FetchTopic
    row = produce_topic.PartitionProduceData(index=0, records=SMALL_BATCH)
    produce = ProduceRequest(
        acks=1, timeout_ms=TIMEOUT_MS, topic_data=[produce_topic(name=TOPIC, partition_data=[row])]
    )
    wanted = fetch_topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[fetch_topic(topic=TOPIC, partitions=[wanted])]
    )
    asked: list[tuple[Any, int]] = [(produce, 9), (fetch, 12), (MetadataRequest(topics=[]), 9)] * 3
    first = Client(address, "pipelined")
    while not (await first.ask(produce, timeout_ms=TIMEOUT_MS, version=9)).throttle_time_ms:
        pass  # until the broker has heard of the quota
    await first.close()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        for number, (request, version) in enumerate(asked):
            writer.write(encode_request(request, version, number, "pipelined"))
        throttled = 0
        for number, (request, version) in enumerate(asked):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert response_correlation_id(frame) == number
            body = response_body(request.API_KEY, version, frame)
            answer = decode_response(request.API_KEY, version, body)
            if request is not asked[2][0]:
                assert [topic.name if request is produce else topic.topic for topic in answer.responses] == [TOPIC]
                throttled += answer.throttle_time_ms > 0
        assert throttled == 6
    finally:
        writer.close()
