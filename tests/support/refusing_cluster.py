"""A cluster of messages: two brokers (one is away), a topic and a group; it refuses one item of one API if told so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from tailrace.net.address import Address
from tailrace.records.record import Record, build
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.response_errors import ERROR_PLACES

_ID: Final = UUID(int=7)
LOG_DIR: Final = "/data"


class RefusingCluster:
    """Takes the place of net.client.Client's peers; `asked` are the APIs that were asked for, in order."""

    def __init__(self, refused: tuple[int, str] | None = None, code: int = 0) -> None:
        self.asked: list[int] = []
        self._refused = refused
        self._code = code

    def client(self, address: Address, client_id: str, tls: object = None, login: object = None) -> _Client:
        return _Client(self)

    def answer(self, message: Any) -> Any:
        key = message.API_KEY
        self.asked.append(key)
        answer = _ANSWERS[key](message)
        if self._refused is not None and self._refused[0] == key:
            for item in items(answer, self._refused[1]):
                item.error_code = self._code
        return answer


class _Client:
    def __init__(self, cluster: RefusingCluster) -> None:
        self._cluster = cluster

    async def connect(self, timeout_ms: float) -> None:
        pass

    async def ask(self, message: Any, *, timeout_ms: float, version: int | None) -> Any:
        return self._cluster.answer(message)

    async def close(self) -> None:
        pass


def items(answer: Any, place: str) -> Iterator[Any]:
    """The structs at one of an API's ERROR_PLACES."""
    found = [answer]
    for step in place.split(" ") if place else []:
        found = [inner for struct in found for inner in getattr(struct, step.partition(":")[0]) or ()]
    yield from found


def places(key: int) -> Iterator[str]:
    """Where an answer of this cluster can be refused."""
    yield from (place for place in ERROR_PLACES[key] if place in _USED.get(key, ERROR_PLACES[key]))


def _metadata(request: Any) -> Any:
    topic = m.MetadataResponse.MetadataResponseTopic
    row = topic.MetadataResponsePartition
    parts = [
        row(partition_index=index, leader_id=0, leader_epoch=1, replica_nodes=[0], isr_nodes=[0], offline_replicas=[])
        for index in (0, 1)
    ]
    names = ["orders"] if request.topics is None else [asked.name for asked in request.topics]
    brokers = [m.MetadataResponse.MetadataResponseBroker(node_id=0, host="127.0.0.1", port=1, rack=None)]
    return m.MetadataResponse(
        brokers=brokers, topics=[topic(name=name, topic_id=_ID, is_internal=False, partitions=parts) for name in names]
    )


def _partitions(request: Any) -> Any:
    topic = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    row = topic.DescribeTopicPartitionsResponsePartition
    parts = [
        row(
            partition_index=index,
            leader_id=0,
            leader_epoch=1,
            replica_nodes=[0],
            isr_nodes=[0],
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[],
        )
        for index in (0, 1)
    ]
    return m.DescribeTopicPartitionsResponse(
        topics=[topic(name="orders", topic_id=_ID, is_internal=False, partitions=parts)], next_cursor=None
    )


def _brokers(request: Any) -> Any:
    row = m.DescribeClusterResponse.DescribeClusterBroker
    return m.DescribeClusterResponse(
        brokers=[
            row(broker_id=0, host="127.0.0.1", port=1, rack=None, is_fenced=False),
            row(broker_id=1, host="127.0.0.1", port=2, rack=None, is_fenced=True),
        ]
    )


def _offsets(request: Any) -> Any:
    topic = m.ListOffsetsResponse.ListOffsetsTopicResponse
    row = topic.ListOffsetsPartitionResponse
    return m.ListOffsetsResponse(
        topics=[
            topic(
                name=asked.name,
                partitions=[row(partition_index=part.partition_index, offset=5) for part in asked.partitions],
            )
            for asked in request.topics
        ]
    )


