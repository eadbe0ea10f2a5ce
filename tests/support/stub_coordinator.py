"""A transaction coordinator as a broker meets it, which a test answers for; and Produce requests of transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from support.broker import OFFSETS_ID, TOPIC_ID, Running, image, running, topic
from tailrace.metadata.image import MetadataImage, ServiceImage, ShardImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.dispatch import Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.members.endpoints import unix_name
from tailrace.net.server import serve
from tailrace.records.record import Record, build
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import (
    AddPartitionsToTxnResponse,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
    ProduceRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

STATE_ID = UUID(int=8)
ID = "id"
_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = _Result.AddPartitionsToTxnTopicResult
_Row = _Topic.AddPartitionsToTxnPartitionResult
_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Written = WriteTxnMarkersResponse.WritableTxnMarkerResult


class StubCoordinator:
    """Answers what `codes` says, by (transactional id, topic, partition), at once or when the gate is opened."""

    def __init__(self) -> None:
        self.codes: dict[tuple[str, str, int], list[int]] = {}  # those of the next answers, then 0
        self.whole = 0  # of the next answers
        self.asked: list[tuple[str, int, int, bool, list[tuple[str, int]]]] = []
        self.markers: list[Any] = []
        self.transactions: dict[int, tuple[str, list[tuple[str, int]]]] = {}  # state and partitions, by producer id
        self.described_code = 0  # in place of each transaction
        self.on_listed: Callable[[], Any] = lambda: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.came = asyncio.Event()

    async def add_partitions(self, request: Any, context: Any, role: Any) -> Any:
        for one in request.transactions:
            places = [(row.name, index) for row in one.topics for index in row.partitions]
            self.asked.append((one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only, places))
        self.came.set()
        await self.gate.wait()
        if self.whole:
            return AddPartitionsToTxnResponse(error_code=self.whole, results_by_transaction=[])
        return AddPartitionsToTxnResponse(
            error_code=0,
            results_by_transaction=[
                _Result(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        _Topic(
                            name=row.name,
                            results_by_partition=[
                                _Row(
                                    partition_index=index,
                                    partition_error_code=self._code(one.transactional_id, row.name, index),
                                )
                                for index in row.partitions
                            ],
                        )
                        for row in one.topics
                    ],
                )
                for one in request.transactions
            ],
        )

    def _code(self, transactional_id: str, name: str, index: int) -> int:
        codes = self.codes.get((transactional_id, name, index), [])
        return codes.pop(0) if codes else 0

    async def write_markers(self, request: Any, context: Any, role: Any) -> Any:
        self.markers += request.markers
        await self.gate.wait()
        return WriteTxnMarkersResponse(
            markers=[
                _Written(
                    producer_id=one.producer_id,
                    topics=[
                        _Written.WritableTxnMarkerTopicResult(
                            name=row.name,
                            partitions=[
                                _Written.WritableTxnMarkerTopicResult.WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._code("", row.name, index)
                                )
                                for index in row.partition_indexes
                            ],
                        )
                        for row in one.topics
                    ],
                )
                for one in request.markers
            ]
        )

    async def list_transactions(self, request: Any, context: Any, role: Any) -> Any:
        if (awaited := self.on_listed()) is not None:
            await awaited
        row = ListTransactionsResponse.TransactionState
        return ListTransactionsResponse(
            error_code=self.whole,
            unknown_state_filters=[],
            transaction_states=[
                row(transactional_id=str(producer_id), producer_id=producer_id, transaction_state=state)
                for producer_id, (state, _) in self.transactions.items()
                if producer_id in request.producer_id_filters
            ],
        )

    async def describe_transactions(self, request: Any, context: Any, role: Any) -> Any:
        row = DescribeTransactionsResponse.TransactionState
        if self.described_code:
            refused = [row(error_code=self.described_code, transactional_id=name) for name in request.transactional_ids]
            return DescribeTransactionsResponse(transaction_states=refused)
        return DescribeTransactionsResponse(
            transaction_states=[
                row(
                    error_code=0,
                    transactional_id=name,
                    transaction_state=self.transactions[int(name)][0],
                    transaction_timeout_ms=1000,
                    transaction_start_time_ms=0,
                    producer_id=int(name),
                    producer_epoch=0,
                    topics=[
                        row.TopicData(topic=topic, partitions=[index])
                        for topic, index in self.transactions[int(name)][1]
                    ],
                )
                for name in request.transactional_ids
            ]
        )


def transactional_image(path: Path) -> MetadataImage:
    """support.broker's image with `__transaction_state` on another node, and the stub as the owner of all shards."""
    before = image()
    state = topic("__transaction_state", STATE_ID, 1, 1)
    endpoint = Endpoint(unix_name("boot"), str(path / "stub"), 0)
    return replace(
        before,
        topics={**before.topics, state.name: state},
        topic_names={**before.topic_names, STATE_ID: state.name, OFFSETS_ID: "__consumer_offsets"},
        services={("coordinator", 3): ServiceImage("coordinator", 3, 1, UUID(int=1), (endpoint,))},
        shards={
            (name, index): ShardImage(name, index, 3, 5)
            for name, index in (("__transaction_state", 0), ("__transaction_state", 1), ("__consumer_offsets", 0))
        },
    )


