"""The api table: every API Tailrace can serve, its message classes and the versions that tests show to work.

Ranges are those of Apache Kafka 4.4.0; a narrower range here is what Tailrace serves. Private APIs have keys from
10000 and, like KRaft's own, are spoken on internal listeners only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

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
    SASL_HANDSHAKE = 17
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
    SASL_AUTHENTICATE = 36
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
    ALTER_USER_SCRAM_CREDENTIALS = 51
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
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
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


NEVER = 1 << 15  # beyond every version


@dataclass(frozen=True)
class Api:
    """One row: the versions served are min_version..max_version, both ends included.

    `name` is that of its messages, which are built when somebody asks for them. From flexible_from on they have
    compact types and tagged fields (KIP-482).
    """

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    flexible_from: int = NEVER

    @cached_property
    def request(self) -> type[m.ApiMessage]:
        """The class of its requests."""
        found: type[m.ApiMessage] = getattr(m, f"{self.name}Request")
        return found

    @cached_property
    def response(self) -> type[m.ApiMessage]:
        """The class of its answers."""
        found: type[m.ApiMessage] = getattr(m, f"{self.name}Response")
        return found

    def flexible(self, version: int) -> bool:
        """Whether this version has compact types and tagged fields."""
        return version >= self.flexible_from


# Produce 0-2 are advertised as Apache Kafka does (old librdkafka infers features from minimum versions) and the
# connection is closed when one is used; the schema begins at 3.
_PUBLIC = (
    Api(ApiKey.PRODUCE, "Produce", 3, 13, flexible_from=9),
    Api(ApiKey.FETCH, "Fetch", 4, 18, flexible_from=12),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, flexible_from=6),
    Api(ApiKey.METADATA, "Metadata", 0, 13, flexible_from=9),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, flexible_from=8),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, flexible_from=6),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, flexible_from=3),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, flexible_from=6),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, flexible_from=4),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, flexible_from=4),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, flexible_from=4),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, flexible_from=5),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, flexible_from=3),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 5, flexible_from=3),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, flexible_from=5),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, flexible_from=4),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, flexible_from=2),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, flexible_from=2),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, flexible_from=4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, flexible_from=3),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, flexible_from=3),
    Api(ApiKey.END_TXN, "EndTxn", 0, 5, flexible_from=3),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, flexible_from=1),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 6, flexible_from=3),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, flexible_from=2),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, flexible_from=2),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, flexible_from=2),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, flexible_from=4),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, flexible_from=2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, flexible_from=2),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, flexible_from=2),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, flexible_from=2),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, flexible_from=2),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 3, flexible_from=2),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, flexible_from=2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, flexible_from=1),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, flexible_from=0),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, flexible_from=0),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, flexible_from=1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, flexible_from=1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, flexible_from=0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, flexible_from=0),
    Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, flexible_from=0),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, flexible_from=0),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, flexible_from=0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, flexible_from=0),
    Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, flexible_from=0),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, flexible_from=0),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, flexible_from=0),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, flexible_from=0),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, flexible_from=0),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, flexible_from=0),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, flexible_from=0),
)
_INTERNAL = (
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 2, 3, flexible_from=0),
    Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, flexible_from=0),
    Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, flexible_from=0),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 2, flexible_from=0),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, flexible_from=0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, flexible_from=0),
    Api(ApiKey.PREAMBLE, "Preamble", 0, 0, flexible_from=0),
    Api(ApiKey.REGISTER_SERVICE, "RegisterService", 0, 0, flexible_from=0),
    Api(ApiKey.SERVICE_HEARTBEAT, "ServiceHeartbeat", 0, 0, flexible_from=0),
    Api(ApiKey.ACQUIRE_LEASE, "AcquireLease", 0, 0, flexible_from=0),
    Api(ApiKey.FENCE_SHARD, "FenceShard", 0, 0, flexible_from=0),
    Api(ApiKey.ADOPT_CONNECTION, "AdoptConnection", 0, 0, flexible_from=0),
    Api(ApiKey.DESCRIBE_CLEANER, "DescribeCleaner", 0, 0, flexible_from=0),
    Api(ApiKey.METADATA_OFFSET, "MetadataOffset", 0, 0, flexible_from=0),
    Api(ApiKey.DESCRIBE_OPEN_TRANSACTIONS, "DescribeOpenTransactions", 0, 0, flexible_from=0),
    Api(ApiKey.DESCRIBE_QUOTA_USAGE, "DescribeQuotaUsage", 0, 0, flexible_from=0),
    Api(ApiKey.REPORT_GROUPS, "ReportGroups", 0, 0, flexible_from=0),
)
APIS: dict[int, Api] = {api.key: api for api in _PUBLIC}
INTERNAL_APIS: dict[int, Api] = {api.key: api for api in _PUBLIC + _INTERNAL}
