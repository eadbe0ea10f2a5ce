"""DeleteTopics by name (all versions) or id (v6, KIP-516)."""

from collections import Counter
from uuid import UUID

from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.metadata.records import NO_UUID, RemoveTopicRecord
from tailrace.quota.mutations import UNLIMITED, MutationQuota
from tailrace.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from tailrace_controller.decide.controller_result import ControllerResult, check_size

_Result = DeleteTopicsResponse.DeletableTopicResult


def delete(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    version: int,
    config: Config,
    quota: MutationQuota = UNLIMITED,
) -> ControllerResult[DeleteTopicsResponse]:
    """Deletes what exists; each topic has its own error. delete.topic.enable=false refuses all.

    POLICY_VIOLATION for topics beyond 10,000, as in Kafka, whose word for it is UNKNOWN_SERVER_ERROR.
    THROTTLING_QUOTA_EXCEEDED for topics above the client's quota (KIP-599).
    """
    if not config.delete_topic_enable:
        raise ApiError(ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED)
    asked: list[tuple[str | None, UUID | None]] = (
        [(topic.name, topic.topic_id) for topic in reversed(request.topics)]
        if version >= 6
        else [(name, None) for name in reversed(request.topic_names)]
    )
    times = Counter(asked)
    records: dict[UUID, RemoveTopicRecord] = {}
    results: list[_Result] = []
    while asked:
        name, topic_id = each = asked.pop()
        count, times[each] = times[each], 0
        if not count:
            continue  # named twice, and answered
        try:
            if count > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Duplicate topic id." if name is None else "Duplicate topic name."
                )
            check_size(records, 1)
            topic = _find(image, name, topic_id)
            if topic.topic_id in records:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            if not quota.take(len(topic.partitions)):
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        except ApiError as refused:
            result = _Result(
                name=name, topic_id=topic_id or NO_UUID, error_code=refused.code, error_message=refused.message
            )
        else:
            records[topic.topic_id] = RemoveTopicRecord(topic.topic_id)
            result = _Result(name=topic.name, topic_id=topic.topic_id, error_code=0, error_message=None)
        results.append(result)
    return ControllerResult(DeleteTopicsResponse(responses=results), tuple(records.values()))


def _find(image: MetadataImage, name: str | None, topic_id: UUID | None) -> TopicImage:
    if name is not None and topic_id is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is not None:
        topic = image.topic(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return topic
    if topic_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic
