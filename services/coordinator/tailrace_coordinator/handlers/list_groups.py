"""ListGroups v0-5. v4 states filter (KIP-518), v5 types filter (KIP-848); both ignore case, as Kafka does.

Lists every shard owned here; the gateway keeps of it what the asked node leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Final

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import fitting, text_bytes
from tailrace.wire.messages import ListGroupsRequest, ListGroupsResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.group import Listed

_ROW_BYTES: Final = 40  # of one group, with its state and type


async def handle(request: ListGroupsRequest, context: Context, coordinator: Coordinator) -> ListGroupsResponse:
    """Answers all groups; COORDINATOR_LOAD_IN_PROGRESS while some are not loaded, MESSAGE_TOO_LARGE for too many."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    shards = await coordinator.groups.ask_all(
        lambda groups, now_ms, token: groups.list_groups(now_ms, token, states, types)
    )
    return await coordinator.large.over(sum(map(len, shards)), partial(_response, shards))


def _response(shards: Sequence[Sequence[Listed]]) -> ListGroupsResponse:
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=listed.group_id,
                protocol_type=listed.protocol_type,
                group_state=listed.state,
                group_type=listed.group_type,
            )
            for listed in fitting(chain.from_iterable(shards), _size_bytes)
        ],
    )


def _size_bytes(listed: Listed) -> int:
    return _ROW_BYTES + text_bytes(listed.group_id) + text_bytes(listed.protocol_type)
