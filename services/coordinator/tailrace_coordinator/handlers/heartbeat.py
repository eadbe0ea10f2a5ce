"""Heartbeat v0-4. v3 group.instance.id (KIP-345). REBALANCE_IN_PROGRESS tells a member to join again."""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import HeartbeatRequest, HeartbeatResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: HeartbeatRequest, context: Context, coordinator: Coordinator) -> HeartbeatResponse:
    """Keeps a session alive; while the group is loading everybody is taken for alive, as in Kafka."""
    try:
        code = await coordinator.groups.ask(
            request, lambda groups, now_ms, token: groups.heartbeat(now_ms, token, request)
        )
    except ApiError as refused:
        if refused.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)
