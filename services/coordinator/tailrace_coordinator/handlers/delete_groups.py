"""DeleteGroups v0-3 (KIP-229; v3: error messages). NON_EMPTY_GROUP with members, GROUP_ID_NOT_FOUND without a group."""

from __future__ import annotations

from tailrace.errors import ApiError
from tailrace.net.context import Context
from tailrace.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: DeleteGroupsRequest, context: Context, coordinator: Coordinator) -> DeleteGroupsResponse:
    """Answers one code per group; a group's offsets go with it."""
    codes = await coordinator.groups.ask_each(
        request.groups_names, lambda ids, groups, now_ms, token: groups.delete_groups(now_ms, token, ids)
    )
    row = DeleteGroupsResponse.DeletableGroupResult
    results = [
        row(group_id=group_id, error_code=code.code, error_message=code.message)
        if isinstance(code, ApiError)
        else row(group_id=group_id, error_code=code)
        for group_id, code in ((each, codes[each]) for each in request.groups_names)
    ]
    return DeleteGroupsResponse(results=results)
