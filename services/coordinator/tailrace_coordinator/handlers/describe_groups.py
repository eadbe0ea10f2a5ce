"""DescribeGroups v0-6.

v3 authorized operations (KIP-430). v4 group.instance.id (KIP-345). v6 GROUP_ID_NOT_FOUND with a message (KIP-1043);
before it a group that does not exist, or that is of another kind, is a Dead one without error. Metadata is shown of a
stable group only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tailrace.access.resources import OPERATIONS, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import TOO_LARGE, AnswerBudget, text_bytes
from tailrace.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.classic.group import GroupState
from tailrace_coordinator.groups.group import GroupDescription

# Of a client that may do everything.
ALL_OPERATIONS = frozenset(int(one) for one in OPERATIONS[ResourceType.GROUP])

_MEMBER_BYTES = 64  # the host, and what the fields need besides
_GROUP = DescribeGroupsResponse.DescribedGroup


async def handle(request: DescribeGroupsRequest, context: Context, coordinator: Coordinator) -> DescribeGroupsResponse:
    """Answers state, protocol and members of each group; MESSAGE_TOO_LARGE for one that the answer has no room for."""
    described = await coordinator.groups.ask_each(
        request.groups, lambda ids, groups, now_ms, token: groups.describe_groups(now_ms, token, ids)
    )
    count = sum(len(found.members) for found in described.values() if isinstance(found, GroupDescription))
    work = partial(_response, request, context.api_version, described)
    return await coordinator.large.over(len(request.groups) + count, work)


def _response(
    request: DescribeGroupsRequest, version: int, described: Mapping[str, GroupDescription | ApiError | None]
) -> DescribeGroupsResponse:
    budget = AnswerBudget()
    operations = set(ALL_OPERATIONS) if request.include_authorized_operations else None
    groups = []
    for group_id in request.groups:
        row = _row(group_id, described[group_id], version, budget)
        if operations is not None and row.error_code == ErrorCode.NONE:
            row.authorized_operations = operations
        groups.append(row)
    return DescribeGroupsResponse(groups=groups)


def _size_bytes(described: GroupDescription) -> int:
    return sum(
        _MEMBER_BYTES
        + len(member.metadata)
        + len(member.assignment)
        + text_bytes(member.member_id)
        + text_bytes(member.client_id)
        + text_bytes(member.group_instance_id)
        for member in described.members
    )


def _row(group_id: str, described: GroupDescription | ApiError | None, version: int, budget: AnswerBudget) -> _GROUP:
    if described is None:
        described = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if isinstance(described, ApiError):
        if described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return _GROUP(group_id=group_id, error_code=described.code)
        if version < 6:
            return _GROUP(group_id=group_id, group_state=GroupState.DEAD.value)
        dead = GroupState.DEAD.value
        return _GROUP(group_id=group_id, group_state=dead, error_code=described.code, error_message=described.message)
    if not budget.take(_size_bytes(described)):
        return _GROUP(group_id=group_id, error_code=ErrorCode.MESSAGE_TOO_LARGE, error_message=TOO_LARGE)
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
