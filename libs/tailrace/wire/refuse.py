"""The answer that refuses a whole request: the error code in every place where the API carries one.

Kafka's AbstractRequest.getErrorResponse, as a table. An API with one error code at the top needs no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.wire import messages as m
from tailrace.wire.apis import INTERNAL_APIS, ApiKey

_TOPIC_AUTHORIZATION_FAILED = 29


def refuse(request: Any, key: int, version: int, code: int, message: str | None = None) -> Any:
    """A response message for `request` with `code` (and `message` where there is a field) everywhere."""
    build = _TABLE.get(key)
    if build is not None:
        return build(request, version, int(code), message)
    response: Any = INTERNAL_APIS[key].response(error_code=int(code))
    if "error_message" in response.fields:
        response.error_message = message
    return response


def _topics(response: Any, topic: Any, partition: Any, index: str, **others: Any) -> Callable[..., Any]:
    """Builds answers of the shape topics -> partitions -> error_code; `index` names the partition's number.

    others: what every partition has besides; its message is the refusal's where it has one.
    """

    def build(request: Any, version: int, code: int, message: str | None) -> Any:
        topics = []
        texts = {"error_message": message} if "error_message" in partition.fields else {}
        for asked in request.topics or ():
            numbers = asked.partition_indexes if "partition_indexes" in asked.fields else map(_index, asked.partitions)
            partitions = [partition(**{index: number, "error_code": code, **texts, **others}) for number in numbers]
            names = {
                name: getattr(asked, name)
                for name in ("name", "topic", "topic_id")
                if name in topic.fields and name in asked.fields
            }
            topics.append(topic(**names, partitions=partitions))
        return response(topics=topics)

    return build


def _index(partition: Any) -> int:
    for name in ("partition_index", "partition"):
        if name in partition.fields:
            return int(getattr(partition, name))
    raise TypeError(f"{type(partition).__name__} has no partition number")


def _list_offsets(request: m.ListOffsetsRequest, version: int, code: int, message: str | None) -> Any:
    return _topics(
        m.ListOffsetsResponse,
        m.ListOffsetsResponse.ListOffsetsTopicResponse,
        m.ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse,
        "partition_index",
    )(request, version, code, message)


def _offset_fetch(request: m.OffsetFetchRequest, version: int, code: int, message: str | None) -> Any:
    if version >= 8:
        group = m.OffsetFetchResponse.OffsetFetchResponseGroup
        return m.OffsetFetchResponse(
            groups=[group(group_id=asked.group_id, topics=[], error_code=code) for asked in request.groups]
        )
    if version >= 2:
        return m.OffsetFetchResponse(topics=[], error_code=code)
    # Only partitions have a code: without it the group looks like one without offsets, and is read from the start.
    topic = m.OffsetFetchResponse.OffsetFetchResponseTopic
    build = _topics(
        m.OffsetFetchResponse,
        topic,
        topic.OffsetFetchResponsePartition,
        "partition_index",
        committed_offset=-1,
        metadata="",
    )
    return build(request, version, code, message)


def _find_coordinator(
    request: m.FindCoordinatorRequest, version: int, code: int, message: str | None
) -> m.FindCoordinatorResponse:
    if version >= 4:
        one = m.FindCoordinatorResponse.Coordinator
        return m.FindCoordinatorResponse(
            coordinators=[
                one(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message or "")
                for key in request.coordinator_keys
            ]
        )
    return m.FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, host="", port=-1)


def _produce(request: m.ProduceRequest, version: int, code: int, message: str | None) -> m.ProduceResponse:
    topic = m.ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    return m.ProduceResponse(
        responses=[
            topic(
                name=asked.name,
                topic_id=asked.topic_id,
                partition_responses=[
                    partition(
                        index=p.index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=message
                    )
                    for p in asked.partition_data
                ],
            )
            for asked in request.topic_data
        ]
    )


def _create_topics(
    request: m.CreateTopicsRequest, version: int, code: int, message: str | None
) -> m.CreateTopicsResponse:
    one = m.CreateTopicsResponse.CreatableTopicResult
    return m.CreateTopicsResponse(
        topics=[one(name=t.name, error_code=code, error_message=message, configs=[]) for t in request.topics]
    )


def _delete_topics(
    request: m.DeleteTopicsRequest, version: int, code: int, message: str | None
) -> m.DeleteTopicsResponse:
    one = m.DeleteTopicsResponse.DeletableTopicResult
    if version >= 6:
        asked: list[tuple[str | None, Any]] = [(t.name, t.topic_id) for t in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    return m.DeleteTopicsResponse(
        responses=[one(name=n, topic_id=i, error_code=code, error_message=message) for n, i in asked]
    )


def _create_partitions(
    request: m.CreatePartitionsRequest, version: int, code: int, message: str | None
) -> m.CreatePartitionsResponse:
    one = m.CreatePartitionsResponse.CreatePartitionsTopicResult
    return m.CreatePartitionsResponse(
        results=[one(name=t.name, error_code=code, error_message=message) for t in request.topics]
    )


def _create_acls(request: m.CreateAclsRequest, version: int, code: int, message: str | None) -> m.CreateAclsResponse:
    one = m.CreateAclsResponse.AclCreationResult
    return m.CreateAclsResponse(results=[one(error_code=code, error_message=message) for _ in request.creations])


def _delete_acls(request: m.DeleteAclsRequest, version: int, code: int, message: str | None) -> m.DeleteAclsResponse:
    one = m.DeleteAclsResponse.DeleteAclsFilterResult
    return m.DeleteAclsResponse(
        filter_results=[one(error_code=code, error_message=message, matching_acls=[]) for _ in request.filters]
    )


def _describe_configs(
    request: m.DescribeConfigsRequest, version: int, code: int, message: str | None
) -> m.DescribeConfigsResponse:
    one = m.DescribeConfigsResponse.DescribeConfigsResult
    return m.DescribeConfigsResponse(
        results=[
            one(
                error_code=code,
                error_message=message,
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                configs=[],
            )
            for r in request.resources
        ]
    )


def _alter_replica_log_dirs(
    request: m.AlterReplicaLogDirsRequest, version: int, code: int, message: str | None
) -> m.AlterReplicaLogDirsResponse:
    topic = m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    row = topic.AlterReplicaLogDirPartitionResult
    return m.AlterReplicaLogDirsResponse(
        results=[
            topic(topic_name=t.name, partitions=[row(partition_index=p, error_code=code) for p in t.partitions])
            for asked in request.dirs
            for t in asked.topics
        ]
    )


def _alter_configs(response: Any) -> Callable[..., Any]:
    def build(request: Any, version: int, code: int, message: str | None) -> Any:
        one = response.AlterConfigsResourceResponse
        return response(
            responses=[
                one(
                    error_code=code,
                    error_message=message,
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                )
                for r in request.resources
            ]
        )

    return build


def _describe_groups(
    request: m.DescribeGroupsRequest, version: int, code: int, message: str | None
) -> m.DescribeGroupsResponse:
    one = m.DescribeGroupsResponse.DescribedGroup
    return m.DescribeGroupsResponse(
        groups=[
            one(
                error_code=code,
                error_message=message,
                group_id=group,
                group_state="Dead" if version < 6 else "",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group in request.groups
        ]
    )


def _consumer_group_describe(
    request: m.ConsumerGroupDescribeRequest, version: int, code: int, message: str | None
) -> m.ConsumerGroupDescribeResponse:
    one = m.ConsumerGroupDescribeResponse.DescribedGroup
    return m.ConsumerGroupDescribeResponse(
        groups=[
            one(error_code=code, error_message=message, group_id=group, group_state="", assignor_name="", members=[])
            for group in request.group_ids
        ]
    )


def _delete_groups(
    request: m.DeleteGroupsRequest, version: int, code: int, message: str | None
) -> m.DeleteGroupsResponse:
    one = m.DeleteGroupsResponse.DeletableGroupResult
    return m.DeleteGroupsResponse(
        results=[one(group_id=g, error_code=code, error_message=message) for g in request.groups_names]
    )


def _metadata(request: m.MetadataRequest, version: int, code: int, message: str | None) -> m.MetadataResponse:
    one = m.MetadataResponse.MetadataResponseTopic
    # A request may have null names before an answer may.
    return m.MetadataResponse(
        error_code=code if version >= 13 else 0,
        brokers=[],
        topics=[
            one(name=t.name or "", topic_id=t.topic_id, error_code=code, partitions=[]) for t in request.topics or ()
        ],
    )


def _describe_producers(request: m.DescribeProducersRequest, version: int, code: int, message: str | None) -> Any:
    topic = m.DescribeProducersResponse.TopicResponse
    build = _topics(m.DescribeProducersResponse, topic, topic.PartitionResponse, "partition_index", active_producers=[])
    return build(request, version, code, message)


def _describe_topic_partitions(
    request: m.DescribeTopicPartitionsRequest, version: int, code: int, message: str | None
) -> m.DescribeTopicPartitionsResponse:
    one = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    return m.DescribeTopicPartitionsResponse(
        topics=[one(name=t.name, error_code=code, partitions=[]) for t in request.topics], next_cursor=None
    )


def _describe_user_scram_credentials(
    request: m.DescribeUserScramCredentialsRequest, version: int, code: int, message: str | None
) -> m.DescribeUserScramCredentialsResponse:
    row = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    results = [
        row(user=user.name, error_code=code, error_message=message, credential_infos=[]) for user in request.users or ()
    ]
    return m.DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=results)


def _alter_user_scram_credentials(
    request: m.AlterUserScramCredentialsRequest, version: int, code: int, message: str | None
) -> m.AlterUserScramCredentialsResponse:
    names = dict.fromkeys(asked.name for asked in [*request.deletions, *request.upsertions])
    row = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    return m.AlterUserScramCredentialsResponse(
        results=[row(user=name, error_code=code, error_message=message) for name in names]
    )


def _alter_client_quotas(
    request: m.AlterClientQuotasRequest, version: int, code: int, message: str | None
) -> m.AlterClientQuotasResponse:
    one = m.AlterClientQuotasResponse.EntryData
    entity = one.EntityData
    return m.AlterClientQuotasResponse(
        entries=[
            one(
                error_code=code,
                error_message=message,
                entity=[entity(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity],
            )
            for asked in request.entries
        ]
    )


def _alter_partition_reassignments(
    request: m.AlterPartitionReassignmentsRequest, version: int, code: int, message: str | None
) -> m.AlterPartitionReassignmentsResponse:
    topic = m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    row = topic.ReassignablePartitionResponse
    return m.AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            topic(
                name=asked.name,
                partitions=[
                    row(partition_index=one.partition_index, error_code=code, error_message=message)
                    for one in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


def _offset_delete(
    request: m.OffsetDeleteRequest, version: int, code: int, message: str | None
) -> m.OffsetDeleteResponse:
    """A topic that may not be read is refused by its partitions, all else by the group."""
    if code != _TOPIC_AUTHORIZATION_FAILED:
        return m.OffsetDeleteResponse(error_code=code, topics=[])
    topic = m.OffsetDeleteResponse.OffsetDeleteResponseTopic
    row = topic.OffsetDeleteResponsePartition
    topics = [
        topic(
            name=asked.name,
            partitions=[row(partition_index=one.partition_index, error_code=code) for one in asked.partitions],
        )
        for asked in request.topics
    ]
    return m.OffsetDeleteResponse(error_code=0, topics=topics)


def _elect_leaders(
    request: m.ElectLeadersRequest, version: int, code: int, message: str | None
) -> m.ElectLeadersResponse:
    """v0 has no error code of its own: every partition carries it."""
    topic = m.ElectLeadersResponse.ReplicaElectionResult
    row = topic.PartitionResult
    return m.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            topic(
                topic=asked.topic,
                partition_result=[
                    row(partition_id=index, error_code=code, error_message=message) for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def _join_group(request: m.JoinGroupRequest, version: int, code: int, message: str | None) -> m.JoinGroupResponse:
    return m.JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if version >= 7 else "",
        leader="",
        member_id=request.member_id or "",
        members=[],
    )


def _add_partitions_to_txn(
    request: m.AddPartitionsToTxnRequest, version: int, code: int, message: str | None
) -> m.AddPartitionsToTxnResponse:
    if version >= 4:
        return m.AddPartitionsToTxnResponse(error_code=code, results_by_transaction=[])
    topic = m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    row = topic.AddPartitionsToTxnPartitionResult
    topics = [
        topic(
            name=asked.name,
            results_by_partition=[row(partition_index=p, partition_error_code=code) for p in asked.partitions],
        )
        for asked in request.v3_and_below_topics
    ]
    return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _write_txn_markers(
    request: m.WriteTxnMarkersRequest, version: int, code: int, message: str | None
) -> m.WriteTxnMarkersResponse:
    marker = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = marker.WritableTxnMarkerTopicResult
    row = topic.WritableTxnMarkerPartitionResult
    return m.WriteTxnMarkersResponse(
        markers=[
            marker(
                producer_id=asked.producer_id,
                topics=[
                    topic(
                        name=t.name,
                        partitions=[row(partition_index=index, error_code=code) for index in t.partition_indexes],
                    )
                    for t in asked.topics
                ],
            )
            for asked in request.markers
        ]
    )


def _describe_transactions(
    request: m.DescribeTransactionsRequest, version: int, code: int, message: str | None
) -> m.DescribeTransactionsResponse:
    one = m.DescribeTransactionsResponse.TransactionState
    return m.DescribeTransactionsResponse(
        transaction_states=[
            one(error_code=code, transactional_id=name, transaction_state="", topics=[])
            for name in request.transactional_ids
        ]
    )


def _fetch(request: m.FetchRequest, version: int, code: int, message: str | None) -> m.FetchResponse:
    return m.FetchResponse(error_code=code, session_id=0, responses=[])


_TABLE: dict[int, Callable[..., Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _topics(
        m.OffsetCommitResponse,
        m.OffsetCommitResponse.OffsetCommitResponseTopic,
        m.OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition,
        "partition_index",
    ),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _topics(
        m.DeleteRecordsResponse,
        m.DeleteRecordsResponse.DeleteRecordsTopicResult,
        m.DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult,
        "partition_index",
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _topics(
        m.OffsetForLeaderEpochResponse,
        m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult,
        m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset,
        "partition",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs(m.AlterConfigsResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs(m.IncrementalAlterConfigsResponse),
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _topics(
        m.TxnOffsetCommitResponse,
        m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
        m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition,
        "partition_index",
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
}
