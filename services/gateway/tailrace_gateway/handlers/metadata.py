"""Metadata v0-13, from the image.

v0: no topics named means all of them; from v1 on null does, and an empty list means none. v0 also leaves out replicas
that are away and says REPLICA_NOT_AVAILABLE. v4: auto-creation may be declined. v6: LISTENER_NOT_FOUND. v8-10:
authorized operations (KIP-430). v10: topic ids; v12: a null name asks by id (KIP-516). v13: top-level error.
A topic that is being created is UNKNOWN_TOPIC_OR_PARTITION until the image has it, as in Apache Kafka 4, never
LEADER_NOT_AVAILABLE; the client asks again. A topic named several times is answered once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.context import Context
from tailrace.net.pieces import freed, in_pieces, in_turns
from tailrace.net.spread import Spread
from tailrace.steps import ROWS_A_STEP
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.hot.metadata import encode_refused_topic, encode_topic, encoding_metadata, encoding_topic
from tailrace.wire.messages import MetadataResponse
from tailrace_gateway.encoded_topics import Encoded
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.handlers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from tailrace_gateway.handlers.topics import Reach, legal

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_MOST_AT_ONCE: Final = 1000  # topics told again before others have their turn: some milliseconds
_REFUSED: Final = 4  # so many take as long as a row of a topic that is not there
_ENCODED: Final = 20  # or as one that has to be encoded
_WIDE: Final = 2 * ROWS_A_STEP  # a topic of more partitions is encoded in steps
_BY_ID_FROM: Final = 12
_MOST_CREATED: Final = 10_000  # a request that names more that are not there creates none, as in Kafka


async def handle(request: Any, context: Context, gateway: Gateway) -> EncodeBuffer:
    await _check(request, context.api_version)
    await gateway.suspects.settled(lambda: _known(request, gateway.image))
    image, identity, version = gateway.image, context.connection.identity, context.api_version
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
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=gateway.controller_id(identity),
        topics=[],
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.authorized_operations = CLUSTER_OPERATIONS
    topics = await _topics(request, version, gateway, image)
    body = await in_turns(encoding_metadata(response, version, topics))
    await freed(topics)
    return body


async def _check(request: Any, version: int) -> None:
    """Refuses all of a request with a topic that has neither name nor id, or a name or an id too early for them."""
    async for topic in in_pieces(request.topics or (), _MOST_AT_ONCE):
        if topic.name is None and (version < _BY_ID_FROM or topic.topic_id is None):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if topic.topic_id is not None and version < _BY_ID_FROM:
            raise ApiError(ErrorCode.INVALID_REQUEST)


async def _topics(request: Any, version: int, gateway: Gateway, image: MetadataImage) -> list[bytes]:
    """Encodes what was not told before; others have their turn meanwhile."""
    operations = version >= 8 and bool(request.include_topic_authorized_operations)
    told, reach = gateway.told.of(image, (version, operations)), Reach(gateway, image)
    topics, missing, work = [], list[str](), 0
    answered = Spread[Any, None]()
    for asked in _asked(request, version, image, answered):
        if work >= _MOST_AT_ONCE:
            await gateway.others_first()
            work = 0
        work += 1
        if asked is None:
            continue
        if not isinstance(asked, TopicImage):
            topics.append(encode_refused_topic(version, *asked))
            work += _REFUSED
            code, name, _, _ = asked
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name and len(missing) <= _MOST_CREATED:
                missing.append(name)
            continue
        known = told.get(asked.name)
        if known is None or known[0] is not asked:
            if len(asked.partitions) <= _WIDE:
                row = describe_topic(reach, asked, version, operations=operations)
                known = told[asked.name] = (asked, encode_topic(row, version))
                work += _ENCODED * (1 + len(asked.partitions))
            else:
                known = await _wide(gateway, told, reach, asked, version, operations=operations)
        topics.append(known[1])
    await freed(answered)
    if 0 < len(missing) <= _MOST_CREATED and (version < 4 or request.allow_auto_topic_creation):
        gateway.auto_create(missing)
    return topics


async def _wide(
    gateway: Gateway, told: Encoded, reach: Reach, topic: TopicImage, version: int, *, operations: bool
) -> tuple[TopicImage, bytes]:
    """Encodes a topic of very many partitions, by which others have their turn, for all who ask for it meanwhile."""
    async with gateway.told.encoding:
        known = told.get(topic.name)
        if known is None or known[0] is not topic:
            row = describe_topic(reach, replace(topic, partitions=()), version, operations=operations)
            rows = (_partition(reach, number, one, version) for number, one in enumerate(topic.partitions))
            parts = iter(lambda: list(islice(rows, ROWS_A_STEP)), [])
            known = told[topic.name] = (topic, await in_turns(encoding_topic(row, version, parts)))
        return known


async def _known(request: Any, image: MetadataImage) -> list[TopicImage]:
    """The topics asked for that there are; all of them if none is named."""
    if not request.topics:
        return list(image.topics.values())
    rows = in_pieces(request.topics)
    found = [image.topic(topic.name) or image.topic_by_id(topic.topic_id) async for topic in rows]
    return [topic async for topic in in_pieces(found) if topic is not None]


def _asked(request: Any, version: int, image: MetadataImage, answered: Spread[Any, None]) -> Iterator[Any]:
    """The topics asked for: images, refusals where there is none, and None for what was named before."""
    if request.topics is None or (version == 0 and not request.topics):
        yield from (image.topics[name] for name in sorted(image.topics))
        return
    for asked in request.topics:
        by_id = version >= 10 and asked.topic_id is not None
        topic = image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)
        which = topic.topic_id if topic is not None else asked.topic_id if by_id else asked.name
        if which in answered:
            yield None
            continue
        answered[which] = None
        if topic is not None:
            yield topic
        elif by_id:
            yield _refused(None, ErrorCode.UNKNOWN_TOPIC_ID, asked.topic_id)
        elif not legal(asked.name):
            yield _refused(asked.name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            yield _refused(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _refused(name: str | None, code: ErrorCode, topic_id: Any = None) -> tuple[int, str | None, Any, bool]:
    return int(code), name, topic_id, name in INTERNAL_TOPICS


def describe_topic(reach: Reach, topic: TopicImage, version: int, *, operations: bool) -> _Topic:
    """One topic with all its partitions."""
    row = _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(reach, number, partition, version) for number, partition in enumerate(topic.partitions)],
    )
    if operations:
        row.authorized_operations = TOPIC_OPERATIONS
    return row


def _partition(reach: Reach, number: int, partition: PartitionImage, version: int) -> Any:
    leader, code = reach.leader(partition)
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas, isr = reach.online(replicas), reach.online(isr)
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
        offline_replicas=reach.offline(partition),
    )
