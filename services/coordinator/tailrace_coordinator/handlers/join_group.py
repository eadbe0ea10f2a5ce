"""JoinGroup v0-9.

v1 rebalance_timeout_ms (KIP-62; before it is the session timeout). v4 MEMBER_ID_REQUIRED first (KIP-394). v5
group.instance.id (KIP-345). v7 protocol type, and null for a protocol name that is none ("" before). v8 reason
(KIP-800). v9 skip_assignment (KIP-814). The answer comes when the join phase ends, at most a rebalance timeout later.
"""

from __future__ import annotations

from functools import partial

from tailrace.net.context import Context
from tailrace.wire.messages import JoinGroupRequest, JoinGroupResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.join import Join
from tailrace_coordinator.groups.classic.member import JoinAnswer


async def handle(request: JoinGroupRequest, context: Context, coordinator: Coordinator) -> JoinGroupResponse:
    """Answers the member's id and generation; the leader also learns the members."""
    client_host = f"/{context.connection.session.identity.client_host}"  # as java.net.InetAddress prints it
    uuid = coordinator.new_member_uuid()
    answer: JoinAnswer = await coordinator.groups.ask(
        request,
        lambda groups, now_ms, token: groups.join(
            now_ms, Join(token, request, context.api_version, context.client_id or "", client_host, uuid)
        ),
    )
    return await coordinator.large.over(len(answer.members), partial(_response, answer, context.api_version))


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    """The protocol name is "" where null is not allowed."""
    member = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        error_code=answer.error_code,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name="" if answer.protocol_name is None and version < 7 else answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            member(member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata)
            for each in answer.members
        ],
    )
