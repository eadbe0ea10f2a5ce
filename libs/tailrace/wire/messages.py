"""Every message class, in one place: kafka-python's and those built from our own descriptors.

Only `wire` imports kafka-python's protocol package; everything else imports its messages from here. A class is built
when somebody imports it; services build all at their start (`load_all`).
Our descriptors are JSON in Kafka's schema format (KIP-893 nullable structs, KIP-482 flexible versions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage

from tailrace.wire.library import encode_by_schema

if TYPE_CHECKING:
    from kafka.protocol.admin import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        AlterConfigsRequest,
        AlterConfigsResponse,
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        CreateAclsRequest,
        CreateAclsResponse,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteAclsRequest,
        DeleteAclsResponse,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        DescribeAclsRequest,
        DescribeAclsResponse,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        DescribeClusterRequest,
        DescribeClusterResponse,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        DescribeProducersRequest,
        DescribeProducersResponse,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
        ListGroupsRequest,
        ListGroupsResponse,
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        ListTransactionsRequest,
        ListTransactionsResponse,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )
    from kafka.protocol.consumer import (
        FetchRequest,
        FetchResponse,
        HeartbeatRequest,
        HeartbeatResponse,
        JoinGroupRequest,
        JoinGroupResponse,
        LeaveGroupRequest,
        LeaveGroupResponse,
        ListOffsetsRequest,
        ListOffsetsResponse,
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetDeleteRequest,
        OffsetDeleteResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from kafka.protocol.metadata import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        MetadataRequest,
        MetadataResponse,
    )
    from kafka.protocol.producer import (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        EndTxnRequest,
        EndTxnResponse,
        InitProducerIdRequest,
        InitProducerIdResponse,
        ProduceRequest,
        ProduceResponse,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

    from tailrace.wire.descriptors import (
        AcquireLeaseRequest,
        AcquireLeaseResponse,
        AdoptConnectionRequest,
        AdoptConnectionResponse,
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
        AlterPartitionRequest,
        AlterPartitionResponse,
        ApiVersionsRequest,
        ApiVersionsResponse,
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        DeleteGroupsRequest,
        DeleteGroupsResponse,
        DescribeCleanerRequest,
        DescribeCleanerResponse,
        DescribeOpenTransactionsRequest,
        DescribeOpenTransactionsResponse,
        DescribeQuotaUsageRequest,
        DescribeQuotaUsageResponse,
        FenceShardRequest,
        FenceShardResponse,
        FetchSnapshotRequest,
        FetchSnapshotResponse,
        MetadataOffsetRequest,
        MetadataOffsetResponse,
        PreambleRequest,
        PreambleResponse,
        RegisterServiceRequest,
        RegisterServiceResponse,
        ReportGroupsRequest,
        ReportGroupsResponse,
        ServiceHeartbeatRequest,
        ServiceHeartbeatResponse,
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )

# By API, where its messages are; all others are in kafka.protocol.admin.
_CONSUMER: Final = frozenset(
    {
        "Fetch",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "ListOffsets",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "SyncGroup",
    }
)
_METADATA: Final = frozenset(
    {
        "FindCoordinator",
        "Metadata",
    }
)
_PRODUCER: Final = frozenset(
    {
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "EndTxn",
        "InitProducerId",
        "Produce",
        "WriteTxnMarkers",
    }
)
_SASL: Final = frozenset({"SaslAuthenticate", "SaslHandshake"})
_OURS: Final = frozenset(
    {
        "AcquireLease",
        "AdoptConnection",
        "AllocateProducerIds",
        "AlterPartition",
        "ApiVersions",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "DeleteGroups",
        "DescribeCleaner",
        "DescribeOpenTransactions",
        "DescribeQuotaUsage",
        "FenceShard",
        "FetchSnapshot",
        "MetadataOffset",
        "Preamble",
        "RegisterService",
        "ReportGroups",
        "ServiceHeartbeat",
        "TxnOffsetCommit",
        "UnregisterBroker",
    }
)

Message = ApiMessage

__all__ = [
    "AcquireLeaseRequest",
    "AcquireLeaseResponse",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AdoptConnectionRequest",
    "AdoptConnectionResponse",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiData",
    "ApiMessage",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeCleanerRequest",
    "DescribeCleanerResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeOpenTransactionsRequest",
    "DescribeOpenTransactionsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeQuotaUsageRequest",
    "DescribeQuotaUsageResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "FenceShardRequest",
    "FenceShardResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "Message",
    "MetadataOffsetRequest",
    "MetadataOffsetResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "PreambleRequest",
    "PreambleResponse",
    "ProduceRequest",
    "ProduceResponse",
    "RegisterServiceRequest",
    "RegisterServiceResponse",
    "ReportGroupsRequest",
    "ReportGroupsResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ServiceHeartbeatRequest",
    "ServiceHeartbeatResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


# To compile their generated encoders takes Python more than 10 ms, in one step of the first request's event loop.
_BY_SCHEMA: Final = frozenset({"ConsumerGroupDescribeResponse", "DescribeQuorumResponse"})


def __getattr__(name: str) -> Any:
    """A class at its first use: to build all of them takes 40 ms, and a command of the command line needs a few."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(_package(name.removesuffix("Request").removesuffix("Response")), name)
    if name in _BY_SCHEMA:
        encode_by_schema(found)
    return found


def load_all() -> None:
    """Builds every class, so that no request of a service waits for that."""
    for name in __all__:
        if name not in globals():
            __getattr__(name)


def _package(api: str) -> Any:
    if api in _OURS:
        from tailrace.wire import descriptors

        return descriptors
    if api in _CONSUMER:
        from kafka.protocol import consumer

        return consumer
    if api in _METADATA:
        from kafka.protocol import metadata

        return metadata
    if api in _PRODUCER:
        from kafka.protocol import producer

        return producer
    if api in _SASL:
        from kafka.protocol import sasl

        return sasl
    from kafka.protocol import admin

    return admin
