"""The api table: every API Tailrace can serve, its message classes and the versions that tests show to work.

Ranges are those of Apache Kafka 4.3.1; a narrower range here is what Tailrace serves. Private APIs have keys from
10000 and, like KRaft's own, are spoken on internal listeners only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tailrace.wire import messages as m


class ApiKey(IntEnum):
    """Kafka's API keys, then ours."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    PREAMBLE = 10000
    REGISTER_SERVICE = 10001
    SERVICE_HEARTBEAT = 10002
    ACQUIRE_LEASE = 10003
    FENCE_SHARD = 10004
    ADOPT_CONNECTION = 10005
    DESCRIBE_CLEANER = 10006
    METADATA_OFFSET = 10007
    DESCRIBE_OPEN_TRANSACTIONS = 10008
    DESCRIBE_QUOTA_USAGE = 10009
    REPORT_GROUPS = 10010


@dataclass(frozen=True, slots=True)
class Api:
    """One row: the versions served are min_version..max_version, both ends included."""

    key: ApiKey
    request: type[m.ApiMessage]
    response: type[m.ApiMessage]
    min_version: int
    max_version: int

    def flexible(self, version: int) -> bool:
        """Whether this version uses compact types and tagged fields (KIP-482)."""
        return bool(self.request.flexible_version_q(version))


