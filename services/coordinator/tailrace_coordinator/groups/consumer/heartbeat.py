"""ConsumerGroupHeartbeat on a consumer group (KIP-848): join, stay, and what to own.

A heartbeat changes three things in this order, each with an epoch: the subscriptions (group epoch), the assignment that
is wanted (assignment epoch), and what this member owns (member epoch).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tailrace.coordination.consumer_group_records import ConsumerGroupMemberMetadata
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.config import consumer_times
from tailrace_coordinator.groups.consumer.expressions import MayDescribe, resolve_if_due
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.consumer.leave import leave, validate_instance
from tailrace_coordinator.groups.consumer.members import FormerMember, find, replace_static
from tailrace_coordinator.groups.consumer.migration import upgrade, validate_upgraded
from tailrace_coordinator.groups.consumer.rebalance import rebalance
from tailrace_coordinator.groups.consumer.subscription import subscribe
from tailrace_coordinator.groups.consumer.validation import validate, validate_epoch
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key, rebalance_key
from tailrace_coordinator.groups.group import Groups
from tailrace_coordinator.groups.modern.assignment import Owned
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState

_NOT_SAID: Final = (None,) * 5


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One request, and its sender. new_member_id: for a member of version 0 that brings no id.

    may_describe: the topics that the sender may know of; None: all.
    """

    request: ConsumerGroupHeartbeatRequest
    api_version: int
    client_id: str
    client_host: str
    new_member_id: str
    may_describe: MayDescribe | None = None

    @property
    def member_id(self) -> str:
        return self.request.member_id or self.new_member_id

    @property
    def reported(self) -> Assignment | None:
        """The partitions that the member says it owns; None where they have not changed."""
        rows = self.request.topic_partitions
        return None if rows is None else {row.topic_id: frozenset(row.partitions) for row in rows}

    def says_more_than(self, known: ConsumerGroupMemberMetadata) -> bool:
        """Whether it may tell of anything new, as few heartbeats do."""
        request = self.request
        optional_fields = (
            request.instance_id,
            request.rack_id,
            request.subscribed_topic_names,
            request.subscribed_topic_regex,
            request.server_assignor,
        )
        is_silent = request.rebalance_timeout_ms == -1 and optional_fields == _NOT_SAID
        is_same_client = (self.client_id, self.client_host) == (known.client_id, known.client_host)
        return not (is_silent and is_same_client and known.classic_member_metadata is None)

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as a member does after an error."""
        request = self.request
        is_subscribing = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != -1 and is_subscribing and request.topic_partitions is not None


def heartbeat(decision: GroupDecision, groups: Groups, beat: Heartbeat) -> ConsumerGroupHeartbeatResponse:
    """Decides a heartbeat of any member. Raises ApiError."""
    request = beat.request
    validate(decision, request, beat.api_version)
    if request.member_epoch < 0:
        return leave(decision, groups, request)
    group = _group(decision, groups, beat)
    before = _find(decision, group, beat)
    member = _said(group, before, beat)
    if member is before.metadata and _is_settled(group, before.current):
        return _answer(
            decision, group, member, before.current, beat, with_assignment=request.member_epoch == 0 or beat.is_full
        )
    change = subscribe(decision, group, before, member)
    current = rebalance(decision, change, before, beat.reported)
    validate_upgraded(decision, group.group_id)
    _begin_rebalance_timeout(decision, group, member, before, current)
    with_assignment = request.member_epoch == 0 or beat.is_full or current.assigned != before.current.assigned
    return _answer(decision, group, member, current, beat, with_assignment=with_assignment)


def _is_settled(group: ConsumerGroup, current: Current) -> bool:
    """Whether nothing is to be done for the member, as at most heartbeats."""
    is_assigned = group.group_epoch == group.assignment_epoch and not group.metadata_expired
    return is_assigned and current.is_reconciled_to(group.assignment_epoch)


def _answer(
    decision: GroupDecision,
    group: ConsumerGroup,
    member: ConsumerGroupMemberMetadata,
    current: Current,
    beat: Heartbeat,
    *,
    with_assignment: bool,
) -> ConsumerGroupHeartbeatResponse:
    """Begins the member's session again and tells it its epoch, and its partitions where they are to be told."""
    resolve_if_due(decision, group, member, beat.may_describe)
    times = consumer_times(decision, group.group_id)
    decision.schedule(heartbeat_key(group.group_id, member.member_id), times.session_timeout_ms)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
        assignment=_assignment(current.assigned) if with_assignment else None,
    )


def _group(decision: GroupDecision, groups: Groups, beat: Heartbeat) -> ConsumerGroup:
    """Returns the group, a new one for the first member. One of another kind is replaced by it, or becomes it."""
    group_id = beat.request.group_id
    group = groups.of_kind(ConsumerGroup, group_id)
    if group is not None:
        return group
    other = groups.get(group_id)
    if other is None and beat.request.member_epoch != 0:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if other is None:
        return ConsumerGroup(group_id)
    if beat.request.member_epoch != 0:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if not other.is_empty:
        return upgrade(decision, groups, group_id)
    for key in other.timer_keys():
        decision.cancel(key)
    for record in other.tombstones():
        decision.append(record)
    return ConsumerGroup(group_id)


def _find(decision: GroupDecision, group: ConsumerGroup, beat: Heartbeat) -> FormerMember:
    """Returns the member as it was. Raises ApiError for one that may not go on, or not join."""
    request, member_id = beat.request, beat.member_id
    if request.instance_id is not None:
        holder = group.static_members.get(request.instance_id)
        if request.member_epoch != 0:
            validate_instance(group, request.instance_id, member_id)
        elif holder is not None:
            return replace_static(decision, group, holder, member_id, is_classic=False)
    if request.member_epoch != 0:
        group.member(member_id)
    before = find(decision, group, member_id)
    if before.metadata is not None:
        validate_epoch(before.current, request.member_epoch, beat.reported)
    return before


def _said(group: ConsumerGroup, before: FormerMember, beat: Heartbeat) -> ConsumerGroupMemberMetadata:
    """Returns the member with what it says of itself now: the same object where that is nothing new."""
    request, known = beat.request, before.metadata
    if known is not None and known is group.members.get(beat.member_id) and not beat.says_more_than(known):
        return known
    if known is None:
        known = ConsumerGroupMemberMetadata(group.group_id, beat.member_id, None, None, "", "", (), "", -1, None)
    names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
    member = replace(
        known,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        subscribed_topic_names=known.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=known.subscribed_topic_regex if expression is None else expression,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
        classic_member_metadata=None,
    )
    return known if known is before.metadata and member == known else member


def _begin_rebalance_timeout(
    decision: GroupDecision,
    group: ConsumerGroup,
    member: ConsumerGroupMemberMetadata,
    before: FormerMember,
    current: Current,
) -> None:
    """Gives a member that is to give up partitions its time for that."""
    was_classic = before.metadata is not None and before.metadata.classic_member_metadata is not None
    if current == before.current and not was_classic:
        return
    deadline = rebalance_key(group.group_id, member.member_id)
    if current.state == MemberState.UNREVOKED_PARTITIONS:
        decision.schedule(deadline, max(member.rebalance_timeout_ms, 0))
    else:
        decision.cancel(deadline)


def _assignment(assigned: Owned) -> ConsumerGroupHeartbeatResponse.Assignment:
    answer = ConsumerGroupHeartbeatResponse.Assignment
    return answer(
        topic_partitions=[
            answer.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
