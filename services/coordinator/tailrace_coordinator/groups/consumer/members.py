"""The member that a request is of, as it was before: a new one, one that goes on, or a static one that came back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.group import LEFT_FOR_A_WHILE_EPOCH, ConsumerGroup
from tailrace_coordinator.groups.consumer.leave import forget
from tailrace_coordinator.groups.decision import GroupDecision
from tailrace_coordinator.groups.modern.assignment import target_rows
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState


class FormerMember(NamedTuple):
    """The member before this request: what it said, None of a new one, and what it owns.

    member_id: of the member whose place it takes, where a static one came back with another id.
    """

    member_id: str
    metadata: ConsumerGroupMemberMetadata | None
    current: Current

    def changes(self, member: ConsumerGroupMemberMetadata) -> tuple[bool, bool]:
        """Whether the names, and the regular expression, of the subscription are others now."""
        before = self.metadata
        names = before.subscribed_topic_names if before is not None else ()
        expression = before.subscribed_topic_regex if before is not None else None
        return names != member.subscribed_topic_names, (expression or "") != (member.subscribed_topic_regex or "")

    def replaced(self, group: ConsumerGroup) -> Collection[ConsumerGroupMemberMetadata]:
        """The member of the group that the request's member stands for."""
        known = group.members.get(self.member_id)
        return () if known is None else (known,)

    def moved_target(self, group: ConsumerGroup, member_id: str) -> dict[str, Assignment]:
        """The target of a static member that came back with another id, by that id."""
        if self.member_id == member_id or self.member_id not in group.targets:
            return {}
        return {member_id: group.targets[self.member_id]}


def find(decision: GroupDecision, group: ConsumerGroup, member_id: str) -> FormerMember:
    """Returns a member that goes on, or a new one. Raises ApiError GROUP_MAX_SIZE_REACHED."""
    metadata = group.members.get(member_id)
    if metadata is None:
        check_size(decision, group)
        return FormerMember(member_id, None, Current())
    return FormerMember(member_id, metadata, group.current(member_id))


def replace_static(
    decision: GroupDecision, group: ConsumerGroup, holder: str, member_id: str, *, is_classic: bool
) -> FormerMember:
    """Gives a static member its place back, under the id that it brings. Raises ApiError UNRELEASED_INSTANCE_ID.

    Of two members of the consumer protocol, the one before must have left. The classic protocol has no such farewell.
    """
    current, known = group.current(holder), group.members[holder]
    is_released = is_classic or known.classic_member_metadata is not None
    if not is_released and current.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {known.instance_id} cannot join the group because "
            f"the instance id is owned by {holder} member.",
        )
    metadata = replace(known, member_id=member_id)
    if holder != member_id:
        forget(decision, group, holder)
        decision.append(metadata)
        rows = target_rows(group.targets.get(holder, {}))
        decision.append(ConsumerGroupTargetAssignmentMember(group.group_id, member_id, rows))
    return FormerMember(holder, metadata, Current(0, 0, MemberState.STABLE, current.assigned))


def check_size(decision: GroupDecision, group: ConsumerGroup) -> None:
    """Refuses one more member. Raises ApiError GROUP_MAX_SIZE_REACHED."""
    most = min(decision.config.group_consumer_max_size, decision.config.max_members)
    if group.member_count >= most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )
