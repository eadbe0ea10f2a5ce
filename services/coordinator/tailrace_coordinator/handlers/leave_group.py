"""LeaveGroup v0-5.

v3 several members, and removal by group.instance.id alone (KIP-345). v5 reason (KIP-800). Before v3 the one member's
error is the answer's error.
"""

from __future__ import annotations

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.group import Leaver


async def handle(request: LeaveGroupRequest, context: Context, coordinator: Coordinator) -> LeaveGroupResponse:
    """Answers one code per member."""
    if context.api_version < 3:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(member.member_id, member.group_instance_id) for member in request.members]
    codes: list[ErrorCode] = await coordinator.groups.ask_in_pieces(
        request,
        leavers,
        lambda some, groups, now_ms, token: groups.leave(now_ms, token, request.group_id, some),
    )
    if context.api_version < 3:
        return LeaveGroupResponse(error_code=codes[0])
    row = LeaveGroupResponse.MemberResponse
    members = [
        row(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code)
        for leaver, code in zip(leavers, codes, strict=True)
    ]
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
