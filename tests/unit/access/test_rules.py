"""Each API asks for the rights that Apache Kafka asks for, and what is refused is not handled.

authorizations.tsv is Kafka's documented table of operations and resources on protocols, of the APIs that are served,
with what its code asks for besides. Produce, Fetch and Metadata have the rest of their tests beside their handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
import structlog

from support.authorizers import Asked, Recorder, expected, table
from support.sessions import Holder
from tailrace.access.resources import CLUSTER_NAME
from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.net.dispatch import Service, answer
from tailrace.net.identity import Identity
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.session import ClientSession
from tailrace.wire import messages as m
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.library import struct_of
from tailrace_gateway.relay.routes import ROUTES

TOPIC_ID = UUID(int=7)
BY_THEMSELVES = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA}
FAILED = {
    "TOPIC": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "GROUP": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "CLUSTER": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "TRANSACTIONAL_ID": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@dataclass
class Connection:
    session: ClientSession

    def close(self) -> None: ...

    def give_way(self, why: str) -> None: ...


def configs(request: Any, row: Any) -> Any:
    return request(
        resources=[row(resource_type=kind, resource_name=name) for kind, name in ((2, "t"), (4, "0"), (32, "g"))]
    )


def topics(row: Any, *names: str, **fields: Any) -> list[Any]:
    return [row(name=name, **fields) for name in names or ("t",)]


_LIST = m.ListOffsetsRequest.ListOffsetsTopic
_FIND = m.FindCoordinatorRequest
_DELETE = m.DeleteTopicsRequest.DeleteTopicState
_CREATE = m.CreateTopicsRequest.CreatableTopic
_COMMIT = m.OffsetCommitRequest.OffsetCommitRequestTopic
_TXN_COMMIT = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_FETCH_GROUP = m.OffsetFetchRequest.OffsetFetchRequestGroup
_FETCH_TOPIC = _FETCH_GROUP.OffsetFetchRequestTopics
_ADD = m.AddPartitionsToTxnRequest
_DELETION = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
_ADDED = _ADD.AddPartitionsToTxnTopic


def add_partitions(*names: str) -> Any:
    return _ADD(v3_and_below_transactional_id="x", v3_and_below_topics=topics(_ADDED, *names, partitions=[0]))


# For each API its requests, with their versions.
REQUESTS: dict[ApiKey, list[tuple[int, Any]]] = {
    ApiKey.LIST_OFFSETS: [
        (7, m.ListOffsetsRequest(topics=topics(m.ListOffsetsRequest.ListOffsetsTopic, partitions=[])))
    ],
    ApiKey.OFFSET_COMMIT: [(8, m.OffsetCommitRequest(group_id="g", topics=topics(_COMMIT, partitions=[])))],
    ApiKey.OFFSET_FETCH: [
        (
            8,
            m.OffsetFetchRequest(
                groups=[_FETCH_GROUP(group_id="g", topics=topics(_FETCH_TOPIC, partition_indexes=[0]))]
            ),
        )
    ],
    ApiKey.FIND_COORDINATOR: [
        (4, _FIND(key_type=0, coordinator_keys=["g"])),
        (4, _FIND(key_type=1, coordinator_keys=["x"])),
        (3, _FIND(key_type=0, key="g")),
        (3, _FIND(key_type=1, key="x")),
    ],
    ApiKey.JOIN_GROUP: [(9, m.JoinGroupRequest(group_id="g", member_id="", protocols=[]))],
    ApiKey.HEARTBEAT: [(4, m.HeartbeatRequest(group_id="g"))],
    ApiKey.LEAVE_GROUP: [(5, m.LeaveGroupRequest(group_id="g", members=[]))],
    ApiKey.SYNC_GROUP: [(5, m.SyncGroupRequest(group_id="g", assignments=[]))],
    ApiKey.DESCRIBE_GROUPS: [(6, m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True))],
    ApiKey.LIST_GROUPS: [(5, m.ListGroupsRequest(states_filter=[], types_filter=[]))],
    ApiKey.API_VERSIONS: [(4, m.ApiVersionsRequest(client_software_name="n", client_software_version="1"))],
    ApiKey.SASL_HANDSHAKE: [(1, m.SaslHandshakeRequest(mechanism="PLAIN"))],
    ApiKey.SASL_AUTHENTICATE: [(2, m.SaslAuthenticateRequest(auth_bytes=b""))],
    ApiKey.CREATE_TOPICS: [(7, m.CreateTopicsRequest(topics=topics(_CREATE)))],
    ApiKey.DELETE_TOPICS: [
        (6, m.DeleteTopicsRequest(topics=[_DELETE(name="t"), _DELETE(name=None, topic_id=TOPIC_ID)])),
        (5, m.DeleteTopicsRequest(topic_names=["t"])),
    ],
    ApiKey.DELETE_RECORDS: [
        (2, m.DeleteRecordsRequest(topics=topics(m.DeleteRecordsRequest.DeleteRecordsTopic, partitions=[])))
    ],
    ApiKey.INIT_PRODUCER_ID: [
        (5, m.InitProducerIdRequest(transactional_id="x")),
        (5, m.InitProducerIdRequest(transactional_id=None)),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        (
            4,
            m.OffsetForLeaderEpochRequest(
                topics=[m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[])]
            ),
        )
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [(3, add_partitions("t")), (4, _ADD(transactions=[]))],
    ApiKey.ADD_OFFSETS_TO_TXN: [(4, m.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"))],
    ApiKey.END_TXN: [(5, m.EndTxnRequest(transactional_id="x", committed=True))],
    ApiKey.WRITE_TXN_MARKERS: [(1, m.WriteTxnMarkersRequest(markers=[]))],
    ApiKey.TXN_OFFSET_COMMIT: [
        (5, m.TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=topics(_TXN_COMMIT, partitions=[])))
    ],
    ApiKey.DESCRIBE_ACLS: [(3, m.DescribeAclsRequest())],
    ApiKey.CREATE_ACLS: [(3, m.CreateAclsRequest(creations=[]))],
    ApiKey.DELETE_ACLS: [(3, m.DeleteAclsRequest(filters=[]))],
    ApiKey.DESCRIBE_CONFIGS: [(4, configs(m.DescribeConfigsRequest, m.DescribeConfigsRequest.DescribeConfigsResource))],
    ApiKey.ALTER_CONFIGS: [(2, configs(m.AlterConfigsRequest, m.AlterConfigsRequest.AlterConfigsResource))],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [
        (1, configs(m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsRequest.AlterConfigsResource))
    ],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [(2, m.AlterReplicaLogDirsRequest(dirs=[]))],
    ApiKey.DESCRIBE_LOG_DIRS: [(4, m.DescribeLogDirsRequest(topics=None))],
    ApiKey.CREATE_PARTITIONS: [
        (3, m.CreatePartitionsRequest(topics=topics(m.CreatePartitionsRequest.CreatePartitionsTopic, count=2)))
    ],
    ApiKey.DELETE_GROUPS: [(2, m.DeleteGroupsRequest(groups_names=["g"]))],
    ApiKey.ELECT_LEADERS: [(2, m.ElectLeadersRequest(topic_partitions=None))],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [(0, m.AlterPartitionReassignmentsRequest(topics=[]))],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [(0, m.ListPartitionReassignmentsRequest(topics=None))],
    ApiKey.OFFSET_DELETE: [
        (
            0,
            m.OffsetDeleteRequest(
                group_id="g", topics=topics(m.OffsetDeleteRequest.OffsetDeleteRequestTopic, partitions=[])
            ),
        )
    ],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [(1, m.DescribeClientQuotasRequest(components=[]))],
    ApiKey.ALTER_CLIENT_QUOTAS: [(1, m.AlterClientQuotasRequest(entries=[]))],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [(0, m.DescribeUserScramCredentialsRequest(users=None))],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        (0, m.AlterUserScramCredentialsRequest(deletions=[_DELETION(name="u", mechanism=1)], upsertions=[]))
    ],
    ApiKey.DESCRIBE_QUORUM: [(2, m.DescribeQuorumRequest(topics=[]))],
    ApiKey.UPDATE_FEATURES: [(2, m.UpdateFeaturesRequest(feature_updates=[]))],
    ApiKey.DESCRIBE_CLUSTER: [(2, m.DescribeClusterRequest(include_cluster_authorized_operations=True))],
    ApiKey.DESCRIBE_PRODUCERS: [
        (0, m.DescribeProducersRequest(topics=topics(m.DescribeProducersRequest.TopicRequest, partition_indexes=[0])))
    ],
    ApiKey.UNREGISTER_BROKER: [(0, m.UnregisterBrokerRequest(broker_id=1))],
    ApiKey.DESCRIBE_TRANSACTIONS: [(0, m.DescribeTransactionsRequest(transactional_ids=["x"]))],
    ApiKey.LIST_TRANSACTIONS: [(2, m.ListTransactionsRequest(state_filters=[], producer_id_filters=[]))],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [
        (1, m.ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=["t"])),
    ],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [
        (1, m.ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True))
    ],
    ApiKey.LIST_CONFIG_RESOURCES: [(1, m.ListConfigResourcesRequest(resource_types=[]))],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
        (0, m.DescribeTopicPartitionsRequest(topics=topics(m.DescribeTopicPartitionsRequest.TopicRequest)))
    ],
}

_STATE = m.DescribeTransactionsResponse.TransactionState
_FOUND = m.OffsetFetchResponse.OffsetFetchResponseGroup
_FOUND_TOPIC = _FOUND.OffsetFetchResponseTopics
_CONSUMERS = m.ConsumerGroupDescribeResponse.DescribedGroup
_MEMBER = _CONSUMERS.Member
_DESCRIBED = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


def found_offsets() -> Any:
    partition = _FOUND_TOPIC.OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, error_code=0)
    return _FOUND(group_id="g", error_code=0, topics=[_FOUND_TOPIC(name="t", partitions=[partition])])


def described_consumers() -> Any:
    assigned = _MEMBER.Assignment(topic_partitions=[_MEMBER.Assignment.TopicPartitions(topic_name="t", partitions=[0])])
    return _CONSUMERS(
        error_code=0, group_id="g", members=[_MEMBER(member_id="m", assignment=assigned, target_assignment=assigned)]
    )


# What a handler answers, where the answer's rows need rights.
ANSWERS: dict[ApiKey, Callable[[], Any]] = {
    ApiKey.OFFSET_FETCH: lambda: m.OffsetFetchResponse(groups=[found_offsets()]),
    ApiKey.DESCRIBE_GROUPS: lambda: m.DescribeGroupsResponse(
        groups=[m.DescribeGroupsResponse.DescribedGroup(group_id="g", error_code=0)]
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda: m.ConsumerGroupDescribeResponse(groups=[described_consumers()]),
    ApiKey.LIST_GROUPS: lambda: m.ListGroupsResponse(
        error_code=0, groups=[m.ListGroupsResponse.ListedGroup(group_id="g")]
    ),
    ApiKey.CREATE_TOPICS: lambda: m.CreateTopicsResponse(
        topics=[m.CreateTopicsResponse.CreatableTopicResult(name="t", error_code=0, configs=[])]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda: m.DescribeTransactionsResponse(
        transaction_states=[
            _STATE(error_code=0, transactional_id="x", topics=[_STATE.TopicData(topic="t", partitions=[0])])
        ]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda: m.ListTransactionsResponse(
        error_code=0,
        unknown_state_filters=[],
        transaction_states=[m.ListTransactionsResponse.TransactionState(transactional_id="x")],
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda: m.DescribeTopicPartitionsResponse(
        topics=[_DESCRIBED(error_code=0, name="t", partitions=[])], next_cursor=None
    ),
}


class World:
    """A service of one API, asked by a client."""

    def __init__(self, grants: Callable[[Asked], bool] | None = None, listener: str = "CLIENT") -> None:
        self.authorizer = Recorder(grants)
        self.handled: list[Any] = []
        identity = Identity(listener=listener)
        self.session = ClientSession(Holder(), RoleMemory(), identity, authorizer=self.authorizer)

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        async def handle(asked: Any, context: Context, role: Any) -> Any:
            self.handled.append(asked)
            return ANSWERS[key]() if key in ANSWERS else APIS[key].response()

        names = {TOPIC_ID: "t"}
        log = structlog.get_logger()
        service = Service(None, {key: handle}, APIS, log, memory=RoleMemory(), topic_name=names.get)
        return await answer(service, request, Context(key, version, 1, "c", Connection(self.session)))


def test_each_api_that_is_served_has_its_rows() -> None:
    assert {row.api for row in table()} == {key.name for key in ROUTES}
    assert REQUESTS.keys() | BY_THEMSELVES == ROUTES.keys()


@pytest.mark.parametrize("key", sorted(REQUESTS), ids=lambda key: key.name)
async def test_an_api_asks_for_the_rights_of_the_table_and_no_other(key: ApiKey) -> None:
    asked = set[Asked]()
    for grants in (lambda one: True, lambda one: False, lambda one: one.resource != "CLUSTER"):
        for version, request in REQUESTS[key]:
            world = World(grants)
            await world.ask(key, version, request)
            asked.update(world.authorizer.asked)
    assert asked == expected(key.name)


READ_WITHOUT = {
    *(ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS),
    *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
}


@pytest.mark.parametrize("key", sorted(REQUESTS), ids=lambda key: key.name)
async def test_without_any_right_nothing_is_handled_but_what_needs_none(key: ApiKey) -> None:
    for version, request in REQUESTS[key]:
        world = World()
        answered = await world.ask(key, version, request)
        if key in READ_WITHOUT:
            assert len(world.handled) == 1 and not getattr(answered, "groups", None)
            assert not getattr(answered, "transaction_states", None)
        else:
            assert world.handled == []


@pytest.mark.parametrize("key", sorted(REQUESTS), ids=lambda key: key.name)
async def test_a_role_of_the_cluster_is_not_asked_for_rights(key: ApiKey) -> None:
    for version, request in REQUESTS[key]:
        world = World(listener="INTERNAL")
        await world.ask(key, version, request)
        assert world.handled == [request] and world.authorizer.asked == []


def codes(response: Any) -> list[int]:
    """Every error code of an answer."""
    found = []
    for name in struct_of(response).fields:
        value = getattr(response, name, None)
        if name.endswith("error_code"):
            found.append(int(value or 0))
        for row in value if isinstance(value, list) else ():
            if hasattr(row, "_struct"):
                found += codes(row)
    return [code for code in found if code]


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        (ApiKey.FIND_COORDINATOR, "GROUP"),
        (ApiKey.JOIN_GROUP, "GROUP"),
        (ApiKey.HEARTBEAT, "GROUP"),
        (ApiKey.OFFSET_FETCH, "GROUP"),
        (ApiKey.DESCRIBE_GROUPS, "GROUP"),
        (ApiKey.DELETE_GROUPS, "GROUP"),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, "GROUP"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, "GROUP"),
        (ApiKey.CREATE_TOPICS, "TOPIC"),
        (ApiKey.DELETE_TOPICS, "TOPIC"),
        (ApiKey.CREATE_PARTITIONS, "TOPIC"),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "TOPIC"),
        (ApiKey.INIT_PRODUCER_ID, "TRANSACTIONAL_ID"),
        (ApiKey.END_TXN, "TRANSACTIONAL_ID"),
        (ApiKey.ADD_OFFSETS_TO_TXN, "TRANSACTIONAL_ID"),
        (ApiKey.DESCRIBE_TRANSACTIONS, "TRANSACTIONAL_ID"),
        (ApiKey.DESCRIBE_ACLS, "CLUSTER"),
        (ApiKey.DESCRIBE_LOG_DIRS, "CLUSTER"),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, "CLUSTER"),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "CLUSTER"),
        (ApiKey.DESCRIBE_QUORUM, "CLUSTER"),
        (ApiKey.UNREGISTER_BROKER, "CLUSTER"),
    ],
)
async def test_a_refusal_has_the_code_of_its_resource(key: ApiKey, resource: str) -> None:
    version, request = REQUESTS[key][0]
    assert set(codes(await World().ask(key, version, request))) == {FAILED[resource]}


async def test_rows_that_are_refused_stand_beside_those_that_were_handled() -> None:
    world = World(lambda asked: asked.name != "secret")
    commit = m.OffsetCommitRequest(group_id="g", topics=topics(_COMMIT, "t", "secret", partitions=[]))
    for row in commit.topics:
        row.partitions = [_COMMIT.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    answered = await world.ask(ApiKey.OFFSET_COMMIT, 8, commit)
    assert [row.name for row in world.handled[0].topics] == ["t"]
    assert [(row.name, codes(row)) for row in answered.topics] == [("secret", [FAILED["TOPIC"]])]


async def test_of_a_transaction_all_partitions_are_added_or_none() -> None:
    world = World(lambda asked: asked.name != "secret")
    answered = await world.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add_partitions("t", "secret"))
    assert world.handled == []
    found = {row.name: codes(row) for row in answered.results_by_topic_v3_and_below}
    assert found == {"secret": [FAILED["TOPIC"]], "t": [ErrorCode.OPERATION_NOT_ATTEMPTED]}


@pytest.mark.parametrize(("granted", "told"), [("g", ["g"]), (CLUSTER_NAME, ["g"]), ("h", [])])
async def test_of_all_groups_a_client_is_told_of_its_own(granted: str, told: list[str]) -> None:
    world = World(lambda asked: asked.name == granted)
    answered = await world.ask(ApiKey.LIST_GROUPS, *REQUESTS[ApiKey.LIST_GROUPS][0])
    assert [row.group_id for row in answered.groups] == told


async def test_offsets_of_a_topic_that_is_refused_are_not_told() -> None:
    world = World(lambda asked: asked.resource == "GROUP")
    version, request = REQUESTS[ApiKey.OFFSET_FETCH][0]
    (group,) = (await world.ask(ApiKey.OFFSET_FETCH, version, request)).groups
    (row,) = group.topics[0].partitions
    assert (group.error_code, row.error_code, row.committed_offset) == (0, FAILED["TOPIC"], -1)
    everything = m.OffsetFetchRequest(groups=[_FETCH_GROUP(group_id="g", topics=None)])
    (group,) = (await world.ask(ApiKey.OFFSET_FETCH, version, everything)).groups
    assert group.topics == []


async def test_a_consumer_group_with_a_topic_that_is_refused_is_told_without_its_members() -> None:
    world = World(lambda asked: asked.resource == "GROUP")
    answered = await world.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, *REQUESTS[ApiKey.CONSUMER_GROUP_DESCRIBE][0])
    assert (answered.groups[0].error_code, answered.groups[0].members) == (FAILED["TOPIC"], [])
    answered = await world.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, *REQUESTS[ApiKey.CONSUMER_GROUP_HEARTBEAT][0])
    assert answered.error_code == FAILED["TOPIC"] and len(world.handled) == 1


async def test_authorized_operations_are_those_that_the_client_has() -> None:
    world = World(lambda asked: asked.operation in {"DESCRIBE", "READ"})
    answered = await world.ask(ApiKey.DESCRIBE_GROUPS, *REQUESTS[ApiKey.DESCRIBE_GROUPS][0])
    assert answered.groups[0].authorized_operations == {3, 8}
    assert Asked("DESCRIBE", "CLUSTER", CLUSTER_NAME) not in world.authorizer.asked


async def test_a_service_without_names_of_topics_takes_no_request_by_id() -> None:
    handled = list[Any]()

    async def handle(asked: Any, context: Context, role: Any) -> Any:
        handled.append(asked)
        return m.DeleteTopicsResponse(responses=[])

    key = ApiKey.DELETE_TOPICS
    service = Service(None, {key: handle}, APIS, structlog.get_logger(), memory=RoleMemory())
    session = ClientSession(Holder(), RoleMemory(), Identity(listener="CLIENT"), authorizer=Recorder())
    request = m.DeleteTopicsRequest(topics=[_DELETE(name=None, topic_id=TOPIC_ID)])
    answered = await answer(service, request, Context(key, 6, 1, "c", Connection(session)))
    assert codes(answered) == [ErrorCode.UNKNOWN_SERVER_ERROR] and handled == []


UNNAMED: list[tuple[ApiKey, int, Any]] = [
    (ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=[""])),
    (ApiKey.DESCRIBE_GROUPS, 6, m.DescribeGroupsRequest(groups=[""])),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, m.ConsumerGroupDescribeRequest(group_ids=[""])),
    (ApiKey.FIND_COORDINATOR, 4, _FIND(key_type=0, coordinator_keys=[""])),
    (ApiKey.FIND_COORDINATOR, 3, _FIND(key_type=0, key="")),
    (ApiKey.OFFSET_COMMIT, 8, m.OffsetCommitRequest(group_id="", topics=[])),
    (ApiKey.OFFSET_FETCH, 8, m.OffsetFetchRequest(groups=[_FETCH_GROUP(group_id="", topics=[])])),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, m.DescribeTransactionsRequest(transactional_ids=[""])),
    (ApiKey.INIT_PRODUCER_ID, 5, m.InitProducerIdRequest(transactional_id="")),
    (ApiKey.LIST_OFFSETS, 7, m.ListOffsetsRequest(topics=topics(_LIST, "", partitions=[]))),
    (ApiKey.CREATE_TOPICS, 7, m.CreateTopicsRequest(topics=topics(_CREATE, ""))),
]


@pytest.mark.parametrize(("key", "version", "request_"), UNNAMED, ids=[f"{row[0].name}-{row[1]}" for row in UNNAMED])
async def test_an_empty_name_needs_the_right_to_it(key: ApiKey, version: int, request_: Any) -> None:
    world = World()
    await world.ask(key, version, request_)
    asked = {one for one in world.authorizer.asked if one.resource != "CLUSTER"}
    assert len(asked) == 1 and {one.name for one in asked} == {""} and world.handled == []
