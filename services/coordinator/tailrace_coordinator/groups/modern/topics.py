"""The topics that a group subscribes to: their hash (KIP-1101) and what assignors see of them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from uuid import UUID

from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace_coordinator.groups.assignors.spec import TopicSpec


def metadata_hash(names: Iterable[str], image: MetadataImage, known: dict[str, bytes]) -> int:
    """Returns a number that changes with what an assignment depends on; 0 where none of the topics exists.

    It is not Apache Kafka's number: a group that moves from one to the other is assigned once more. known: hashes of
    topics in this image, which it adds to: each member that joins a group asks for those of all its topics.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.topic(name)
        if topic is None:
            continue
        found = True
        if name not in known:
            known[name] = _hash(topic, image)
        digest.update(known[name])
    return int.from_bytes(digest.digest(), signed=True) if found else 0


def _hash(topic: TopicImage, image: MetadataImage) -> bytes:
    digest = blake2b(topic.topic_id.bytes + len(topic.partitions).to_bytes(4), digest_size=16)
    for partition in topic.partitions:
        brokers = (image.brokers.get(replica) for replica in partition.replicas)
        racks = sorted({broker.rack for broker in brokers if broker is not None and broker.rack is not None})
        digest.update(len(racks).to_bytes(4) + "".join(f"{rack}\0" for rack in racks).encode())
    return digest.digest()


def topic_specs(names: Iterable[str], image: MetadataImage) -> dict[UUID, TopicSpec]:
    """Returns those of the topics that exist. No assignor looks at racks, as in Apache Kafka 4.4."""
    topics = (image.topic(name) for name in names)
    return {topic.topic_id: TopicSpec(len(topic.partitions)) for topic in topics if topic is not None}
