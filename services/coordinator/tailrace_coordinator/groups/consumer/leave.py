"""How a member of a consumer group goes: it leaves, is fenced, or leaves for a while as a static member."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupKey,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRecordRemoved,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace_coordinator.groups.consumer.group import LEFT_FOR_A_WHILE_EPOCH, ConsumerGroup
from tailrace_coordinator.groups.consumer.migration import downgrade
from tailrace_coordinator.groups.consumer.target import Change
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key, rebalance_key
from tailrace_coordinator.groups.group import Groups, Leaver
from tailrace_coordinator.groups.modern.assignment import owned_rows
from tailrace_coordinator.groups.modern.reconciliation import MemberState
from tailrace_coordinator.groups.modern.topics import metadata_hash

_OF_A_MEMBER = (
    ConsumerGroupCurrentMemberAssignment.key_type,
    ConsumerGroupTargetAssignmentMember.key_type,
    ConsumerGroupMemberMetadata.key_type,
)


def leave(
    decision: GroupDecision, groups: Groups, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Decides a heartbeat with epoch -1, or -2 of a static member that comes back. Raises ApiError."""
    group = groups.of_kind(ConsumerGroup, request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if request.instance_id is not None:
        validate_instance(group, request.instance_id, request.member_id)
    member = group.member(request.member_id)
    if request.member_epoch == LEFT_FOR_A_WHILE_EPOCH:
        _leave_for_a_while(decision, group, member)
    else:
        remove(decision, groups, group, [member])
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def validate_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """Refuses a member that is not the one of this instance (KIP-345). Raises ApiError."""
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
        )


def _leave_for_a_while(decision: GroupDecision, group: ConsumerGroup, member: ConsumerGroupMemberMetadata) -> None:
    """Keeps the member's partitions for it until its session ends."""
    current = group.current(member.member_id)
    decision.cancel(rebalance_key(group.group_id, member.member_id))
    decision.append(
        ConsumerGroupCurrentMemberAssignment(
            group.group_id,
            member.member_id,
            LEFT_FOR_A_WHILE_EPOCH,
            current.previous_member_epoch,
            current.state,
            owned_rows(current.assigned),
            (),
        )
    )


def forget(decision: GroupDecision, group: ConsumerGroup, member_id: str) -> None:
    """Ends what the log says of a member, and its deadlines."""
    decision.cancel(heartbeat_key(group.group_id, member_id))
    decision.cancel(rebalance_key(group.group_id, member_id))
    for key_type in _OF_A_MEMBER:
        decision.append(ConsumerGroupRecordRemoved(ConsumerGroupKey(key_type, group.group_id, member_id)))


def remove(
    decision: GroupDecision,
    groups: Groups,
    group: ConsumerGroup,
    members: Collection[ConsumerGroupMemberMetadata],
) -> None:
    """Takes members out of the group. The others get their partitions when one of them is next heard of.

    Where all of these are classic, the group becomes a classic one.
    """
    if downgrade(decision, groups, group, members):
        return
    change = Change(group, members, None)
    left = change.expressions()
    for member in members:
        forget(decision, group, member.member_id)
    for expression in group.expressions.keys() - left:
        forget_expression(decision, group, expression)
    epoch = group.group_epoch + 1
    if group.member_count == len(members):
        decision.append(ConsumerGroupMetadata(group.group_id, epoch))
        decision.append(ConsumerGroupTargetAssignmentMetadata(group.group_id, epoch))
    else:
        decision.append(
            ConsumerGroupMetadata(
                group.group_id, epoch, metadata_hash(change.topics(), decision.image, decision.topic_hashes)
            )
        )


def remove_each(
    decision: GroupDecision, groups: Groups, group: ConsumerGroup, leavers: Sequence[Leaver]
) -> list[ErrorCode]:
    """Decides a LeaveGroup, of a classic member or with which administrators remove members: one code for each."""
    codes, found = [], dict[str, ConsumerGroupMemberMetadata]()
    for leaver in leavers:
        try:
            member = _find(group, leaver)
        except ApiError as refused:
            codes.append(refused.code)
        else:
            codes.append(ErrorCode.UNKNOWN_MEMBER_ID if member.member_id in found else ErrorCode.NONE)
            found[member.member_id] = member
    if found:
        remove(decision, groups, group, found.values())
    return codes


def _find(group: ConsumerGroup, leaver: Leaver) -> ConsumerGroupMemberMetadata:
    if leaver.group_instance_id is None:
        return group.member(leaver.member_id)
    member_id = leaver.member_id or group.static_members.get(leaver.group_instance_id, "")
    validate_instance(group, leaver.group_instance_id, member_id)
    return group.member(member_id)


def forget_expression(decision: GroupDecision, group: ConsumerGroup, expression: str) -> None:
    """Ends what the log says of an expression that no member has any more."""
    key = ConsumerGroupKey(ConsumerGroupRegularExpression.key_type, group.group_id, expression)
    decision.append(ConsumerGroupRecordRemoved(key))


def on_deadline(decision: GroupDecision, groups: Groups, group: ConsumerGroup, key: Hashable) -> None:
    """A member was not heard of for its session, or did not do its part of a rebalance in time: it is out."""
    match key:
        case (str(kind), _, str(member_id)) if (member := group.members.get(member_id)) is not None:
            is_late = group.current(member_id).state == MemberState.UNREVOKED_PARTITIONS
            if kind == "heartbeat" or is_late or member_id in group.joining:
                remove(decision, groups, group, [member])
