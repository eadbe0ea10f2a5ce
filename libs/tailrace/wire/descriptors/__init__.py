"""Messages kafka-python has no schema for: KIP-631's between brokers and controllers, and Tailrace's private APIs.

Each class is built from the JSON file of its name in this folder, in Kafka's schema format. Private APIs are spoken on
internal listeners only (keys from 10000) and never appear in ApiVersions.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class PreambleRequest(ApiMessage, load_json=__name__): ...


class PreambleResponse(ApiMessage, load_json=__name__): ...


class RegisterServiceRequest(ApiMessage, load_json=__name__): ...


class RegisterServiceResponse(ApiMessage, load_json=__name__): ...


class ServiceHeartbeatRequest(ApiMessage, load_json=__name__): ...


class ServiceHeartbeatResponse(ApiMessage, load_json=__name__): ...


class AcquireLeaseRequest(ApiMessage, load_json=__name__): ...


class AcquireLeaseResponse(ApiMessage, load_json=__name__): ...


class FenceShardRequest(ApiMessage, load_json=__name__): ...


class FenceShardResponse(ApiMessage, load_json=__name__): ...


class AdoptConnectionRequest(ApiMessage, load_json=__name__): ...


class AdoptConnectionResponse(ApiMessage, load_json=__name__): ...


class DescribeCleanerRequest(ApiMessage, load_json=__name__): ...


class DescribeCleanerResponse(ApiMessage, load_json=__name__): ...


class BrokerRegistrationRequest(ApiMessage, load_json=__name__): ...


class BrokerRegistrationResponse(ApiMessage, load_json=__name__): ...


class BrokerHeartbeatRequest(ApiMessage, load_json=__name__): ...


class BrokerHeartbeatResponse(ApiMessage, load_json=__name__): ...


class AllocateProducerIdsRequest(ApiMessage, load_json=__name__): ...


class AllocateProducerIdsResponse(ApiMessage, load_json=__name__): ...


class FetchSnapshotRequest(ApiMessage, load_json=__name__): ...


class FetchSnapshotResponse(ApiMessage, load_json=__name__): ...


class UnregisterBrokerRequest(ApiMessage, load_json=__name__): ...


class UnregisterBrokerResponse(ApiMessage, load_json=__name__): ...


class AlterPartitionRequest(ApiMessage, load_json=__name__): ...


class AlterPartitionResponse(ApiMessage, load_json=__name__): ...
