"""Metadata records: the only thing that changes the metadata image.

Names and fields are Kafka's (record schemas of KRaft: KIP-631, KIP-858, KIP-966), so that readers find what they know.
Four records are ours, with api keys from 10000: ClusterRecord, ServiceRecord, RemoveServiceRecord and ShardOwnerRecord.
How they look as bytes is in codec.py.
"""

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType

NO_UUID = UUID(int=0)
NO_LEADER = -1
NO_LEADER_CHANGE = -2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker or service listens: "INTERNAL", "CLIENT", or "UNIX-<boot id>" (host = socket path, port 0)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class BrokerFeature:
    """A range of feature levels that a broker supports (KIP-584)."""

    name: str
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker (re)registered; broker_epoch is the offset of this record (KIP-631)."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[Endpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """A broker left for good."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """fenced: -1 unfenced, 0 no change, 1 fenced; in_controlled_shutdown: 0 no change, 1 in controlled shutdown."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic without partitions; its PartitionRecords follow in the same batch."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic, its partitions, configs and shards are gone."""

    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """The whole state of one partition."""

    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """What changed in one partition; None and NO_LEADER_CHANGE (-2) mean no change.

    A leader that is named, even the same one, raises leader_epoch by one; any change raises partition_epoch by one.
    """

    partition_id: int
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    directories: tuple[UUID, ...] | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None

    def of(self, partition_id: int, topic_id: UUID) -> "PartitionChangeRecord":
        """Returns the same change of another partition."""
        return PartitionChangeRecord(
            partition_id,
            topic_id,
            self.isr,
            self.leader,
            self.replicas,
            self.removing_replicas,
            self.adding_replicas,
            self.leader_recovery_state,
            self.directories,
            self.eligible_leader_replicas,
            self.last_known_elr,
        )


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One config of one resource; value None deletes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """One part of a quota's entity; entity_name None is the default entity (KIP-546)."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """One quota of one entity, set or removed."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool = False


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """A user's credential for one SCRAM mechanism (KIP-554): enough to check a password, not enough to log in with."""

    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    """A user's credential for one SCRAM mechanism is gone."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """A block of producer ids went to a broker; next_producer_id starts the next block."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """A finalized feature level; 0 removes the feature (KIP-584)."""

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL was created; the fields of Acl, with Kafka's names."""

    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, acl_id: UUID, acl: Acl) -> "AccessControlEntryRecord":
        """The record that creates an ACL."""
        pattern = acl.resource_type, acl.name, acl.pattern_type
        return cls(acl_id, *pattern, acl.principal, acl.host, acl.operation, acl.permission)

    @property
    def acl(self) -> Acl:
        """The ACL itself."""
        return Acl(
            ResourceType(self.resource_type),
            self.resource_name,
            PatternType(self.pattern_type),
            self.principal,
            self.host,
            AclOperation(self.operation),
            AclPermission(self.permission_type),
        )


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL was deleted."""

    id: UUID


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    """Advances the offset and nothing else."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The first record of every log: names the cluster."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A gateway, coordinator or quota service (re)registered; service_epoch is the offset of this record."""

    role: str
    service_id: int
    service_epoch: int
    incarnation_id: UUID
    end_points: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveServiceRecord:
    """A service's session expired or it left."""

    role: str
    service_id: int
    service_epoch: int


@dataclass(frozen=True, slots=True)
class ShardOwnerRecord:
    """A partition of an internal topic has this coordinator from this shard epoch on; owner -1 is none."""

    topic: str
    partition: int
    owner: int
    shard_epoch: int


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | ClientQuotaRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ClusterRecord
    | ServiceRecord
    | RemoveServiceRecord
    | ShardOwnerRecord
)
