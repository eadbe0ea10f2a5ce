"""ConsumerGroupHeartbeat on a consumer group (KIP-848): join, stay, and what to own.

A heartbeat changes three things in this order, each with an epoch: the subscriptions (group epoch), the assignment that
is wanted (assignment epoch), and what this member owns (member epoch).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    encode,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.state import size_bytes
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.config import consumer_times
from tailrace_coordinator.groups.consumer.expressions import MayDescribe, resolve_if_due
from tailrace_coordinator.groups.consumer.group import LEFT_FOR_A_WHILE_EPOCH, ConsumerGroup, member_size_bytes
from tailrace_coordinator.groups.consumer.leave import forget, forget_expression, leave, validate_instance
from tailrace_coordinator.groups.consumer.target import Change, assign, preferred_assignor
from tailrace_coordinator.groups.consumer.validation import validate, validate_epoch
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key, rebalance_key
from tailrace_coordinator.groups.group import Groups
from tailrace_coordinator.groups.modern.assignment import Owned, owned_rows, target_rows
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState, Target, reconcile
from tailrace_coordinator.groups.modern.topics import metadata_hash


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
        is_silent = request.rebalance_timeout_ms == -1 and all(field is None for field in optional_fields)
        is_same_client = (self.client_id, self.client_host) == (known.client_id, known.client_host)
        return not (is_silent and is_same_client)

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as a member does after an error."""
        request = self.request
        is_subscribing = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != -1 and is_subscribing and request.topic_partitions is not None


