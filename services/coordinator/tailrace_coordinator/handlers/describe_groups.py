"""DescribeGroups v0-6.

v3 authorized operations (KIP-430). v4 group.instance.id (KIP-345). v6 GROUP_ID_NOT_FOUND with a message (KIP-1043);
before it a group that does not exist is a Dead one without error. Metadata is shown of a stable group only.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.group import GroupState
from tailrace_coordinator.groups.describe import Described

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all of a group; without an authorizer nobody is denied.
ALL_OPERATIONS = frozenset({3, 6, 8, 10, 11})

_GROUP = DescribeGroupsResponse.DescribedGroup


async def handle(request: DescribeGroupsRequest, context: Context, coordinator: Coordinator) -> DescribeGroupsResponse:
    """Answers state, protocol and members of each group."""
    groups = await asyncio.gather(
        *(_describe(coordinator, group_id, context.api_version) for group_id in request.groups)
    )
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = set(ALL_OPERATIONS)
    return DescribeGroupsResponse(groups=list(groups))


async def _describe(coordinator: Coordinator, group_id: str, version: int) -> Any:
    try:
        described: Described | None = await coordinator.ask(
            group_id, lambda groups, now_ms, token: groups.describe(now_ms, token, group_id)
        )
    except ApiError as refused:
        return _GROUP(group_id=group_id, error_code=refused.code)
    if described is None:
        if version < 6:
            return _GROUP(group_id=group_id, group_state=GroupState.DEAD.value)
        return _GROUP(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    return _GROUP(
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol,
        members=[
            _GROUP.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )
