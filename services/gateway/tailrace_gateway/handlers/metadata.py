"""Metadata v0-13, from the image.

v0: no topics named means all of them; from v1 on null does, and an empty list means none. v0 also leaves out replicas
that are away and says REPLICA_NOT_AVAILABLE. v4: auto-creation may be declined. v6: LISTENER_NOT_FOUND. v8-10:
authorized operations (KIP-430). v10: topic ids; v12: a null name asks by id (KIP-516). v13: top-level error.
A topic that is being created is UNKNOWN_TOPIC_OR_PARTITION until the image has it, as in Apache Kafka 4, never
LEADER_NOT_AVAILABLE; the client asks again. A topic named several times is answered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from tailrace.access.authorizer import Authorized
from tailrace.access.checks import granted
from tailrace.access.resources import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.context import Context
from tailrace.net.large import MANY_ROWS
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.hot.metadata import encode_metadata, encode_refused_topic, encode_topic
from tailrace.wire.messages import MetadataRequest, MetadataResponse
from tailrace_gateway.encoded_topics import Encoded
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.handlers.operations import TOPIC_OPERATIONS
from tailrace_gateway.handlers.topics import Reach, legal

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_Refused: TypeAlias = tuple[int, str | None, UUID | None, bool]  # code, name, id, whether it is internal
_BY_ID_FROM: Final = 12
_TOPIC, _CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
_NONE: Final = (None, b"")
_MOST_CREATED: Final = 10_000  # a request that names more that are not there creates none, as in Kafka


async def handle(request: MetadataRequest, context: Context, gateway: Gateway) -> EncodeBuffer:
    version = context.api_version
    _check(request, version)
    await gateway.suspects.settled(lambda: _known(request, version, gateway.image))
    image, operations = gateway.image, version >= 8 and bool(request.include_topic_authorized_operations)
    session = context.connection.session
    may = session.authorized if session.restricted else None
    # Authorized operations are each client's own.
    encoded = {} if operations and may is not None else gateway.encoded.of(image, (version, operations))
    creates = gateway.advertised.auto_create_topics and (version < 4 or request.allow_auto_topic_creation)
    work = partial(
        _answer,
        request,
        _without_topics(request, context, gateway),
        version,
        TopicEncoder(Reach(gateway, image), encoded, version, operations, may),
        image,
        creates,
    )
    body, missing = await gateway.large.run(work) if _takes_long(request, version, image, encoded) else work()
    if 0 < len(missing) <= _MOST_CREATED and creates:
        gateway.auto_create(missing)
    return body


def _check(request: MetadataRequest, version: int) -> None:
    """Refuses all of a request with a topic that has neither name nor id, or a name or an id too early for them."""
    for topic in request.topics or ():
        if topic.name is None and (version < _BY_ID_FROM or topic.topic_id is None):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if topic.topic_id is not None and version < _BY_ID_FROM:
            raise ApiError(ErrorCode.INVALID_REQUEST)


def _without_topics(request: MetadataRequest, context: Context, gateway: Gateway) -> MetadataResponse:
    identity, brokers = context.connection.session.identity, []
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
        cluster_id=gateway.image.cluster_id,
        controller_id=gateway.controller_id(identity),
        topics=[],
    )
    if 8 <= context.api_version <= 10 and request.include_cluster_authorized_operations:
        response.authorized_operations = granted(context.connection.session.authorized, _CLUSTER, CLUSTER_NAME)
    return response


def _takes_long(request: Any, version: int, image: MetadataImage, encoded: Encoded) -> bool:
    """Whether there are many topics, or many partitions that were not encoded before: the codec thread answers then."""
    if len(image.topics if _is_for_all(request, version) else request.topics) > MANY_ROWS:
        return True
    new = (topic for topic in _known(request, version, image) if encoded.get(topic.name, _NONE)[0] is not topic)
    return sum(len(topic.partitions) for topic in new) > MANY_ROWS


def _is_for_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _known(request: Any, version: int, image: MetadataImage) -> Iterable[TopicImage]:
    """The topics asked for that there are."""
    if _is_for_all(request, version):
        return image.topics.values()
    found = (image.topic(topic.name) or image.topic_by_id(topic.topic_id) for topic in request.topics)
    return [topic for topic in found if topic is not None]


def _answer(
    request: MetadataRequest,
    response: MetadataResponse,
    version: int,
    encoder: TopicEncoder,
    image: MetadataImage,
    creates: bool,
) -> tuple[EncodeBuffer, list[str]]:
    """The answer's body, and the names of topics that there are none of and that the client may create."""
    topics, missing = [], list[str]()
    for asked in _permitted(_asked(request, version, image), request, version, encoder.may, creates):
        if isinstance(asked, TopicImage):
            topics.append(encoder.encode(asked))
            continue
        topics.append(encode_refused_topic(version, *asked))
        code, name, _, _ = asked
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name:
            missing.append(name)
    return encode_metadata(response, version, topics), missing


def _asked(request: Any, version: int, image: MetadataImage) -> Iterator[TopicImage | _Refused]:
    """The topics asked for, each once: images, and refusals where there is none."""
    if _is_for_all(request, version):
        yield from (image.topics[name] for name in sorted(image.topics))
        return
    answered: set[str | UUID | None] = set()
    for asked in request.topics:
        by_id = version >= 10 and asked.topic_id is not None
        topic = image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)
        which = topic.topic_id if topic is not None else asked.topic_id if by_id else asked.name
        if which in answered:
            continue
        answered.add(which)
        if topic is not None:
            yield topic
        elif by_id:
            yield _refused(None, ErrorCode.UNKNOWN_TOPIC_ID, asked.topic_id)
        elif not legal(asked.name):
            yield _refused(asked.name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            yield _refused(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _permitted(
    rows: Iterator[TopicImage | _Refused], request: MetadataRequest, version: int, may: Authorized | None, creates: bool
) -> Iterator[TopicImage | _Refused]:
    """The rows as the client may know them: others are refused where it named them, else left out."""
    if may is None:
        yield from rows
        return
    creates_all = creates and may(AclOperation.CREATE, _CLUSTER, CLUSTER_NAME)
    by_id = {asked.topic_id for asked in request.topics or ()}
    for row in rows:
        topic = row if isinstance(row, TopicImage) else None
        code, name = (0, row.name) if isinstance(row, TopicImage) else row[:2]
        if name is None or code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            yield row
        elif may(AclOperation.DESCRIBE, _TOPIC, name):
            if topic is not None or not creates or creates_all or may(AclOperation.CREATE, _TOPIC, name):
                yield row
            else:
                yield _refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif _is_for_all(request, version):
            continue
        elif topic is not None and topic.topic_id in by_id:
            yield _refused(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.topic_id)
        else:
            yield _refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class TopicEncoder(NamedTuple):
    """Encodes the topics of one image for one version; what was encoded before is kept."""

    reach: Reach
    encoded: Encoded
    version: int
    operations: bool
    may: Authorized | None = None  # of a client that may not do everything

    def encode(self, topic: TopicImage) -> bytes:
        """The topic as it stands in an answer."""
        known = self.encoded.get(topic.name)
        if known is None or known[0] is not topic:
            row = describe_topic(self.reach, topic, self.version, operations=self.operations)
            if self.operations and self.may is not None:
                row.authorized_operations = granted(self.may, _TOPIC, topic.name)
            known = self.encoded[topic.name] = (topic, encode_topic(row, self.version))
        return known[1]


def _refused(name: str | None, code: ErrorCode, topic_id: UUID | None = None) -> _Refused:
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


def _partition(reach: Reach, number: int, partition: PartitionImage, version: int) -> _Partition:
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
