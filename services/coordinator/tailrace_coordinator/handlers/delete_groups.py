"""DeleteGroups v0-2 (KIP-229). NON_EMPTY_GROUP with members, GROUP_ID_NOT_FOUND without a group."""

from __future__ import annotations

import asyncio
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: DeleteGroupsRequest, context: Context, coordinator: Coordinator) -> DeleteGroupsResponse:
    """Answers one code per group; a group's offsets go with it."""
    results = await asyncio.gather(*(_delete(coordinator, group_id) for group_id in request.groups_names))
    return DeleteGroupsResponse(results=list(results))


async def _delete(coordinator: Coordinator, group_id: str) -> Any:
    try:
        code = await coordinator.ask(
            group_id, lambda groups, now_ms, token: groups.delete_group(now_ms, token, group_id)
        )
    except ApiError as refused:
        code = refused.code
    return DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=ErrorCode(code))
