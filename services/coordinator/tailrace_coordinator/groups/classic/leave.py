"""LeaveGroup on a classic group."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.rebalance import (
    UNKNOWN_MEMBER,
    expel,
    maybe_complete_join,
    prepare_or_complete,
)
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key
from tailrace_coordinator.groups.group import Groups, Leaver


def leave(decision: GroupDecision, groups: Groups, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
    """Removes the members that may go, then rebalances once; one code for each. Raises ApiError."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = groups.of_kind(ClassicGroup, group_id)
    if group is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
    results = []
    for leaver in leavers:
        try:
            _remove(decision, group, leaver)
        except ApiError as refusal:
            results.append(refusal.code)
        else:
            results.append(ErrorCode.NONE)
    if ErrorCode.NONE in results:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare_or_complete(decision, group)
        else:
            maybe_complete_join(decision, group)
    return results


def _remove(decision: GroupDecision, group: ClassicGroup, leaver: Leaver) -> None:
    if leaver.member_id == UNKNOWN_MEMBER:
        member_id = group.static_members.get(leaver.group_instance_id or "")
        if leaver.group_instance_id is None or member_id is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        expel(decision, group, group.members[member_id])
    elif leaver.member_id in group.pending_members:
        group.remove(leaver.member_id)
        decision.cancel(heartbeat_key(group.group_id, leaver.member_id))
    else:
        expel(decision, group, group.validate_member(leaver.member_id, leaver.group_instance_id))
