"""SyncGroup v0-5.

v3 group.instance.id (KIP-345). v5 protocol type and name, which must then be there (KIP-559). Followers wait until the
leader's assignments are committed.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import SyncGroupRequest, SyncGroupResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.member import SyncAnswer


async def handle(request: SyncGroupRequest, context: Context, coordinator: Coordinator) -> SyncGroupResponse:
    """Answers the member's assignment."""
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assignments = {entry.member_id: bytes(entry.assignment) for entry in request.assignments}
    answer: SyncAnswer = await coordinator.groups.ask(
        request, lambda groups, now_ms, token: groups.sync(now_ms, token, request, assignments)
    )
    return SyncGroupResponse(
        error_code=answer.error_code,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
