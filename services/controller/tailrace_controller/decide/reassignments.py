"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455): partitions move to other replicas.

A reassignment first adds the new replicas to the old ones. When all that stay are in sync (alter_partition.py), those
that leave go, in the same change. Null replicas cancel: the added ones go, the others stay.
"""

from collections.abc import Iterable, Iterator

from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.metadata.records import PartitionChangeRecord
from tailrace.net.limits.answer_budget import TOO_LARGE, AnswerBudget, RefusalTexts, text_bytes
from tailrace.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tailrace_controller.decide import placement
from tailrace_controller.decide.controller_result import ControllerResult, check_size
from tailrace_controller.decide.elections import Elections
from tailrace_controller.decide.partition_change import Election, Wish, without

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = _Topic.ReassignablePartitionResponse
_ROW_BYTES, _ID_BYTES = 8, 4  # of a partition in the list, and of each replica
_Ongoing = ListPartitionReassignmentsResponse.OngoingTopicReassignment


def alter(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, version: int, config: Config
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Starts, changes and cancels reassignments; each partition has its own error.

    POLICY_VIOLATION for those beyond 10,000, as in Kafka, whose word for it is UNKNOWN_SERVER_ERROR.
    """
    elections = Elections(image, config)
    may_change_factor = version < 1 or bool(request.allow_replication_factor_change)
    records: list[PartitionChangeRecord] = []
    topics, texts = [], RefusalTexts()
    for asked in request.topics:
        rows = []
        for wanted in asked.partitions:
            code, message = ErrorCode.NONE, None
            try:
                check_size(records, 1)
                topic, partition = _find(image, asked.name, wanted.partition_index)
                if wanted.replicas is None:
                    record = cancel(elections, topic, wanted.partition_index, partition)
                else:
                    replicas = tuple(wanted.replicas)
                    _check(image, partition, replicas, may_change_factor=may_change_factor)
                    record = begin(elections, topic, wanted.partition_index, partition, replicas)
                if record is not None:
                    records.append(record)
            except ApiError as refused:
                code, message = refused.code, texts.of(refused.message)
            rows.append(_Partition(partition_index=wanted.partition_index, error_code=code, error_message=message))
        topics.append(_Topic(name=asked.name, partitions=rows))
    response = AlterPartitionReassignmentsResponse(
        error_code=0, error_message=None, responses=topics, allow_replication_factor_change=may_change_factor
    )
    return ControllerResult(response, tuple(records))


def listed(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Returns the reassignments under way, of all topics or of those asked for; what does not exist is left out.

    MESSAGE_TOO_LARGE where they are too many for one answer.
    """
    topics, budget = [], AnswerBudget()
    for name, indexes in _asked(image, request):
        rows = []
        for index in indexes:
            partition = image.partition(name, index)
            if partition is not None and partition.is_reassigning:
                row = _Ongoing.OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
                rows.append(row)
        if rows:
            if not budget.take(text_bytes(name) + sum(map(_size_bytes, rows))):
                raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, TOO_LARGE)
            topics.append(_Ongoing(name=name, partitions=rows))
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=topics)


def _size_bytes(row: _Ongoing.OngoingPartitionReassignment) -> int:
    return _ROW_BYTES + _ID_BYTES * (len(row.replicas) + len(row.adding_replicas) + len(row.removing_replicas))


def begin(
    elections: Elections, topic: TopicImage, index: int, partition: PartitionImage, target: tuple[int, ...]
) -> PartitionChangeRecord | None:
    """Returns the change that begins a reassignment to these replicas, or that completes it if they are in sync."""
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(partition.replicas)))
    wish = Wish(replicas=target + removing, removing_replicas=removing or None, adding_replicas=adding or None)
    return elections.change(topic, index, partition, wish)


def cancel(
    elections: Elections, topic: TopicImage, index: int, partition: PartitionImage
) -> PartitionChangeRecord | None:
    """Returns the change that takes the added replicas away; NO_REASSIGNMENT_IN_PROGRESS if there are none to take.

    INVALID_REPLICA_ASSIGNMENT where only added replicas are in sync and the topic allows no unclean election.
    """
    if not partition.is_reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.isr, partition.adding_replicas)
    election = elections.election(topic.name)
    if not isr:
        if not replicas:
            why = "Invalid replica assignment: addingReplicas contains all replicas."
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        if election is not Election.UNCLEAN:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        isr = replicas[:1]
    wish = Wish(election, isr=isr, replicas=replicas, adding_replicas=(), removing_replicas=())
    return elections.change(topic, index, partition, wish)


def _find(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic, partition = image.topic(name), image.partition(name, index)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic, partition


def _check(
    image: MetadataImage, partition: PartitionImage, target: tuple[int, ...], *, may_change_factor: bool
) -> None:
    placement.check_manual(image, target, None)
    if may_change_factor:
        return
    # the factor that a reassignment under way leads to
    present = len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
    if len(target) != present:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def _asked(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topics is None:
        for topic in image.topics.values():
            yield topic.name, range(len(topic.partitions))
        return
    for asked in request.topics:
        yield asked.name, asked.partition_indexes
