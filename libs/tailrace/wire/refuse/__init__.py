"""The answer that refuses a whole request: the error code in every place where the API carries one.

Kafka's AbstractRequest.getErrorResponse, as a table. An API with one error code at the top needs no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.wire import messages as m
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.refuse import configs, groups, security, topics, transactions
from tailrace.wire.refuse.partitions import by_partition


def refuse(request: Any, key: int, version: int, code: int, message: str | None = None) -> Any:
    """A response message for `request` with `code` (and `message` where there is a field) everywhere."""
    build = _TABLE.get(key)
    if build is not None:
        return build(request, version, int(code), message)
    response: Any = INTERNAL_APIS[key].response(error_code=int(code))
    if "error_message" in response.fields:
        response.error_message = message
    return response


_TABLE: dict[int, Callable[..., m.ApiMessage]] = {
    ApiKey.PRODUCE: topics.produce,
    ApiKey.FETCH: topics.fetch,
    ApiKey.LIST_OFFSETS: topics.list_offsets,
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: by_partition(
        m.OffsetCommitResponse,
        m.OffsetCommitResponse.OffsetCommitResponseTopic,
        m.OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition,
        "partition_index",
    ),
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: by_partition(
        m.DeleteRecordsResponse,
        m.DeleteRecordsResponse.DeleteRecordsTopicResult,
        m.DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult,
        "partition_index",
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: by_partition(
        m.OffsetForLeaderEpochResponse,
        m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult,
        m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset,
        "partition",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: topics.alter_replica_log_dirs,
    ApiKey.CREATE_ACLS: security.create_acls,
    ApiKey.DELETE_ACLS: security.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs(
        m.AlterConfigsResponse, m.AlterConfigsResponse.AlterConfigsResourceResponse
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter_configs(
        m.IncrementalAlterConfigsResponse, m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    ),
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ALTER_CLIENT_QUOTAS: configs.alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: security.alter_user_scram_credentials,
    ApiKey.ELECT_LEADERS: topics.elect_leaders,
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: security.describe_user_scram_credentials,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: topics.alter_partition_reassignments,
    ApiKey.DESCRIBE_PRODUCERS: topics.describe_producers,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: by_partition(
        m.TxnOffsetCommitResponse,
        m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
        m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition,
        "partition_index",
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
}
