"""Every API that lists what a cluster holds has a bound of bytes, and answers MESSAGE_TOO_LARGE above it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from support.broker import batch, running
from support.coordinator import Stage, image
from support.metadata import after, cluster, topic, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import GROUP_VERSION
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage, TopicImage
from tailrace.metadata.records import ClientQuotaRecord, PartitionChangeRecord, QuotaEntity
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import MOST_ANSWER_BYTES, AnswerBudget
from tailrace.wire import messages as m
from tailrace.wire.apis import APIS, ApiKey
from tailrace_controller.handlers import HANDLERS as CONTROLLER

# (request, version) -> the answer, or the code of a whole one.
Asked: TypeAlias = Callable[[m.ApiMessage, int], Awaitable[Any]]

OF_COORDINATOR: dict[ApiKey, tuple[m.ApiMessage, int]] = {
    ApiKey.LIST_GROUPS: (m.ListGroupsRequest(states_filter=[], types_filter=[]), 5),
    ApiKey.DESCRIBE_GROUPS: (m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=False), 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        m.ConsumerGroupDescribeRequest(group_ids=["h"], include_authorized_operations=False),
        1,
    ),
    ApiKey.OFFSET_FETCH: (m.OffsetFetchRequest(group_id="g", topics=None), 7),
    ApiKey.LIST_TRANSACTIONS: (
        m.ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], duration_filter=-1, transactional_id_pattern=None
        ),
        2,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (m.DescribeTransactionsRequest(transactional_ids=["x"]), 0),
}
_RESOURCE = m.DescribeConfigsRequest.DescribeConfigsResource
OF_CONTROLLER: dict[ApiKey, tuple[m.ApiMessage, int]] = {
    ApiKey.DESCRIBE_CONFIGS: (
        m.DescribeConfigsRequest(
            resources=[_RESOURCE(resource_type=2, resource_name="t", configuration_keys=None)],
            include_synonyms=False,
            include_documentation=False,
        ),
        4,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: (m.ListConfigResourcesRequest(resource_types=[]), 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (m.DescribeClientQuotasRequest(components=[], strict=False), 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (m.ListPartitionReassignmentsRequest(topics=None), 0),
}
_PRODUCERS = m.DescribeProducersRequest.TopicRequest
OF_BROKER: dict[ApiKey, tuple[m.ApiMessage, int]] = {
    ApiKey.DESCRIBE_LOG_DIRS: (m.DescribeLogDirsRequest(topics=None), 5),
    ApiKey.DESCRIBE_PRODUCERS: (
        m.DescribeProducersRequest(topics=[_PRODUCERS(name="t", partition_indexes=[0])]),
        0,
    ),
}
BOUNDED = {**OF_COORDINATOR, **OF_CONTROLLER, **OF_BROKER}
BOUNDED_OTHERWISE = {
    ApiKey.FETCH: "max_bytes",
    ApiKey.METADATA: "the topics that a cluster may have",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "pages",
    ApiKey.DESCRIBE_CLUSTER: "a row for each broker",
    ApiKey.DESCRIBE_QUORUM: "a row for each controller and observer",
    ApiKey.API_VERSIONS: "a row for each API",
    ApiKey.SASL_HANDSHAKE: "the mechanisms that are served",
    ApiKey.SASL_AUTHENTICATE: "a token",
    ApiKey.JOIN_GROUP: "the largest record of a group",
    ApiKey.SYNC_GROUP: "the largest record of a group",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "the partitions of one member",
    ApiKey.DESCRIBE_ACLS: "the ACLs that a cluster may have",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "the users that a cluster may have",
}
# A row of the answer for each row of the request, with what stands there and fields of a fixed size.
ROW_BY_ROW = {
    *(ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT),
    *(ApiKey.LEAVE_GROUP, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS),
    *(ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN),
    *(ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CREATE_ACLS),
    *(ApiKey.DELETE_ACLS, ApiKey.ALTER_CONFIGS, ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.DELETE_GROUPS, ApiKey.ELECT_LEADERS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.OFFSET_DELETE),
    *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.UPDATE_FEATURES),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.UNREGISTER_BROKER,
}


def test_every_api_of_clients_is_in_one_list() -> None:
    assert sorted([*BOUNDED, *BOUNDED_OTHERWISE, *ROW_BY_ROW]) == sorted(APIS)


def codes(answer: Any) -> set[int]:
    """The error codes of an answer that are not NONE: its own, and those of its rows."""
    if isinstance(answer, int):
        return {int(answer)}
    found = {code} if (code := getattr(answer, "error_code", 0)) else set[int]()
    for name in answer.fields:
        rows = getattr(answer, name, None)
        for row in rows if isinstance(rows, list) else ():
            found |= codes(row) if hasattr(row, "fields") else set()
    return found


@asynccontextmanager
async def coordinator(path: Path) -> AsyncIterator[Asked]:
    """With one group that has a member and an offset, and one transactional id."""
    stage = Stage()
    base = image()
    topics = {
        TRANSACTION_STATE_TOPIC: TopicImage(
            TRANSACTION_STATE_TOPIC, UUID(int=8), (PartitionImage((0,), (0,), 0, 0, 0),)
        )
    }
    shards = {(TRANSACTION_STATE_TOPIC, 0): ShardImage(TRANSACTION_STATE_TOPIC, 0, 0, 1)}
    features = {GROUP_VERSION: 1}
    await stage.become(
        replace(base, topics={**base.topics, **topics}, shards={**base.shards, **shards}, features=features)
    )
    row = m.OffsetCommitRequest.OffsetCommitRequestTopic
    offset = row.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    commit = m.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[row(name="t", partitions=[offset])]
    )
    assert not codes(await stage.ask(commit, 9))
    begin = m.InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1_000, producer_id=-1, producer_epoch=-1
    )
    assert not codes(await stage.answered(stage.ask(begin, 4)))
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = m.JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )
    assert not codes(await stage.answered(stage.ask(join, 0)))
    enter = m.ConsumerGroupHeartbeatRequest(
        group_id="h",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert not codes(await stage.answered(stage.ask(enter, 1)))
    try:
        yield stage.ask
    finally:
        await stage.coordinator.close()


@asynccontextmanager
async def controller(path: Path) -> AsyncIterator[Asked]:
    """With one topic whose partition moves, and one quota."""
    moves = PartitionChangeRecord(0, topic_id(1), replicas=(0, 1), adding_replicas=(1,))
    held = after(
        cluster(2),
        *topic("t", 1, [0]),
        moves,
        ClientQuotaRecord((QuotaEntity("user", "u"),), "producer_byte_rate", 1.0),
    )

    class Role:
        def __init__(self) -> None:
            self.controller, self.config = self, Config.load("controller")

        async def read(self, decide: Callable[[MetadataImage], Any]) -> Any:
            return decide(held)

    async def ask(request: m.ApiMessage, version: int) -> Any:
        role: Any = Role()
        try:
            return await CONTROLLER[request.API_KEY](request, Context(request.API_KEY, version, 1, None, role), role)
        except ApiError as refused:
            return refused.code

    yield ask


@asynccontextmanager
async def broker(path: Path) -> AsyncIterator[Asked]:
    """With one producer in one partition."""
    async with running(path) as stage:
        await stage.produce(0, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))

        async def ask(request: m.ApiMessage, version: int) -> Any:
            return await stage.client.ask(request, timeout_ms=60_000)

        yield ask


@pytest.mark.parametrize("key", BOUNDED, ids=lambda key: key.name)
async def test_what_an_answer_has_no_room_for_is_refused(
    key: ApiKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = coordinator if key in OF_COORDINATOR else controller if key in OF_CONTROLLER else broker
    request, version = BOUNDED[key]
    async with opened(tmp_path) as ask:
        assert AnswerBudget().left_bytes == MOST_ANSWER_BYTES
        assert codes(await ask(request, version)) == set()
        monkeypatch.setattr(AnswerBudget.__init__, "__defaults__", (0,))
        assert codes(await ask(request, version)) == {ErrorCode.MESSAGE_TOO_LARGE}
