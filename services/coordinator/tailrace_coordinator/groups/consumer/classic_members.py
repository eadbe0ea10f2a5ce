"""JoinGroup, SyncGroup and Heartbeat of classic members in a consumer group (KIP-848).

Such a member follows the server's assignment by the words of its own protocol. REBALANCE_IN_PROGRESS has it join, with
the partitions that it owns; SyncGroup hands it those that it is to go on with. What is not among them it gives up, and
joins again. Its generation is its member epoch, and it has no leader.
"""

from __future__ import annotations

from tailrace.coordination.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadata,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription, read_subscription
from tailrace.wire.messages import HeartbeatRequest, SyncGroupRequest
from tailrace_coordinator.groups.classic.join import Join, check_new_id, validate_join
from tailrace_coordinator.groups.classic.member import JoinAnswer, SyncAnswer
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.consumer.leave import validate_instance
from tailrace_coordinator.groups.consumer.members import FormerMember, check_size, find, replace_static
from tailrace_coordinator.groups.consumer.migration import by_id, classic_assignment, downgrade
from tailrace_coordinator.groups.consumer.rebalance import group_epoch, rebalance, target_of
from tailrace_coordinator.groups.consumer.subscription import subscribe
from tailrace_coordinator.groups.consumer.target import Change
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key, rebalance_key
from tailrace_coordinator.groups.group import Groups
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState

_KNOWN_IDS_FROM = 4  # a dynamic member joins with an id that it was given (KIP-394)


def join(decision: GroupDecision, groups: Groups, group: ConsumerGroup, join: Join) -> JoinAnswer:
    """Returns the answer to a JoinGroup, which here waits for no other member. Raises ApiError."""
    request = join.request
    validate_join(decision, request)
    check_new_id(join)
    names = [name for name, _ in join.protocols]
    if not decision.config.migrates_groups or not group.supports_protocols(request.protocol_type, names):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or join.new_member_id
    is_static = request.group_instance_id is not None
    if not request.member_id and not is_static and join.api_version >= _KNOWN_IDS_FROM:
        check_size(decision, group)
        return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    protocol, metadata = join.protocols[0]
    said = read_subscription(metadata)
    if said is None:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    before = _find(decision, group, join, member_id)
    member = _said(group, join, member_id, said)
    change = subscribe(decision, group, before, member)
    current = rebalance(decision, change, before, by_id(said.owned, decision.image))
    decision.schedule(heartbeat_key(group.group_id, member_id), request.session_timeout_ms)
    _await(decision, group, member, begin_anew=True)
    _downgrade_after(decision, groups, group, before)
    return JoinAnswer(ErrorCode.NONE, member_id, current.member_epoch, PROTOCOL_TYPE, protocol)


def _find(decision: GroupDecision, group: ConsumerGroup, join: Join, member_id: str) -> FormerMember:
    """Returns the member as it was. Raises ApiError for one that may not join."""
    instance_id = join.request.group_instance_id
    if instance_id is not None and join.request.member_id:
        validate_instance(group, instance_id, member_id)
    holder = None if instance_id is None else group.static_members.get(instance_id)
    if holder is not None and not join.request.member_id:
        return replace_static(decision, group, holder, member_id, is_classic=True)
    return find(decision, group, member_id)


def _said(
    group: ConsumerGroup, join: Join, member_id: str, said: ConsumerProtocolSubscription
) -> ConsumerGroupMemberMetadata:
    protocols = tuple(ClassicProtocol(name, metadata) for name, metadata in join.protocols)
    return ConsumerGroupMemberMetadata(
        group.group_id,
        member_id,
        join.request.group_instance_id,
        said.rack_id,
        join.client_id,
        join.client_host,
        tuple(sorted(set(said.topics))),
        "",
        join.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(join.request.session_timeout_ms, protocols),
    )


def _downgrade_after(decision: GroupDecision, groups: Groups, group: ConsumerGroup, before: FormerMember) -> None:
    """Has the group become a classic one, where the member that it replaced was the last of the consumer protocol."""
    replaced = before.replaced(group)
    was_consumer = any(member.classic_member_metadata is None for member in replaced)
    if was_consumer and group.member_count - group.classic_count == 1:
        decision.then(lambda later, known: _downgrade(later, groups, known), group)


def _downgrade(decision: GroupDecision, groups: Groups, group: ConsumerGroup) -> None:
    if groups.get(group.group_id) is group:
        downgrade(decision, groups, group, ())


def sync(decision: GroupDecision, group: ConsumerGroup, request: SyncGroupRequest) -> SyncAnswer:
    """Returns the partitions that the member is to go on with. Raises ApiError."""
    member, classic, current = _validated(group, request.member_id, request.group_instance_id, request.generation_id)
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_behind = current.member_epoch < group.assignment_epoch
    if is_behind and current.state != MemberState.UNREVOKED_PARTITIONS:
        _await(decision, group, member)
        return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    group.joining.discard(member.member_id)
    decision.cancel(rebalance_key(group.group_id, member.member_id))
    decision.schedule(heartbeat_key(group.group_id, member.member_id), classic.session_timeout_ms)
    assignment = classic_assignment(current, protocol.metadata, decision.image)
    return SyncAnswer(ErrorCode.NONE, request.protocol_type, request.protocol_name, assignment)


def heartbeat(decision: GroupDecision, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
    """Keeps the session alive, and has the member join where its assignment is another one. Raises ApiError."""
    member, classic, current = _validated(group, request.member_id, request.group_instance_id, request.generation_id)
    decision.schedule(heartbeat_key(group.group_id, member.member_id), classic.session_timeout_ms)
    epoch = group.assignment_epoch
    if group.metadata_expired or group.group_epoch > epoch:  # there may be no member of the other protocol to do it
        change = Change(group, (), None)
        epoch, _ = target_of(decision, change, group_epoch(decision, change, None), {})
    if not _is_to_join(group, member.member_id, current, epoch):
        return ErrorCode.NONE
    _await(decision, group, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _is_to_join(group: ConsumerGroup, member_id: str, current: Current, epoch: int) -> bool:
    if current.member_epoch < epoch or current.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state != MemberState.UNRELEASED_PARTITIONS:
        return False
    return all(  # what it lacks of its assignment
        partition in current.assigned.get(topic_id, ()) or group.is_free(topic_id, partition)
        for topic_id, partitions in group.targets.get(member_id, {}).items()
        for partition in partitions
    )


def _validated(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerGroupMemberMetadata, ClassicMemberMetadata, Current]:
    """Returns a classic member in its generation. Raises ApiError."""
    if instance_id is not None:
        validate_instance(group, instance_id, member_id)
    member, current = group.member(member_id), group.current(member_id)
    classic = member.classic_member_metadata
    if classic is None or not classic.supported_protocols:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation_id != current.member_epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member, classic, current


def _await(
    decision: GroupDecision, group: ConsumerGroup, member: ConsumerGroupMemberMetadata, *, begin_anew: bool = False
) -> None:
    """Expects the member to join, or to sync where it has just joined, within its rebalance timeout."""
    if begin_anew or member.member_id not in group.joining:
        group.joining.add(member.member_id)
        decision.schedule(rebalance_key(group.group_id, member.member_id), max(member.rebalance_timeout_ms, 0))
