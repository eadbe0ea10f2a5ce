# Written by python -m tailrace.wire.stubs
import uuid
from typing import Any

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer


class AcquireLeaseRequest(ApiMessage):
    class LeaseDemand(DataContainer):
        client_id: str | None
        user: str | None
        ip: str | None
        kind: int
        rate: float
        used: float
        unused: float
        throttle_time_ms: float
        debt_ms: float
        broker: str | None
        def __init__(
            self,
            *args: Any,
            client_id: str | None = ...,
            user: str | None = ...,
            ip: str | None = ...,
            kind: int = ...,
            rate: float = ...,
            used: float = ...,
            unused: float = ...,
            throttle_time_ms: float = ...,
            debt_ms: float = ...,
            broker: str | None = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    gateway_id: int
    incarnation_id: uuid.UUID
    entries: list[LeaseDemand]
    def __init__(
        self,
        *args: Any,
        gateway_id: int = ...,
        incarnation_id: uuid.UUID = ...,
        entries: list[LeaseDemand] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AcquireLeaseResponse(ApiMessage):
    class Lease(DataContainer):
        client_id: str | None
        user: str | None
        ip: str | None
        kind: int
        limited: bool
        rate: float
        credit: float
        broker: str | None
        def __init__(
            self,
            *args: Any,
            client_id: str | None = ...,
            user: str | None = ...,
            ip: str | None = ...,
            kind: int = ...,
            limited: bool = ...,
            rate: float = ...,
            credit: float = ...,
            broker: str | None = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    error_code: int
    lease_ms: int
    entries: list[Lease]
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        lease_ms: int = ...,
        entries: list[Lease] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AdoptConnectionRequest(ApiMessage):
    client_id: str
    def __init__(
        self,
        *args: Any,
        client_id: str = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AdoptConnectionResponse(ApiMessage):
    error_code: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AllocateProducerIdsRequest(ApiMessage):
    broker_id: int
    broker_epoch: int
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        broker_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AllocateProducerIdsResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    producer_id_start: int
    producer_id_len: int
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id_start: int = ...,
        producer_id_len: int = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AlterPartitionRequest(ApiMessage):
    class TopicData(DataContainer):
        class PartitionData(DataContainer):
            class BrokerState(DataContainer):
                broker_id: int
                broker_epoch: int
                def __init__(
                    self,
                    *args: Any,
                    broker_id: int = ...,
                    broker_epoch: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            partition_index: int
            leader_epoch: int
            new_isr: list[int]
            new_isr_with_epochs: list[BrokerState]
            leader_recovery_state: int
            partition_epoch: int
            def __init__(
                self,
                *args: Any,
                partition_index: int = ...,
                leader_epoch: int = ...,
                new_isr: list[int] = ...,
                new_isr_with_epochs: list[BrokerState] = ...,
                leader_recovery_state: int = ...,
                partition_epoch: int = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        topic_id: uuid.UUID
        partitions: list[PartitionData]
        def __init__(
            self,
            *args: Any,
            topic_id: uuid.UUID = ...,
            partitions: list[PartitionData] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    broker_id: int
    broker_epoch: int
    topics: list[TopicData]
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        broker_epoch: int = ...,
        topics: list[TopicData] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AlterPartitionResponse(ApiMessage):
    class TopicData(DataContainer):
        class PartitionData(DataContainer):
            partition_index: int
            error_code: int
            leader_id: int
            leader_epoch: int
            isr: list[int]
            leader_recovery_state: int
            partition_epoch: int
            def __init__(
                self,
                *args: Any,
                partition_index: int = ...,
                error_code: int = ...,
                leader_id: int = ...,
                leader_epoch: int = ...,
                isr: list[int] = ...,
                leader_recovery_state: int = ...,
                partition_epoch: int = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        topic_id: uuid.UUID
        partitions: list[PartitionData]
        def __init__(
            self,
            *args: Any,
            topic_id: uuid.UUID = ...,
            partitions: list[PartitionData] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    error_code: int
    topics: list[TopicData]
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[TopicData] = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ApiVersionsRequest(ApiMessage):
    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int
    def __init__(
        self,
        *args: Any,
        client_software_name: str = ...,
        client_software_version: str = ...,
        cluster_id: str | None = ...,
        node_id: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ApiVersionsResponse(ApiMessage):
    class ApiVersion(DataContainer):
        api_key: int
        min_version: int
        max_version: int
        def __init__(
            self,
            *args: Any,
            api_key: int = ...,
            min_version: int = ...,
            max_version: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    class SupportedFeatureKey(DataContainer):
        name: str
        min_version: int
        max_version: int
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            min_version: int = ...,
            max_version: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    class FinalizedFeatureKey(DataContainer):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            max_version_level: int = ...,
            min_version_level: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    error_code: int
    api_keys: list[ApiVersion]
    throttle_time_ms: int
    supported_features: list[SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        api_keys: list[ApiVersion] = ...,
        throttle_time_ms: int = ...,
        supported_features: list[SupportedFeatureKey] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: list[FinalizedFeatureKey] = ...,
        zk_migration_ready: bool = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AssignReplicasToDirsRequest(ApiMessage):
    class DirectoryData(DataContainer):
        class TopicData(DataContainer):
            class PartitionData(DataContainer):
                partition_index: int
                def __init__(
                    self,
                    *args: Any,
                    partition_index: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            topic_id: uuid.UUID
            partitions: list[PartitionData]
            def __init__(
                self,
                *args: Any,
                topic_id: uuid.UUID = ...,
                partitions: list[PartitionData] = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        id: uuid.UUID
        topics: list[TopicData]
        def __init__(
            self,
            *args: Any,
            id: uuid.UUID = ...,
            topics: list[TopicData] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    broker_id: int
    broker_epoch: int
    directories: list[DirectoryData]
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        broker_epoch: int = ...,
        directories: list[DirectoryData] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class AssignReplicasToDirsResponse(ApiMessage):
    class DirectoryData(DataContainer):
        class TopicData(DataContainer):
            class PartitionData(DataContainer):
                partition_index: int
                error_code: int
                def __init__(
                    self,
                    *args: Any,
                    partition_index: int = ...,
                    error_code: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            topic_id: uuid.UUID
            partitions: list[PartitionData]
            def __init__(
                self,
                *args: Any,
                topic_id: uuid.UUID = ...,
                partitions: list[PartitionData] = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        id: uuid.UUID
        topics: list[TopicData]
        def __init__(
            self,
            *args: Any,
            id: uuid.UUID = ...,
            topics: list[TopicData] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    error_code: int
    directories: list[DirectoryData]
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        directories: list[DirectoryData] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class BrokerHeartbeatRequest(ApiMessage):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[uuid.UUID]
    cordoned_log_dirs: list[uuid.UUID] | None
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        broker_epoch: int = ...,
        current_metadata_offset: int = ...,
        want_fence: bool = ...,
        want_shut_down: bool = ...,
        offline_log_dirs: list[uuid.UUID] = ...,
        cordoned_log_dirs: list[uuid.UUID] | None = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class BrokerHeartbeatResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        is_caught_up: bool = ...,
        is_fenced: bool = ...,
        should_shut_down: bool = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class BrokerRegistrationRequest(ApiMessage):
    class Listener(DataContainer):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    class Feature(DataContainer):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: list[uuid.UUID]
    previous_broker_epoch: int
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        cluster_id: str = ...,
        incarnation_id: uuid.UUID = ...,
        listeners: list[Listener] = ...,
        features: list[Feature] = ...,
        rack: str | None = ...,
        is_migrating_zk_broker: bool = ...,
        log_dirs: list[uuid.UUID] = ...,
        previous_broker_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class BrokerRegistrationResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    broker_epoch: int
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        broker_epoch: int = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ConsumerGroupDescribeRequest(ApiMessage):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *args: Any,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ConsumerGroupDescribeResponse(ApiMessage):
    class DescribedGroup(DataContainer):
        class Member(DataContainer):
            class Assignment(DataContainer):
                class TopicPartitions(DataContainer):
                    topic_id: uuid.UUID
                    topic_name: str
                    partitions: list[int]
                    def __init__(
                        self,
                        *args: Any,
                        topic_id: uuid.UUID = ...,
                        topic_name: str = ...,
                        partitions: list[int] = ...,
                        version: int | None = None,
                        **kwargs: Any,
                    ) -> None: ...
                    @property
                    def version(self) -> int | None: ...
                    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

                topic_partitions: list[TopicPartitions]
                def __init__(
                    self,
                    *args: Any,
                    topic_partitions: list[TopicPartitions] = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            member_id: str
            instance_id: str | None
            rack_id: str | None
            member_epoch: int
            client_id: str
            client_host: str
            subscribed_topic_names: list[str]
            subscribed_topic_regex: str | None
            assignment: Assignment
            target_assignment: Assignment
            member_type: int
            def __init__(
                self,
                *args: Any,
                member_id: str = ...,
                instance_id: str | None = ...,
                rack_id: str | None = ...,
                member_epoch: int = ...,
                client_id: str = ...,
                client_host: str = ...,
                subscribed_topic_names: list[str] = ...,
                subscribed_topic_regex: str | None = ...,
                assignment: Assignment = ...,
                target_assignment: Assignment = ...,
                member_type: int = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[Member]
        authorized_operations: int
        def __init__(
            self,
            *args: Any,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[Member] = ...,
            authorized_operations: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    groups: list[DescribedGroup]
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        groups: list[DescribedGroup] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ConsumerGroupHeartbeatRequest(ApiMessage):
    class TopicPartitions(DataContainer):
        topic_id: uuid.UUID
        partitions: list[int]
        def __init__(
            self,
            *args: Any,
            topic_id: uuid.UUID = ...,
            partitions: list[int] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[TopicPartitions] | None
    def __init__(
        self,
        *args: Any,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        subscribed_topic_names: list[str] | None = ...,
        subscribed_topic_regex: str | None = ...,
        server_assignor: str | None = ...,
        topic_partitions: list[TopicPartitions] | None = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ConsumerGroupHeartbeatResponse(ApiMessage):
    class Assignment(DataContainer):
        class TopicPartitions(DataContainer):
            topic_id: uuid.UUID
            partitions: list[int]
            def __init__(
                self,
                *args: Any,
                topic_id: uuid.UUID = ...,
                partitions: list[int] = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        topic_partitions: list[TopicPartitions]
        def __init__(
            self,
            *args: Any,
            topic_partitions: list[TopicPartitions] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: Assignment | None = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DeleteGroupsRequest(ApiMessage):
    groups_names: list[str]
    def __init__(
        self,
        *args: Any,
        groups_names: list[str] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DeleteGroupsResponse(ApiMessage):
    class DeletableGroupResult(DataContainer):
        group_id: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *args: Any,
            group_id: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    results: list[DeletableGroupResult]
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        results: list[DeletableGroupResult] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeCleanerRequest(ApiMessage):
    topic_id: uuid.UUID
    def __init__(
        self,
        *args: Any,
        topic_id: uuid.UUID = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeCleanerResponse(ApiMessage):
    class CleanedPartition(DataContainer):
        partition_index: int
        dirty_ratio: float
        cleaned_offset: int
        last_cleaned_ms: int
        uncleanable: str | None
        def __init__(
            self,
            *args: Any,
            partition_index: int = ...,
            dirty_ratio: float = ...,
            cleaned_offset: int = ...,
            last_cleaned_ms: int = ...,
            uncleanable: str | None = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    error_code: int
    partitions: list[CleanedPartition]
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        partitions: list[CleanedPartition] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeOpenTransactionsRequest(ApiMessage):
    transactions_max: int
    def __init__(
        self,
        *args: Any,
        transactions_max: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeOpenTransactionsResponse(ApiMessage):
    class OpenTransaction(DataContainer):
        topic_name: str
        partition_index: int
        producer_id: int
        producer_epoch: int
        start_offset: int
        last_timestamp: int
        is_late: bool
        is_hanging: bool
        def __init__(
            self,
            *args: Any,
            topic_name: str = ...,
            partition_index: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            start_offset: int = ...,
            last_timestamp: int = ...,
            is_late: bool = ...,
            is_hanging: bool = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    error_code: int
    transactions: list[OpenTransaction]
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        transactions: list[OpenTransaction] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeQuotaUsageRequest(ApiMessage):
    max_entries: int
    def __init__(
        self,
        *args: Any,
        max_entries: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class DescribeQuotaUsageResponse(ApiMessage):
    class QuotaUsage(DataContainer):
        client_id: str | None
        user: str | None
        ip: str | None
        key: str
        limit: float
        rate: float
        total: float
        throttle_time_ms: float
        throttled: bool
        broker: str | None
        def __init__(
            self,
            *args: Any,
            client_id: str | None = ...,
            user: str | None = ...,
            ip: str | None = ...,
            key: str = ...,
            limit: float = ...,
            rate: float = ...,
            total: float = ...,
            throttle_time_ms: float = ...,
            throttled: bool = ...,
            broker: str | None = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    error_code: int
    entries: list[QuotaUsage]
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        entries: list[QuotaUsage] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class FenceShardRequest(ApiMessage):
    topic_id: uuid.UUID
    partition: int
    shard_epoch: int
    coordinator_id: int
    def __init__(
        self,
        *args: Any,
        topic_id: uuid.UUID = ...,
        partition: int = ...,
        shard_epoch: int = ...,
        coordinator_id: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class FenceShardResponse(ApiMessage):
    error_code: int
    barrier_offset: int
    log_start_offset: int
    leader_epoch: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        barrier_offset: int = ...,
        log_start_offset: int = ...,
        leader_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class FetchSnapshotRequest(ApiMessage):
    class TopicSnapshot(DataContainer):
        class PartitionSnapshot(DataContainer):
            class SnapshotId(DataContainer):
                end_offset: int
                epoch: int
                def __init__(
                    self,
                    *args: Any,
                    end_offset: int = ...,
                    epoch: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            partition: int
            current_leader_epoch: int
            snapshot_id: SnapshotId
            position: int
            replica_directory_id: uuid.UUID
            def __init__(
                self,
                *args: Any,
                partition: int = ...,
                current_leader_epoch: int = ...,
                snapshot_id: SnapshotId = ...,
                position: int = ...,
                replica_directory_id: uuid.UUID = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        name: str
        partitions: list[PartitionSnapshot]
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            partitions: list[PartitionSnapshot] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: list[TopicSnapshot]
    def __init__(
        self,
        *args: Any,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        max_bytes: int = ...,
        topics: list[TopicSnapshot] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class FetchSnapshotResponse(ApiMessage):
    class TopicSnapshot(DataContainer):
        class PartitionSnapshot(DataContainer):
            class SnapshotId(DataContainer):
                end_offset: int
                epoch: int
                def __init__(
                    self,
                    *args: Any,
                    end_offset: int = ...,
                    epoch: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            class LeaderIdAndEpoch(DataContainer):
                leader_id: int
                leader_epoch: int
                def __init__(
                    self,
                    *args: Any,
                    leader_id: int = ...,
                    leader_epoch: int = ...,
                    version: int | None = None,
                    **kwargs: Any,
                ) -> None: ...
                @property
                def version(self) -> int | None: ...
                def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

            index: int
            error_code: int
            snapshot_id: SnapshotId
            current_leader: LeaderIdAndEpoch
            size: int
            position: int
            unaligned_records: bytes | ApiData
            def __init__(
                self,
                *args: Any,
                index: int = ...,
                error_code: int = ...,
                snapshot_id: SnapshotId = ...,
                current_leader: LeaderIdAndEpoch = ...,
                size: int = ...,
                position: int = ...,
                unaligned_records: bytes | ApiData = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        name: str
        partitions: list[PartitionSnapshot]
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            partitions: list[PartitionSnapshot] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    class NodeEndpoint(DataContainer):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *args: Any,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    error_code: int
    topics: list[TopicSnapshot]
    node_endpoints: list[NodeEndpoint]
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[TopicSnapshot] = ...,
        node_endpoints: list[NodeEndpoint] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class MetadataOffsetRequest(ApiMessage):
    current_metadata_offset: int
    def __init__(
        self,
        *args: Any,
        current_metadata_offset: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class MetadataOffsetResponse(ApiMessage):
    error_code: int
    controller_epoch: int
    committed_offset: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        controller_epoch: int = ...,
        committed_offset: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class PreambleRequest(ApiMessage):
    principal: str
    client_host: str
    client_port: int
    listener: str
    advertised_host: str
    base_port: int
    session_expiry_ms: int
    node_id: int
    sasl_mechanism: str
    def __init__(
        self,
        *args: Any,
        principal: str = ...,
        client_host: str = ...,
        client_port: int = ...,
        listener: str = ...,
        advertised_host: str = ...,
        base_port: int = ...,
        session_expiry_ms: int = ...,
        node_id: int = ...,
        sasl_mechanism: str = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class PreambleResponse(ApiMessage):
    error_code: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class RegisterServiceRequest(ApiMessage):
    class ServiceEndpoint(DataContainer):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    role: str
    service_id: int
    incarnation_id: uuid.UUID
    endpoints: list[ServiceEndpoint]
    def __init__(
        self,
        *args: Any,
        role: str = ...,
        service_id: int = ...,
        incarnation_id: uuid.UUID = ...,
        endpoints: list[ServiceEndpoint] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class RegisterServiceResponse(ApiMessage):
    error_code: int
    error_message: str | None
    controller_id: int
    controller_epoch: int
    service_epoch: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        error_message: str | None = ...,
        controller_id: int = ...,
        controller_epoch: int = ...,
        service_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ReportGroupsRequest(ApiMessage):
    service_id: int
    service_epoch: int
    kind: str
    first: bool
    last: bool
    payload: bytes | ApiData
    def __init__(
        self,
        *args: Any,
        service_id: int = ...,
        service_epoch: int = ...,
        kind: str = ...,
        first: bool = ...,
        last: bool = ...,
        payload: bytes | ApiData = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ReportGroupsResponse(ApiMessage):
    error_code: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ServiceHeartbeatRequest(ApiMessage):
    role: str
    service_id: int
    service_epoch: int
    metadata_offset: int
    want_shut_down: bool
    def __init__(
        self,
        *args: Any,
        role: str = ...,
        service_id: int = ...,
        service_epoch: int = ...,
        metadata_offset: int = ...,
        want_shut_down: bool = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class ServiceHeartbeatResponse(ApiMessage):
    error_code: int
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        error_code: int = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class TxnOffsetCommitRequest(ApiMessage):
    class TxnOffsetCommitRequestTopic(DataContainer):
        class TxnOffsetCommitRequestPartition(DataContainer):
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int
            committed_metadata: str | None
            def __init__(
                self,
                *args: Any,
                partition_index: int = ...,
                committed_offset: int = ...,
                committed_leader_epoch: int = ...,
                committed_metadata: str | None = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        name: str
        topic_id: uuid.UUID
        partitions: list[TxnOffsetCommitRequestPartition]
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            topic_id: uuid.UUID = ...,
            partitions: list[TxnOffsetCommitRequestPartition] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequestTopic]
    def __init__(
        self,
        *args: Any,
        transactional_id: str = ...,
        group_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        topics: list[TxnOffsetCommitRequestTopic] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class TxnOffsetCommitResponse(ApiMessage):
    class TxnOffsetCommitResponseTopic(DataContainer):
        class TxnOffsetCommitResponsePartition(DataContainer):
            partition_index: int
            error_code: int
            def __init__(
                self,
                *args: Any,
                partition_index: int = ...,
                error_code: int = ...,
                version: int | None = None,
                **kwargs: Any,
            ) -> None: ...
            @property
            def version(self) -> int | None: ...
            def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

        name: str
        topic_id: uuid.UUID
        partitions: list[TxnOffsetCommitResponsePartition]
        def __init__(
            self,
            *args: Any,
            name: str = ...,
            topic_id: uuid.UUID = ...,
            partitions: list[TxnOffsetCommitResponsePartition] = ...,
            version: int | None = None,
            **kwargs: Any,
        ) -> None: ...
        @property
        def version(self) -> int | None: ...
        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...

    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponseTopic]
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        topics: list[TxnOffsetCommitResponseTopic] = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class UnregisterBrokerRequest(ApiMessage):
    broker_id: int
    def __init__(
        self,
        *args: Any,
        broker_id: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...


class UnregisterBrokerResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    controller_epoch: int
    def __init__(
        self,
        *args: Any,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        controller_epoch: int = ...,
        version: int | None = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def version(self) -> int | None: ...
    def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]: ...
    name: str
    type: str
    API_KEY: int
    API_VERSION: int
    valid_versions: tuple[int, int]
    min_version: int
    max_version: int
    @property
    def header(self) -> Any: ...
    @classmethod
    def is_request(cls) -> bool: ...
    def expect_response(self) -> bool: ...
    def with_header(self, correlation_id: int = 0, client_id: str = "kafka-python") -> None: ...