# Produce 0-2 are advertised as Apache Kafka does (old librdkafka infers features from minimum versions) and the
# connection is closed when one is used; the schema begins at 3.
_PUBLIC = (
    Api(ApiKey.PRODUCE, m.ProduceRequest, m.ProduceResponse, 3, 13),
    Api(ApiKey.FETCH, m.FetchRequest, m.FetchResponse, 4, 18),
    Api(ApiKey.LIST_OFFSETS, m.ListOffsetsRequest, m.ListOffsetsResponse, 1, 11),
    Api(ApiKey.METADATA, m.MetadataRequest, m.MetadataResponse, 0, 13),
    Api(ApiKey.OFFSET_COMMIT, m.OffsetCommitRequest, m.OffsetCommitResponse, 2, 10),
    Api(ApiKey.OFFSET_FETCH, m.OffsetFetchRequest, m.OffsetFetchResponse, 1, 10),
    Api(ApiKey.FIND_COORDINATOR, m.FindCoordinatorRequest, m.FindCoordinatorResponse, 0, 6),
    Api(ApiKey.JOIN_GROUP, m.JoinGroupRequest, m.JoinGroupResponse, 0, 9),
    Api(ApiKey.HEARTBEAT, m.HeartbeatRequest, m.HeartbeatResponse, 0, 4),
    Api(ApiKey.LEAVE_GROUP, m.LeaveGroupRequest, m.LeaveGroupResponse, 0, 5),
    Api(ApiKey.SYNC_GROUP, m.SyncGroupRequest, m.SyncGroupResponse, 0, 5),
    Api(ApiKey.DESCRIBE_GROUPS, m.DescribeGroupsRequest, m.DescribeGroupsResponse, 0, 6),
    Api(ApiKey.LIST_GROUPS, m.ListGroupsRequest, m.ListGroupsResponse, 0, 5),
    Api(ApiKey.API_VERSIONS, m.ApiVersionsRequest, m.ApiVersionsResponse, 0, 4),
    Api(ApiKey.CREATE_TOPICS, m.CreateTopicsRequest, m.CreateTopicsResponse, 2, 7),
    Api(ApiKey.DELETE_TOPICS, m.DeleteTopicsRequest, m.DeleteTopicsResponse, 1, 6),
    Api(ApiKey.DELETE_RECORDS, m.DeleteRecordsRequest, m.DeleteRecordsResponse, 0, 2),
    Api(ApiKey.INIT_PRODUCER_ID, m.InitProducerIdRequest, m.InitProducerIdResponse, 0, 5),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, m.OffsetForLeaderEpochRequest, m.OffsetForLeaderEpochResponse, 2, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, m.AddPartitionsToTxnRequest, m.AddPartitionsToTxnResponse, 0, 5),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, m.AddOffsetsToTxnRequest, m.AddOffsetsToTxnResponse, 0, 4),
    Api(ApiKey.END_TXN, m.EndTxnRequest, m.EndTxnResponse, 0, 5),
    Api(ApiKey.WRITE_TXN_MARKERS, m.WriteTxnMarkersRequest, m.WriteTxnMarkersResponse, 1, 2),
    Api(ApiKey.TXN_OFFSET_COMMIT, m.TxnOffsetCommitRequest, m.TxnOffsetCommitResponse, 0, 5),
    Api(ApiKey.DESCRIBE_ACLS, m.DescribeAclsRequest, m.DescribeAclsResponse, 1, 3),
    Api(ApiKey.CREATE_ACLS, m.CreateAclsRequest, m.CreateAclsResponse, 1, 3),
    Api(ApiKey.DELETE_ACLS, m.DeleteAclsRequest, m.DeleteAclsResponse, 1, 3),
    Api(ApiKey.DESCRIBE_CONFIGS, m.DescribeConfigsRequest, m.DescribeConfigsResponse, 1, 4),
    Api(ApiKey.ALTER_CONFIGS, m.AlterConfigsRequest, m.AlterConfigsResponse, 0, 2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, m.AlterReplicaLogDirsRequest, m.AlterReplicaLogDirsResponse, 1, 2),
    Api(ApiKey.DESCRIBE_LOG_DIRS, m.DescribeLogDirsRequest, m.DescribeLogDirsResponse, 1, 5),
    Api(ApiKey.CREATE_PARTITIONS, m.CreatePartitionsRequest, m.CreatePartitionsResponse, 0, 3),
    Api(ApiKey.DELETE_GROUPS, m.DeleteGroupsRequest, m.DeleteGroupsResponse, 0, 2),
    Api(ApiKey.ELECT_LEADERS, m.ElectLeadersRequest, m.ElectLeadersResponse, 0, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsResponse, 0, 1),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        m.AlterPartitionReassignmentsRequest,
        m.AlterPartitionReassignmentsResponse,
        0,
        1,
    ),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        m.ListPartitionReassignmentsRequest,
        m.ListPartitionReassignmentsResponse,
        0,
        0,
    ),
    Api(ApiKey.OFFSET_DELETE, m.OffsetDeleteRequest, m.OffsetDeleteResponse, 0, 0),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, m.DescribeClientQuotasRequest, m.DescribeClientQuotasResponse, 0, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, m.AlterClientQuotasRequest, m.AlterClientQuotasResponse, 0, 1),
    Api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        m.DescribeUserScramCredentialsRequest,
        m.DescribeUserScramCredentialsResponse,
        0,
        0,
    ),
    Api(ApiKey.DESCRIBE_QUORUM, m.DescribeQuorumRequest, m.DescribeQuorumResponse, 0, 2),
    Api(ApiKey.UPDATE_FEATURES, m.UpdateFeaturesRequest, m.UpdateFeaturesResponse, 0, 2),
    Api(ApiKey.DESCRIBE_CLUSTER, m.DescribeClusterRequest, m.DescribeClusterResponse, 0, 2),
    Api(ApiKey.DESCRIBE_PRODUCERS, m.DescribeProducersRequest, m.DescribeProducersResponse, 0, 0),
    Api(ApiKey.UNREGISTER_BROKER, m.UnregisterBrokerRequest, m.UnregisterBrokerResponse, 0, 0),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, m.DescribeTransactionsRequest, m.DescribeTransactionsResponse, 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, m.ListTransactionsRequest, m.ListTransactionsResponse, 0, 2),
    Api(ApiKey.LIST_CONFIG_RESOURCES, m.ListConfigResourcesRequest, m.ListConfigResourcesResponse, 0, 1),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, m.DescribeTopicPartitionsRequest, m.DescribeTopicPartitionsResponse, 0, 0),
)
_INTERNAL = (
    Api(ApiKey.ALTER_PARTITION, m.AlterPartitionRequest, m.AlterPartitionResponse, 2, 3),
    Api(ApiKey.FETCH_SNAPSHOT, m.FetchSnapshotRequest, m.FetchSnapshotResponse, 0, 1),
    Api(ApiKey.BROKER_REGISTRATION, m.BrokerRegistrationRequest, m.BrokerRegistrationResponse, 0, 4),
    Api(ApiKey.BROKER_HEARTBEAT, m.BrokerHeartbeatRequest, m.BrokerHeartbeatResponse, 0, 2),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, m.AssignReplicasToDirsRequest, m.AssignReplicasToDirsResponse, 0, 0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, m.AllocateProducerIdsRequest, m.AllocateProducerIdsResponse, 0, 0),
    Api(ApiKey.PREAMBLE, m.PreambleRequest, m.PreambleResponse, 0, 0),
    Api(ApiKey.REGISTER_SERVICE, m.RegisterServiceRequest, m.RegisterServiceResponse, 0, 0),
    Api(ApiKey.SERVICE_HEARTBEAT, m.ServiceHeartbeatRequest, m.ServiceHeartbeatResponse, 0, 0),
    Api(ApiKey.ACQUIRE_LEASE, m.AcquireLeaseRequest, m.AcquireLeaseResponse, 0, 0),
    Api(ApiKey.FENCE_SHARD, m.FenceShardRequest, m.FenceShardResponse, 0, 0),
    Api(ApiKey.ADOPT_CONNECTION, m.AdoptConnectionRequest, m.AdoptConnectionResponse, 0, 0),
    Api(ApiKey.DESCRIBE_CLEANER, m.DescribeCleanerRequest, m.DescribeCleanerResponse, 0, 0),
    Api(ApiKey.METADATA_OFFSET, m.MetadataOffsetRequest, m.MetadataOffsetResponse, 0, 0),
    Api(
        ApiKey.DESCRIBE_OPEN_TRANSACTIONS,
        m.DescribeOpenTransactionsRequest,
        m.DescribeOpenTransactionsResponse,
        0,
        0,
    ),
    Api(ApiKey.DESCRIBE_QUOTA_USAGE, m.DescribeQuotaUsageRequest, m.DescribeQuotaUsageResponse, 0, 0),
    Api(ApiKey.REPORT_GROUPS, m.ReportGroupsRequest, m.ReportGroupsResponse, 0, 0),
)
APIS: dict[int, Api] = {api.key: api for api in _PUBLIC}
INTERNAL_APIS: dict[int, Api] = {api.key: api for api in _PUBLIC + _INTERNAL}
