"""What ConsumerGroupDescribe shows of a group (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tailrace.coordination.consumer_group_records import ConsumerGroupMemberMetadata
from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.consumer.target import preferred_assignor
from tailrace_coordinator.groups.decision import GroupDecision
from tailrace_coordinator.groups.group import Groups
from tailrace_coordinator.groups.modern.reconciliation import Current


class DescribedConsumer(NamedTuple):
    """One member: what it said of itself, what it owns or has to give up yet, and what it is to own."""

    metadata: ConsumerGroupMemberMetadata
    member_epoch: int
    owned: Mapping[UUID, frozenset[int]]
    target: Assignment


class ConsumerGroupDescription(NamedTuple):
    """One group."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


def describe(decision: GroupDecision, groups: Groups, group_id: str) -> ConsumerGroupDescription:
    """Describes one group. Raises ApiError GROUP_ID_NOT_FOUND."""
    group = groups.of_kind(ConsumerGroup, group_id)
    if group is None:
        why = "is not a consumer group" if group_id in groups else "not found"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
    members = []
    for member_id, metadata in group.members.items():
        current = group.current(member_id)
        members.append(
            DescribedConsumer(metadata, current.member_epoch, _owned(current), group.targets.get(member_id, {}))
        )
    assignor = preferred_assignor(decision, group.members)
    return ConsumerGroupDescription(
        group_id, group.state, group.group_epoch, group.assignment_epoch, assignor, tuple(members)
    )


def _owned(current: Current) -> dict[UUID, frozenset[int]]:
    owned: dict[UUID, frozenset[int]] = {topic_id: frozenset(of) for topic_id, of in current.assigned.items()}
    for topic_id, partitions in current.pending_revocation.items():
        owned[topic_id] = owned.get(topic_id, frozenset()).union(partitions)
    return owned
