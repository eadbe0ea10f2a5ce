"""A coordinator in memory whose transactions' markers go to a broker that a test plays."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

from support.coordinator import TOPIC_ID, Stage, image
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.wire import messages as m

TRANSACTIONS_ID = UUID(int=20)


def whole(*, transaction_epoch: int = 3, offsets_epoch: int = 1) -> MetadataImage:
    """A partition of each internal topic, both owned by coordinator 0, and topic "t"."""
    base = image(shard_epoch=offsets_epoch)
    topic = TopicImage(TRANSACTION_STATE_TOPIC, TRANSACTIONS_ID, (PartitionImage((0,), (0,), 0, 0, 0),))
    coordinator = replace(base.services["coordinator", 0], endpoints=(Endpoint("INTERNAL", "127.0.0.1", 2),))
    return replace(
        base,
        topics={**base.topics, topic.name: topic},
        topic_names={**base.topic_names, TRANSACTIONS_ID: topic.name},
        services={("coordinator", 0): coordinator},
        shards={**base.shards, (topic.name, 0): ShardImage(topic.name, 0, 0, transaction_epoch)},
        features={"transaction.version": 2},
    )


class Cluster:
    """The coordinator asks itself and a broker, whose answers to markers are `codes`, in order; then NONE."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.stage.peers.answer = self._answer
        self.codes: list[ErrorCode] = []
        self.transactional_id = "id"
        self.own_markers = asyncio.Event()  # those to the coordinator's own shard of groups wait for it
        self.own_markers.set()
        self.markers: list[Any] = []

    async def start(self) -> Cluster:
        await self.stage.become(whole())
        return self

    async def _answer(self, address: Any, request: Any) -> Any:
        if isinstance(request, m.WriteTxnMarkersRequest) and address.port == 1:
            return self._broker(request)
        if isinstance(request, m.WriteTxnMarkersRequest):
            await self.own_markers.wait()
        version = 2 if isinstance(request, m.WriteTxnMarkersRequest) else 5
        return await self.stage.ask(request, version)

    def _broker(self, request: Any) -> Any:
        self.markers += request.markers
        row = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic = row.WritableTxnMarkerTopicResult
        partition = topic.WritableTxnMarkerPartitionResult
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        return m.WriteTxnMarkersResponse(
            markers=[
                row(
                    producer_id=marker.producer_id,
                    topics=[
                        topic(name=t.name, partitions=[partition(partition_index=0, error_code=code)])
                        for t in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    async def init(self, version: int = 5, **changed: Any) -> Any:
        fields: dict[str, Any] = dict(transactional_id=self.transactional_id, transaction_timeout_ms=1000)
        request = m.InitProducerIdRequest(**{**fields, "producer_id": -1, "producer_epoch": -1, **changed})
        return await self.stage.answered(self.stage.ask(request, version))

    async def add_offsets(self, producer: Any, version: int = 3) -> int:
        request = m.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id="g",
        )
        code: int = (await self.stage.answered(self.stage.ask(request, version))).error_code
        return code

    async def add(self, producer: Any, topic: str = "t", version: int = 3) -> int:
        row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[row(name=topic, partitions=[0])],
        )
        answer = await self.stage.answered(self.stage.ask(request, version))
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    async def add_for_leader(self, producer: Any, topic: str = "t", *, verify_only: bool = False) -> int:
        """AddPartitionsToTxn as a partition's leader asks it (KIP-890)."""
        row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        transaction = row(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=verify_only,
            topics=[row.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        request = m.AddPartitionsToTxnRequest(transactions=[transaction])
        answer = await self.stage.answered(self.stage.ask(request, 5))
        code: int = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
        return code

    async def commit(self, producer: Any, offset: int, version: int = 3, topic_id: UUID = TOPIC_ID) -> int:
        topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        row = topic.TxnOffsetCommitRequestPartition
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[topic(name="t", topic_id=topic_id, partitions=[row(partition_index=0, committed_offset=offset)])],
        )
        answer = await self.stage.answered(self.stage.ask(request, version))
        assert (answer.topics[0].name, answer.topics[0].topic_id) == ("t", topic_id)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def end(self, producer: Any, committed: bool, version: int = 3) -> Any:
        request = m.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )
        return await self.stage.answered(self.stage.ask(request, version))

    async def fetched(self, *, require_stable: bool = False) -> tuple[int, int]:
        """(offset, error code) of t-0 in group g."""
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [group.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = m.OffsetFetchRequest(groups=[group(group_id="g", topics=topics)], require_stable=require_stable)
        answer = await self.stage.answered(self.stage.ask(request, 9))
        found = answer.groups[0].topics[0].partitions[0]
        return found.committed_offset, found.error_code

    async def described(self) -> Any:
        request = m.DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return (await self.stage.answered(self.stage.ask(request, 0))).transaction_states[0]

    async def state(self) -> str:
        state: str = (await self.described()).transaction_state
        return state