@asynccontextmanager
async def with_coordinator(
    path: Path, change: Callable[[MetadataImage], MetadataImage] = lambda image: image, **settings: Any
) -> AsyncIterator[tuple[Running, StubCoordinator]]:
    """A broker as support.broker's running, and the coordinator of all transactions and groups."""
    stub = StubCoordinator()
    service = Service(
        role=stub,
        handlers={
            ApiKey.ADD_PARTITIONS_TO_TXN: stub.add_partitions,
            ApiKey.WRITE_TXN_MARKERS: stub.write_markers,
            ApiKey.LIST_TRANSACTIONS: stub.list_transactions,
            ApiKey.DESCRIBE_TRANSACTIONS: stub.describe_transactions,
        },
        apis=INTERNAL_APIS,
        log=structlog.get_logger(),
        memory=RoleMemory(),
    )
    server = await serve([Address(str(path / "stub"), -1)], service)
    try:
        async with running(path, change(transactional_image(path)), **settings) as broker:
            yield broker, stub
    finally:
        await server.close()


def data(*values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0, transactional: bool = True) -> bytes:
    """A client's batch in a transaction."""
    records = [Record(timestamp=int(time.time() * 1000), key=b"k", value=value) for value in values or (b"v",)]
    return bytes(
        build(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def produce_request(
    batches: dict[int, bytes], *, acks: int = -1, name: str = "t", transactional_id: str | None = ID
) -> ProduceRequest:
    """One batch for each partition."""
    topic_data = ProduceRequest.TopicProduceData
    rows = [topic_data.PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[topic_data(name=name, topic_id=TOPIC_ID, partition_data=rows)],
    )


async def produce(broker: Running, batches: dict[int, bytes] | bytes, *, version: int = 12, **fields: Any) -> Any:
    """The partition's answer for one batch for partition 0, else (error code, base offset) by partition."""
    one = isinstance(batches, bytes)
    request = produce_request({0: batches} if isinstance(batches, bytes) else batches, **fields)
    answer = await broker.client.ask(request, timeout_ms=20_000, version=version)
    rows = answer.responses[0].partition_responses
    return rows[0] if one else {row.index: (row.error_code, row.base_offset) for row in rows}


def marker(
    producer_id: int = 7,
    epoch: int = 0,
    *,
    commit: bool = True,
    partitions: tuple[int, ...] = (0,),
    name: str = "t",
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Any:
    """A row of WriteTxnMarkers."""
    topics = [_Marker.WritableTxnMarkerTopic(name=name, partition_indexes=list(partitions))]
    return _Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=topics,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


async def write_markers(broker: Running, *markers: Any, version: int = 2) -> list[dict[tuple[str, int], int]]:
    """The error codes of each marker, by topic and partition."""
    answer = await broker.service.ask(WriteTxnMarkersRequest(markers=list(markers)), timeout_ms=20_000, version=version)
    return [
        {(row.name, p.partition_index): p.error_code for row in one.topics for p in row.partitions}
        for one in answer.markers
    ]
