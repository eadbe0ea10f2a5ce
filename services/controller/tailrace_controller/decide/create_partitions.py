"""CreatePartitions: more partitions for topics; every asked topic is echoed with its own error."""

from collections import Counter
from collections.abc import Sequence

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.directories import of_new
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.metadata.records import MetadataRecord, PartitionRecord
from tailrace.quota.mutations import UNLIMITED, MutationQuota
from tailrace.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from tailrace_controller.decide import placement, shards
from tailrace_controller.decide.controller_result import MAX_RECORDS, ControllerResult
from tailrace_controller.decide.placement import Load, Placed

_Asked = CreatePartitionsRequest.CreatePartitionsTopic
_Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def create(
    image: MetadataImage, request: CreatePartitionsRequest, quota: MutationQuota = UNLIMITED
) -> ControllerResult[CreatePartitionsResponse]:
    """Adds partitions where the count is an increase and the client's quota allows it (KIP-599)."""
    asked = Counter(topic.name for topic in request.topics)
    load = placement.Load(image)
    records: list[MetadataRecord] = []
    results = []
    for topic in request.topics:
        count, asked[topic.name] = asked[topic.name], 0
        if not count:
            continue  # named twice, and answered
        code, message = ErrorCode.NONE, None
        try:
            if count > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _add(image, topic, MAX_RECORDS - len(records), load, quota)
        except ApiError as refused:
            code, message = refused.code, refused.message
        results.append(_Result(name=topic.name, error_code=code, error_message=message))
    if request.validate_only or not records:
        return ControllerResult(CreatePartitionsResponse(results=results))
    return ControllerResult(CreatePartitionsResponse(results=results), shards.with_assignment(image, tuple(records)))


def _add(
    image: MetadataImage, asked: _Asked, most: int, load: Load, quota: MutationQuota
) -> tuple[MetadataRecord, ...]:
    topic = image.topic(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if asked.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an increase.",
        )
    additional = asked.count - present
    if additional > most:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if not quota.take(additional):
        raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if asked.assignments is None:
        placed = _automatic(image, topic, additional, load)
    else:
        placed = _manual(image, topic, asked.assignments, additional)
    return tuple(
        PartitionRecord(
            present + index, topic.topic_id, replicas, isr, leader=isr[0], directories=of_new(image, replicas)
        )
        for index, (replicas, isr) in enumerate(placed)
    )


def _automatic(image: MetadataImage, topic: TopicImage, count: int, load: Load) -> list[Placed]:
    replication_factor = len(topic.partitions[0].replicas)
    brokers = placement.candidates(image, replication_factor)
    # go on where the topic's last partition left off, so that it stays even over its brokers
    live = [broker.broker_id for broker in brokers.live]
    last = topic.partitions[-1].replicas[0]
    start = live.index(last) + 1 if last in live else load.start(brokers.live)
    return placement.place(brokers, count, replication_factor, start)


def _manual(
    image: MetadataImage, topic: TopicImage, assignments: Sequence[_Asked.CreatePartitionsAssignment], count: int
) -> list[Placed]:
    if len(assignments) != count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified.",
        )
    placed = []
    expected = len(topic.partitions[0].replicas)
    for index, assignment in enumerate(assignments, start=len(topic.partitions)):
        replicas = tuple(assignment.broker_ids)
        placement.check_manual(image, replicas, expected)
        placed.append(placement.manual(image, replicas, index))
    return placed