class _Before(NamedTuple):
    """The member before this heartbeat: what it said, None of a new one, and what it owns.

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


def heartbeat(decision: GroupDecision, groups: Groups, beat: Heartbeat) -> ConsumerGroupHeartbeatResponse:
    """Decides a heartbeat of any member. Raises ApiError."""
    request = beat.request
    validate(decision, request, beat.api_version)
    if request.member_epoch < 0:
        return leave(decision, groups, request)
    group = _group(decision, groups, beat)
    before = _find(decision, group, beat)
    member = _subscribe(decision, group, before, beat)
    if member is before.metadata and _is_settled(group, before.current):
        return _answer(
            decision, group, member, before.current, beat, with_assignment=request.member_epoch == 0 or beat.is_full
        )
    change = Change(group, [group.members[before.member_id]] if before.member_id in group.members else [], member)
    epoch = _bump(decision, change, before)
    current = _reconcile(decision, change, before, _target(decision, change, before, epoch), beat.reported)
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
    """Returns the group, a new one for the first member. An empty group of another kind gives way to it."""
    group_id = beat.request.group_id
    group = groups.of_kind(ConsumerGroup, group_id)
    if group is not None:
        return group
    other = groups.get(group_id)
    if other is None and beat.request.member_epoch != 0:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if other is not None:
        if beat.request.member_epoch != 0 or not other.is_empty:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        for key in other.timer_keys():
            decision.cancel(key)
        for record in other.tombstones():
            decision.append(record)
    return ConsumerGroup(group_id)


def _find(decision: GroupDecision, group: ConsumerGroup, beat: Heartbeat) -> _Before:
    """Returns the member as it was. Raises ApiError for one that may not go on, or not join."""
    request, member_id = beat.request, beat.member_id
    if request.instance_id is not None:
        holder = group.static_members.get(request.instance_id)
        if request.member_epoch != 0:
            validate_instance(group, request.instance_id, member_id)
        elif holder is not None:
            return _replaced(decision, group, beat, holder)
    metadata = group.members.get(member_id)
    if metadata is None:
        if request.member_epoch != 0:
            group.member(member_id)
        _check_size(decision, group)
        return _Before(member_id, None, Current())
    current = group.current(member_id)
    validate_epoch(current, request.member_epoch, beat.reported)
    return _Before(member_id, metadata, current)


def _replaced(decision: GroupDecision, group: ConsumerGroup, beat: Heartbeat, holder: str) -> _Before:
    """Gives a static member that left for a while its place back, under the id that it brings."""
    current, member_id = group.current(holder), beat.member_id
    if current.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {beat.request.instance_id} cannot join the group because "
            f"the instance id is owned by {holder} member.",
        )
    metadata = replace(group.members[holder], member_id=member_id)
    if holder != member_id:
        forget(decision, group, holder)
        decision.append(metadata)
        rows = target_rows(group.targets.get(holder, {}))
        decision.append(ConsumerGroupTargetAssignmentMember(group.group_id, member_id, rows))
    return _Before(holder, metadata, Current(0, 0, MemberState.STABLE, current.assigned))


def _check_size(decision: GroupDecision, group: ConsumerGroup) -> None:
    most = min(decision.config.group_consumer_max_size, decision.config.max_members)
    if group.member_count >= most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def _subscribe(
    decision: GroupDecision, group: ConsumerGroup, before: _Before, beat: Heartbeat
) -> ConsumerGroupMemberMetadata:
    """Returns the member with what it says of itself now, and writes that where it is something else."""
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
    if member != before.metadata:
        _check_bounds(decision, group, before, member)
        decision.append(member)
        own = known.subscribed_topic_regex
        is_last = own in group.expressions and group.used_expressions[own] == 1
        if own and is_last and before.changes(member)[1]:
            forget_expression(decision, group, own)
    return member


def _check_bounds(
    decision: GroupDecision, group: ConsumerGroup, before: _Before, member: ConsumerGroupMemberMetadata
) -> None:
    """Refuses a member that no record can hold, and a group that would take too much memory, or time for its topics."""
    config = decision.config
    if size_bytes(encode(member)) > config.max_record_bytes:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a member of more than {config.max_record_bytes} bytes")
    own = member.subscribed_topic_regex
    known = group.members.get(before.member_id)
    expressions = Change(group, () if known is None else (known,), member).expressions()
    if own and own not in group.used_expressions and len(expressions) > config.max_expressions:
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


def _bump(decision: GroupDecision, change: Change, before: _Before) -> int:
    """Returns the group epoch: the next one where subscriptions, their topics or the assignor are others."""
    group, member = change.group, change.after
    assert member is not None
    names_changed, expression_changed = before.changes(member)
    expression = member.subscribed_topic_regex
    bumps = names_changed or (expression_changed and (not expression or expression in group.expressions))
    bumps = bumps or _changes_assignor(decision, change, before)
    if not bumps and not group.metadata_expired:
        return group.group_epoch
    group.metadata_expired = False
    now = metadata_hash(change.topics(), decision.image, decision.topic_hashes)
    if not bumps and now == group.metadata_hash:
        return group.group_epoch
    decision.append(ConsumerGroupMetadata(group.group_id, group.group_epoch + 1, now))
    return group.group_epoch + 1


def _changes_assignor(decision: GroupDecision, change: Change, before: _Before) -> bool:
    asked_for = None if before.metadata is None else before.metadata.server_assignor
    if change.after is None or change.after.server_assignor == asked_for:
        return False
    return preferred_assignor(decision, change.group.members) != preferred_assignor(decision, change.members())


def _target(decision: GroupDecision, change: Change, before: _Before, epoch: int) -> tuple[int, Assignment]:
    """Returns the epoch and the member's part of the target assignment: a new one, or the one that stands.

    Between two assignments there is a pause, so that members that join together are assigned together (KIP-1263).
    """
    group, member = change.group, change.after
    assert member is not None
    present: dict[str, Assignment] = {}
    if before.member_id != member.member_id and before.member_id in group.targets:
        present[member.member_id] = group.targets[before.member_id]
    if epoch > group.assignment_epoch:
        pause_ms = consumer_times(decision, group.group_id).assignment_interval_ms
        age_ms = decision.now_ms - group.assignment_timestamp_ms
        if group.assignment_timestamp_ms == 0 or age_ms >= pause_ms or age_ms < 0:
            targets = assign(decision, change, epoch, group.targets | present)
            return epoch, targets[member.member_id]
    return group.assignment_epoch, present.get(member.member_id, group.targets.get(member.member_id, {}))


def _reconcile(
    decision: GroupDecision,
    change: Change,
    before: _Before,
    target: tuple[int, Assignment],
    reported: Assignment | None,
) -> Current:
    """Returns what the member owns from now on, and writes it where that changes."""
    group, member = change.group, change.after
    assert member is not None
    subscription_changed = before.metadata is not None and any(before.changes(member))
    if before.current.is_reconciled_to(target[0]) and not subscription_changed:
        return before.current
    topics, names = group.topics_of(member), decision.image.topic_names
    wanted = Target(*target, lambda topic_id: names.get(topic_id) in topics, group.is_free)
    current = reconcile(before.current, wanted, reported, subscription_changed=subscription_changed)
    if current == before.current:
        return current
    decision.append(
        ConsumerGroupCurrentMemberAssignment(
            group.group_id,
            member.member_id,
            current.member_epoch,
            current.previous_member_epoch,
            current.state,
            owned_rows(current.assigned),
            owned_rows(current.pending_revocation),
        )
    )
    deadline = rebalance_key(group.group_id, member.member_id)
    if current.state == MemberState.UNREVOKED_PARTITIONS:
        decision.schedule(deadline, max(member.rebalance_timeout_ms, 0))
    else:
        decision.cancel(deadline)
    return current


def _assignment(assigned: Owned) -> Any:
    answer = ConsumerGroupHeartbeatResponse.Assignment
    return answer(
        topic_partitions=[
            answer.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