def _fetched(request: Any) -> Any:
    topic = m.FetchResponse.FetchableTopicResponse
    row = topic.PartitionData
    return m.FetchResponse(
        error_code=0,
        responses=[
            topic(
                topic=asked.topic,
                partitions=[
                    row(
                        partition_index=part.partition,
                        records=bytes(build([Record(timestamp=1_000, value=b"v")], base_offset=part.fetch_offset)),
                    )
                    for part in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


def _coordinator(request: Any) -> Any:
    row = m.FindCoordinatorResponse.Coordinator
    return m.FindCoordinatorResponse(
        coordinators=[row(key=key, node_id=0, host="127.0.0.1", port=1) for key in request.coordinator_keys]
    )


def _groups(request: Any) -> Any:
    row = m.DescribeGroupsResponse.DescribedGroup
    return m.DescribeGroupsResponse(
        groups=[
            row(group_id=group, group_state="Empty", protocol_type="consumer", members=[]) for group in request.groups
        ]
    )


def _list_groups(request: Any) -> Any:
    row = m.ListGroupsResponse.ListedGroup
    return m.ListGroupsResponse(
        groups=[row(group_id="readers", protocol_type="consumer", group_state="Empty", group_type="classic")]
    )


def _committed(request: Any) -> Any:
    group = m.OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    row = topic.OffsetFetchResponsePartitions
    parts = [row(partition_index=index, committed_offset=3, metadata="") for index in (0, 1)]
    return m.OffsetFetchResponse(
        groups=[
            group(group_id=asked.group_id, topics=[topic(name="orders", partitions=parts)]) for asked in request.groups
        ]
    )


def _commit(request: Any) -> Any:
    topic = m.OffsetCommitResponse.OffsetCommitResponseTopic
    row = topic.OffsetCommitResponsePartition
    return m.OffsetCommitResponse(
        topics=[
            topic(name=asked.name, partitions=[row(partition_index=part.partition_index) for part in asked.partitions])
            for asked in request.topics
        ]
    )


def _configs(request: Any) -> Any:
    result = m.DescribeConfigsResponse.DescribeConfigsResult
    row = result.DescribeConfigsResourceResult
    return m.DescribeConfigsResponse(
        results=[
            result(
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[row(name=key, value="1", config_source=1) for key in asked.configuration_keys or ["k"]],
            )
            for asked in request.resources
        ]
    )


def _alter_configs(request: Any) -> Any:
    row = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return m.IncrementalAlterConfigsResponse(
        responses=[
            row(resource_type=asked.resource_type, resource_name=asked.resource_name) for asked in request.resources
        ]
    )


def _log_dirs(request: Any) -> Any:
    row = m.DescribeLogDirsResponse.DescribeLogDirsResult
    return m.DescribeLogDirsResponse(results=[row(log_dir=LOG_DIR, topics=[], total_bytes=100, usable_bytes=50)])


def _move_log_dirs(request: Any) -> Any:
    topic = m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    row = topic.AlterReplicaLogDirPartitionResult
    return m.AlterReplicaLogDirsResponse(
        results=[
            topic(topic_name=asked.name, partitions=[row(partition_index=index) for index in asked.partitions])
            for directory in request.dirs
            for asked in directory.topics
        ]
    )


def _reassign(request: Any) -> Any:
    topic = m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    row = topic.ReassignablePartitionResponse
    return m.AlterPartitionReassignmentsResponse(
        responses=[
            topic(name=asked.name, partitions=[row(partition_index=part.partition_index) for part in asked.partitions])
            for asked in request.topics
        ]
    )


def _reassignments(request: Any) -> Any:
    topic = m.ListPartitionReassignmentsResponse.OngoingTopicReassignment
    row = topic.OngoingPartitionReassignment
    part = row(partition_index=1, replicas=[0, 1], adding_replicas=[1], removing_replicas=[])
    return m.ListPartitionReassignmentsResponse(topics=[topic(name="orders", partitions=[part])])


def _elect(request: Any) -> Any:
    topic = m.ElectLeadersResponse.ReplicaElectionResult
    row = topic.PartitionResult
    return m.ElectLeadersResponse(
        replica_election_results=[topic(topic="orders", partition_result=[row(partition_id=0)])]
    )


def _open(row: Any) -> Any:
    """A producer with a transaction that was open long before any test."""
    return row.ProducerState(
        producer_id=7,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp=0,
        coordinator_epoch=0,
        current_txn_start_offset=0,
    )


def _transactions(request: Any) -> Any:
    row = m.ListTransactionsResponse.TransactionState
    one = row(transactional_id="billing", producer_id=7, transaction_state="Ongoing")
    return m.ListTransactionsResponse(unknown_state_filters=[], transaction_states=[one])


def _described_transactions(request: Any) -> Any:
    row = m.DescribeTransactionsResponse.TransactionState
    return m.DescribeTransactionsResponse(
        transaction_states=[
            row(
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=0,
                producer_id=7,
                producer_epoch=0,
                topics=[],
            )
            for name in request.transactional_ids
        ]
    )


def _markers(request: Any) -> Any:
    row = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = row.WritableTxnMarkerTopicResult
    part = topic.WritableTxnMarkerPartitionResult
    return m.WriteTxnMarkersResponse(
        markers=[
            row(
                producer_id=marker.producer_id,
                topics=[
                    topic(name=asked.name, partitions=[part(partition_index=i) for i in asked.partition_indexes])
                    for asked in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _features(request: Any) -> Any:
    row = m.UpdateFeaturesResponse.UpdatableFeatureResult
    return m.UpdateFeaturesResponse(results=[row(feature=asked.feature) for asked in request.feature_updates])


def _producers(request: Any) -> Any:
    topic = m.DescribeProducersResponse.TopicResponse
    row = topic.PartitionResponse
    return m.DescribeProducersResponse(
        topics=[
            topic(
                name=asked.name,
                partitions=[
                    row(partition_index=index, active_producers=[_open(row)]) for index in asked.partition_indexes
                ],
            )
            for asked in request.topics
        ]
    )


def _quotas(request: Any) -> Any:
    entry = m.DescribeClientQuotasResponse.EntryData
    if request.strict:
        asked = [entry.EntityData(entity_type=part.entity_type, entity_name=part.match) for part in request.components]
        rate = "connection_creation_rate" if asked[0].entity_type == "ip" else "producer_byte_rate"
        one = entry(entity=asked, values=[entry.ValueData(key=rate, value=1000.0)])
        return m.DescribeClientQuotasResponse(error_code=0, entries=[one])
    rows = [
        entry(
            entity=[entry.EntityData(entity_type="client-id", entity_name=name)],
            values=[entry.ValueData(key="producer_byte_rate", value=1000.0)],
        )
        for name in ("billing", None)
    ]
    return m.DescribeClientQuotasResponse(error_code=0, entries=rows)


def _acls(request: Any) -> Any:
    resource = m.DescribeAclsResponse.DescribeAclsResource
    acl = resource.AclDescription(principal="User:alice", host="*", operation=3, permission_type=3)
    found = resource(resource_type=2, resource_name="orders", pattern_type=3, acls=[acl])
    return m.DescribeAclsResponse(error_code=0, error_message="", resources=[found])


def _create_acls(request: Any) -> Any:
    row = m.CreateAclsResponse.AclCreationResult
    return m.CreateAclsResponse(results=[row(error_code=0, error_message="") for _ in request.creations])


def _delete_acls(request: Any) -> Any:
    row = m.DeleteAclsResponse.DeleteAclsFilterResult
    acl = row.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    rows = [row(error_code=0, error_message=None, matching_acls=[acl]) for _ in request.filters]
    return m.DeleteAclsResponse(filter_results=rows)


def _alter_quotas(request: Any) -> Any:
    row = m.AlterClientQuotasResponse.EntryData
    return m.AlterClientQuotasResponse(
        entries=[
            row(
                error_code=0,
                entity=[
                    row.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _users(request: Any) -> Any:
    row = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    infos = [row.CredentialInfo(mechanism=mechanism, iterations=4096) for mechanism in (1, 2)]
    alice = row(user="alice", error_code=0, error_message="", credential_infos=infos)
    return m.DescribeUserScramCredentialsResponse(error_code=0, error_message="", results=[alice])


def _alter_users(request: Any) -> Any:
    row = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    names = [asked.name for asked in [*request.deletions, *request.upsertions]]
    return m.AlterUserScramCredentialsResponse(results=[row(user=n, error_code=0, error_message=None) for n in names])


_ANSWERS: Final[Mapping[int, Callable[[Any], Any]]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _partitions,
    ApiKey.DESCRIBE_CLUSTER: _brokers,
    ApiKey.LIST_OFFSETS: _offsets,
    ApiKey.FETCH: _fetched,
    ApiKey.FIND_COORDINATOR: _coordinator,
    ApiKey.DESCRIBE_GROUPS: _groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.OFFSET_FETCH: _committed,
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.DESCRIBE_CONFIGS: _configs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _users,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.DESCRIBE_ACLS: _acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _move_log_dirs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.ELECT_LEADERS: _elect,
    ApiKey.DESCRIBE_PRODUCERS: _producers,
    ApiKey.LIST_TRANSACTIONS: _transactions,
    ApiKey.DESCRIBE_TRANSACTIONS: _described_transactions,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.UPDATE_FEATURES: _features,
    ApiKey.API_VERSIONS: lambda request: m.ApiVersionsResponse(
        api_keys=[], supported_features=[], finalized_features=[]
    ),
    ApiKey.INIT_PRODUCER_ID: lambda request: m.InitProducerIdResponse(producer_id=7, producer_epoch=1),
    ApiKey.UNREGISTER_BROKER: lambda request: m.UnregisterBrokerResponse(),
    ApiKey.CREATE_TOPICS: lambda request: m.CreateTopicsResponse(
        topics=[m.CreateTopicsResponse.CreatableTopicResult(name=asked.name) for asked in request.topics]
    ),
    ApiKey.DELETE_TOPICS: lambda request: m.DeleteTopicsResponse(
        responses=[m.DeleteTopicsResponse.DeletableTopicResult(name=asked.name) for asked in request.topics]
    ),
    ApiKey.CREATE_PARTITIONS: lambda request: m.CreatePartitionsResponse(
        results=[m.CreatePartitionsResponse.CreatePartitionsTopicResult(name=asked.name) for asked in request.topics]
    ),
    ApiKey.DELETE_GROUPS: lambda request: m.DeleteGroupsResponse(
        results=[m.DeleteGroupsResponse.DeletableGroupResult(group_id=group) for group in request.groups_names]
    ),
}
# The rest of an API's places are of versions that the commands do not ask in.
_USED: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.METADATA: ("topics:name", "topics:name partitions:partition_index"),
    ApiKey.OFFSET_FETCH: ("groups:group_id", "groups:group_id topics:name partitions:partition_index"),
    ApiKey.FIND_COORDINATOR: ("coordinators:key",),
    ApiKey.FETCH: (),  # of `group lag`, which then shows no age
}
