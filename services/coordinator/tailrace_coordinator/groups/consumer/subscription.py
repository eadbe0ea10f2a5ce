"""What a member says of itself, written where it is something else than before, within the bounds of a group."""

from __future__ import annotations

from tailrace.coordination.consumer_group_records import ConsumerGroupMemberMetadata, encode
from tailrace.errors import ApiError, ErrorCode
from tailrace.state import size_bytes
from tailrace_coordinator.groups.consumer.group import ConsumerGroup, member_size_bytes
from tailrace_coordinator.groups.consumer.leave import forget_expression
from tailrace_coordinator.groups.consumer.members import FormerMember
from tailrace_coordinator.groups.consumer.target import Change
from tailrace_coordinator.groups.decision import GroupDecision


def subscribe(
    decision: GroupDecision, group: ConsumerGroup, before: FormerMember, member: ConsumerGroupMemberMetadata
) -> Change:
    """Returns the group with the member as it is now. Raises ApiError GROUP_MAX_SIZE_REACHED, INVALID_REQUEST."""
    change = Change(group, before.replaced(group), member)
    if member == before.metadata:
        return change
    _check_bounds(decision, change, before)
    decision.append(member)
    own = None if before.metadata is None else before.metadata.subscribed_topic_regex
    is_last = own in group.expressions and group.used_expressions[own] == 1
    if own and is_last and before.changes(member)[1]:
        forget_expression(decision, group, own)
    return change


def _check_bounds(decision: GroupDecision, change: Change, before: FormerMember) -> None:
    """Refuses a member that no record can hold, and a group that would take too much memory, or time for its topics."""
    config, group, member = decision.config, change.group, change.after
    assert member is not None
    if size_bytes(encode(member)) > config.max_record_bytes:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a member of more than {config.max_record_bytes} bytes")
    own = member.subscribed_topic_regex
    if own and own not in group.used_expressions and len(change.expressions()) > config.max_expressions:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The members of the consumer group have {config.max_expressions} different regular expressions.",
        )
    freed = 0 if before.metadata is None else member_size_bytes(before.metadata)
    if group.size_bytes - freed + member_size_bytes(member) > config.max_group_metadata_bytes:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The members of the consumer group have reached {config.max_group_metadata_bytes} bytes.",
        )
