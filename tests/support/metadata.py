"""Metadata for tests: images with live brokers and topics, built by the records that a controller would write."""

from uuid import UUID

from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import (
    BrokerRegistrationChangeRecord,
    ClusterRecord,
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    ServiceRecord,
    TopicRecord,
)
from tailrace.metadata.replay import replay

CLUSTER_ID = "Zm9ydHktdHdvLWJ5dGVz"


def topic_id(number: int) -> UUID:
    return UUID(int=0x40008000000000000000 + number)


def broker(broker_id: int, epoch: int, *, fenced: bool = False) -> list[MetadataRecord]:
    """A broker's registration and, unless it stays fenced, its first accepted heartbeat."""
    endpoint = Endpoint("INTERNAL", "127.0.0.1", 20_000 + broker_id)
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(broker_id, UUID(int=1000 + broker_id), epoch, end_points=(endpoint,))
    ]
    return records if fenced else [*records, BrokerRegistrationChangeRecord(broker_id, epoch, fenced=-1)]


def topic(name: str, number: int, leaders: list[int]) -> list[MetadataRecord]:
    """A topic with one replica per partition, on these brokers."""
    partitions = [
        PartitionRecord(index, topic_id(number), (leader,), (leader,), leader) for index, leader in enumerate(leaders)
    ]
    return [TopicRecord(name, topic_id(number)), *partitions]


def service(role: str, service_id: int, epoch: int) -> ServiceRecord:
    return ServiceRecord(role, service_id, epoch, UUID(int=2000 + service_id), ())


def cluster(brokers: int = 1) -> MetadataImage:
    """An image with live brokers 0..n-1, whose epochs are 10, 11, ..., at offset 99 and controller epoch 3."""
    records: list[MetadataRecord] = [ClusterRecord(CLUSTER_ID)]
    for broker_id in range(brokers):
        records += broker(broker_id, 10 + broker_id)
    return replay(MetadataImage(), records, offset=99, epoch=3)


def after(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    """The image one batch later."""
    return replay(image, records, image.offset + len(records), image.epoch)


def replicated(
    name: str, number: int, isr: tuple[int, ...] = (0, 1, 2), replicas: tuple[int, ...] = (0, 1, 2), leader: int = -2
) -> list[MetadataRecord]:
    """A topic of one partition with several replicas; the leader is the first in sync unless it is named."""
    if leader == -2:
        leader = isr[0] if isr else -1
    return [TopicRecord(name, topic_id(number)), PartitionRecord(0, topic_id(number), replicas, isr, leader)]
