"""SyncGroup and Heartbeat on a classic group."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.errors import ApiError, ErrorCode
from tailrace.state import Token
from tailrace.wire.messages import HeartbeatRequest, SyncGroupRequest
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.member import Member
from tailrace_coordinator.groups.classic.rebalance import (
    fits,
    prepare,
    refuse_syncs,
    reschedule_heartbeat,
    sync_refused,
    synced,
)
from tailrace_coordinator.groups.decision import GroupDecision, sync_key
from tailrace_coordinator.groups.group import Groups


def sync(
    decision: GroupDecision,
    groups: Groups,
    token: Token,
    request: SyncGroupRequest,
    assignments: Mapping[str, bytes],
) -> None:
    """Parks members until the leader's assignments are written; a stable group answers at once."""
    try:
        group, member = _validate_sync(groups, request)
    except ApiError as refusal:
        decision.reply(token, sync_refused(refusal.code))
        return
    if group.state is GroupState.PREPARING_REBALANCE:
        decision.reply(token, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    group.pending_sync_members.pop(member.member_id, None)
    if not group.pending_sync_members:
        decision.cancel(sync_key(group.group_id))
    if group.state is GroupState.STABLE:
        decision.reply(token, synced(group, member.assignment))
        return
    if member.awaiting_sync is not None:  # sent twice: only the newest is answered with an assignment
        decision.reply(member.awaiting_sync, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = token
    if group.leader == member.member_id:
        _assign(decision, group, assignments)


def _validate_sync(groups: Groups, request: SyncGroupRequest) -> tuple[ClassicGroup, Member]:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = groups.of_kind(ClassicGroup, request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return group, member


def _assign(decision: GroupDecision, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    record = group.record(assignments, decision.now_ms)
    if not fits(decision, record):  # what MESSAGE_TOO_LARGE becomes in Kafka
        refuse_syncs(decision, group, ErrorCode.UNKNOWN_SERVER_ERROR)
        prepare(decision, group)
        return
    decision.append(record)
    decision.then(answer_syncs, group)


def answer_syncs(decision: GroupDecision, group: ClassicGroup) -> None:
    """Hands the members of a stable group the assignments they wait for. A rebalance that began has refused them."""
    for member in group.members.values() if group.state is GroupState.STABLE else ():
        if member.awaiting_sync is not None:
            decision.reply(member.awaiting_sync, synced(group, member.assignment))
            member.awaiting_sync = None
            reschedule_heartbeat(decision, group, member)


def heartbeat(decision: GroupDecision, groups: Groups, request: HeartbeatRequest) -> ErrorCode:
    """Keeps the session alive and tells of a rebalance. Raises ApiError."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = groups.of_kind(ClassicGroup, request.group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    reschedule_heartbeat(decision, group, member)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE
