"""The metadata image: what the cluster looks like after a metadata log offset. Frozen; a record makes a new one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar
from uuid import UUID

from tailrace.access.acls import Acl
from tailrace.access.image import AclImage
from tailrace.metadata.records import NO_LEADER, BrokerFeature, Endpoint, UserScramCredentialRecord

QuotaKey: TypeAlias = tuple[tuple[str, str | None], ...]  # ((entity type, name or None for default), ...), sorted
ResourceKey: TypeAlias = tuple[int, str]  # (config resource type, name)
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition; leader -1 means none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica that is not only just being added is out of sync."""
        return len(self.isr) < len(self.replicas) - len(self.adding_replicas)

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are on their way to or from it (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; the index in partitions is the partition id."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One registered broker; only one that is not fenced may lead."""

    broker_id: int
    broker_epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    features: tuple[BrokerFeature, ...] = ()

    def endpoint(self, name: str) -> Endpoint | None:
        """Returns the endpoint of that name, if the broker published one."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)


@dataclass(frozen=True, slots=True)
class ServiceImage:
    """One live gateway, coordinator or quota service."""

    role: str
    service_id: int
    service_epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()

    def endpoint(self, name: str) -> Endpoint | None:
        """Returns the endpoint of that name, if the service published one."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)


@dataclass(frozen=True, slots=True)
class ShardImage:
    """Who coordinates one partition of an internal topic; owner -1 means nobody."""

    topic: str
    partition: int
    owner: int
    shard_epoch: int


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything the log says up to and including offset (-1: nothing yet), written by controller epoch `epoch`.

    The mappings must not be changed: images share those that a record did not touch.
    """

    offset: int = -1
    epoch: int = -1
    cluster_id: str = ""
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    services: Mapping[tuple[str, int], ServiceImage] = field(default_factory=dict)
    shards: Mapping[tuple[str, int], ShardImage] = field(default_factory=dict)
    configs: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, Mapping[str, float]] = field(default_factory=dict)
    scram: Mapping[str, Mapping[int, UserScramCredentialRecord]] = field(default_factory=dict)  # by user and mechanism
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acl_ids: Mapping[UUID, Acl] = field(default_factory=dict)
    acls: AclImage = field(default_factory=AclImage)  # the same

    def topic(self, name: str) -> TopicImage | None:
        """Returns the topic of that name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """Returns the topic of that id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """Returns one partition of a topic, None when either does not exist."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def leader(self, name: str, index: int) -> int:
        """Returns the partition's leader, -1 when there is none or no such partition."""
        partition = self.partition(name, index)
        return NO_LEADER if partition is None else partition.leader

    def live_brokers(self) -> Iterator[BrokerImage]:
        """Yields the brokers that are not fenced, by id."""
        return (broker for _, broker in sorted(self.brokers.items()) if not broker.fenced)

    def services_of(self, role: str) -> Iterator[ServiceImage]:
        """Yields the live services of a role, by id."""
        return (service for (kind, _), service in sorted(self.services.items()) if kind == role)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Returns the overrides of a config resource, empty when there are none."""
        return self.configs.get((resource_type, name), {})


def changed(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> list[_Key]:
    """Returns the keys of two images' mappings whose values may differ, those that only one has among them.

    Images share what no record touched: thousands of topics are passed over without a look into them.
    """
    if old is new:
        return []
    return [key for key, value in new.items() if old.get(key) is not value] + [key for key in old if key not in new]
