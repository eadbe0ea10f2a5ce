"""LeaveGroup v0-5.

v3 several members, and removal by group.instance.id alone (KIP-345). v5 reason (KIP-800). Before v3 the one member's
error is the answer's error.
"""

from __future__ import annotations

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.leave import Leaver


async def handle(request: LeaveGroupRequest, context: Context, coordinator: Coordinator) -> LeaveGroupResponse:
    """Answers one code per member."""
    if context.api_version < 3:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(member.member_id, member.group_instance_id) for member in request.members]
    results: list[tuple[Leaver, ErrorCode]] = await coordinator.ask(
        request.group_id, lambda groups, now_ms, token: groups.leave(now_ms, token, request.group_id, leavers)
    )
    if context.api_version < 3:
        return LeaveGroupResponse(error_code=results[0][1])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code
            )
            for leaver, code in results
        ],
    )
