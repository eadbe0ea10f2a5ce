"""What a heartbeat is refused for before anything is decided, with Kafka's codes and messages."""

from __future__ import annotations

from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from tailrace_coordinator.groups.decision import GroupDecision
from tailrace_coordinator.groups.modern.assignment import is_part_of
from tailrace_coordinator.groups.modern.reconciliation import Current

_OWN_IDS_FROM: Final = 1  # members bring an id of their own (KIP-1082)


def validate(decision: GroupDecision, request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
    """Refuses what needs no group to be refused. Raises ApiError."""
    epoch = request.member_epoch
    if not request.member_id and (api_version >= _OWN_IDS_FROM or epoch > 0 or epoch == LEFT_EPOCH):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if request.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if epoch == 0:
        _validate_join(request)
    elif epoch == LEFT_FOR_A_WHILE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_A_WHILE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignors = decision.config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _validate_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def validate_epoch(current: Current, received: int, reported: Assignment | None) -> None:
    """Fences a member that is not in its epoch. Raises ApiError FENCED_MEMBER_EPOCH.

    Epoch 0 joins again. The epoch before is taken as well: the answer that told of the next one may have been lost.
    """
    if received in (0, current.member_epoch):
        return
    if received < current.member_epoch:
        is_previous = received == current.previous_member_epoch
        if is_previous and reported is not None and is_part_of(reported, current.assigned):
            return
    than = "greater" if received > current.member_epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({received}) than the one known by the group "
        f"coordinator ({current.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)
