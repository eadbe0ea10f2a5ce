"""Metadata v0-13, from the image.

v0: no topics named means all of them; from v1 on null does, and an empty list means none. v0 also leaves out replicas
that are away and says REPLICA_NOT_AVAILABLE. v4: auto-creation may be declined. v6: LISTENER_NOT_FOUND. v8-10:
authorized operations (KIP-430). v10: topic ids; v12: a null name asks by id (KIP-516). v13: top-level error.
A topic that is being created is UNKNOWN_TOPIC_OR_PARTITION until the image has it, as in Apache Kafka 4, never
LEADER_NOT_AVAILABLE; the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.context import Context, Identity
from tailrace.wire.messages import MetadataResponse
from tailrace_gateway.handlers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from tailrace_gateway.handlers.topics import INTERNAL_TOPICS, leader_of, legal, offline, online

if TYPE_CHECKING:
    from tailrace_gateway.gateway import Gateway

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition


async def handle(request: Any, context: Context, gateway: Gateway) -> MetadataResponse:
    await gateway.suspects.settled(lambda: _known(request, gateway.image))
    image, identity = gateway.image, context.connection.identity
    brokers = []
    for broker in gateway.nodes():
        endpoint = gateway.endpoint_of(broker, identity)
        if endpoint is not None:
            host, port = endpoint
            brokers.append(
                MetadataResponse.MetadataResponseBroker(
                    node_id=broker.broker_id, host=host, port=port, rack=broker.rack
                )
            )
    topics = [
        described(gateway, topic, identity, context.api_version) if isinstance(topic, TopicImage) else topic
        for topic in _asked(request, context, gateway)
    ]
    if context.api_version >= 8 and request.include_topic_authorized_operations:
        for topic in topics:
            if not topic.error_code:
                topic.authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=gateway.controller_id(identity),
        topics=topics,
    )
    if 8 <= context.api_version <= 10 and request.include_cluster_authorized_operations:
        response.authorized_operations = CLUSTER_OPERATIONS
    return response


def _known(request: Any, image: MetadataImage) -> list[TopicImage]:
    """The topics asked for that there are; all of them if none is named."""
    if not request.topics:
        return list(image.topics.values())
    found = (image.topic(topic.name) or image.topic_by_id(topic.topic_id) for topic in request.topics)
    return [topic for topic in found if topic is not None]


def _asked(request: Any, context: Context, gateway: Gateway) -> list[Any]:
    """The topics asked for: images, and refusals where there is none."""
    image = gateway.image
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [topic for _, topic in sorted(image.topics.items())]
    found: list[Any] = []
    missing: list[str] = []
    for asked in request.topics:
        if context.api_version >= 10 and asked.topic_id is not None:
            topic = image.topic_by_id(asked.topic_id)
            found.append(topic or _refused(None, ErrorCode.UNKNOWN_TOPIC_ID, asked.topic_id))
        elif (topic := image.topic(asked.name)) is not None:
            found.append(topic)
        elif not legal(asked.name):
            found.append(_refused(asked.name, ErrorCode.INVALID_TOPIC_EXCEPTION))
        else:
            found.append(_refused(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            missing.append(asked.name)
    if missing and (context.api_version < 4 or request.allow_auto_topic_creation):
        gateway.auto_create(missing)
    return found


def _refused(name: str | None, code: ErrorCode, topic_id: Any = None) -> _Topic:
    return _Topic(error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS, partitions=[])


def described(gateway: Gateway, topic: TopicImage, identity: Identity, version: int) -> _Topic:
    """One topic with all its partitions."""
    return _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _described(gateway, number, partition, identity, version)
            for number, partition in enumerate(topic.partitions)
        ],
    )


def _described(gateway: Gateway, number: int, partition: PartitionImage, identity: Identity, version: int) -> Any:
    leader, code = leader_of(gateway, partition, identity)
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas, isr = online(gateway, replicas, identity), online(gateway, isr, identity)
        if not code and len(replicas) + len(isr) < len(partition.replicas) + len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    if code == ErrorCode.LISTENER_NOT_FOUND and version < 6:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return _Partition(
        error_code=code,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline(gateway, partition, identity),
    )
