"""JoinGroup v0-9.

v1 rebalance_timeout_ms (KIP-62; before it is the session timeout). v4 MEMBER_ID_REQUIRED first (KIP-394). v5
group.instance.id (KIP-345). v7 protocol type, and null for a protocol name that is none ("" before). v8 reason
(KIP-800). v9 skip_assignment (KIP-814). The answer comes when the join phase ends, at most a rebalance timeout later.
"""

from __future__ import annotations

from tailrace.net.context import Context
from tailrace.wire.messages import JoinGroupRequest, JoinGroupResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.join import Join


async def handle(request: JoinGroupRequest, context: Context, coordinator: Coordinator) -> JoinGroupResponse:
    """Answers the member's id and generation; the leader also learns the members."""
    client_host = f"/{context.connection.session.identity.client_host}"  # as java.net.InetAddress prints it
    uuid = coordinator.new_member_uuid()
    response: JoinGroupResponse = await coordinator.groups.ask(
        request,
        lambda groups, now_ms, token: groups.join(
            now_ms, Join(token, request, context.api_version, context.client_id or "", client_host, uuid)
        ),
    )
    if context.api_version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response
