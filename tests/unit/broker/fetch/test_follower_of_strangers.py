"""Clients that call themselves brokers: a replica id in a request of theirs opens nothing and moves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.broker import TOPIC_ID, Running, batch, image, running
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.wire.messages import FetchRequest, ListOffsetsRequest
from tailrace_broker.partitions.partition import Partition

TOP_ERROR_FROM, TAGGED_FROM = 7, 15


def replicated() -> MetadataImage:
    """Partition 0 of t is led here; brokers 1 and 2, which nobody has started, are in its ISR."""
    before = image()
    topic = before.topics["t"]
    partition = PartitionImage((0, 1, 2), (0, 1, 2), 0, 3, 0)
    topics = {**before.topics, "t": replace(topic, partitions=(partition, *topic.partitions[1:]))}
    return replace(before, topics=topics)


async def led(broker: Running) -> Partition:
    await broker.release()
    partition, code = broker.broker.topics.leading(TOPIC_ID.bytes, 0, by_id=True)
    assert partition is not None
    assert not code
    return partition


@pytest.mark.parametrize("version", range(4, 19))
async def test_a_fetch_with_a_replica_id_is_refused_and_not_believed(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, replicated()) as broker:
        partition = await led(broker)
        assert (await broker.produce(0, batch(b"a"))).error_code == 0
        leading = partition.leading
        assert leading is not None
        before = (leading.isr, leading.maximal_isr, leading.proposed, partition.high_watermark)
        assert partition.high_watermark == 0
        for replica_id in (0, 1, 2, 7, 2**31 - 1):
            for offset in (0, 1):
                request = broker.fetch_request(0, offset)
                if version >= TAGGED_FROM:
                    request.replica_state = FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=1)
                else:
                    request.replica_id = replica_id
                answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
                assert answer.responses == []
                if version >= TOP_ERROR_FROM:
                    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (leading.isr, leading.maximal_isr, leading.proposed, partition.high_watermark) == before
        assert [(r.log_end_offset, r.fetched_ms) for r in leading.replicas.values()] == [(-1, 0.0)] * 2


@pytest.mark.parametrize("version", range(1, 12))
async def test_list_offsets_tells_a_replica_id_no_more_than_a_consumer(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, replicated()) as broker:
        await led(broker)
        assert (await broker.produce(0, batch(b"a"))).error_code == 0
        want = ListOffsetsRequest.ListOffsetsTopic
        answers = []
        for replica_id in (-1, 1):
            row = want.ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = ListOffsetsRequest(replica_id=replica_id, topics=[want(name="t", partitions=[row])])
            answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
            found = answer.topics[0].partitions[0]
            answers.append((found.error_code, found.offset))
        assert answers == [(0, 0), (0, 0)], "the high watermark, not the log end"
