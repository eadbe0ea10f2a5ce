"""Changes of very many ISRs go to the controller in pages."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import structlog

from tailrace.errors import ErrorCode
from tailrace.net.backoff import Backoff
from tailrace.wire.messages import AlterPartitionResponse
from tailrace_broker.partitions.leader import IsrChange
from tailrace_broker.partitions.node import Node
from tailrace_broker.replication.isr import IsrUpdates

MANY = 2_500
CHANGE = IsrChange(((0, 1), (1, 1)), 5, 6)


class Leading:
    """A partition that stands as the change found it."""

    topic, topic_id, leading = "t", UUID(int=1), SimpleNamespace(proposed=CHANGE, leader_epoch=5, partition_epoch=6)

    def __init__(self, index: int) -> None:
        self.index = index


async def test_a_request_names_a_thousand_partitions() -> None:
    asked: list[list[int]] = []
    all_asked = asyncio.Event()

    async def ask(request: Any, timeout_ms: float) -> AlterPartitionResponse:
        asked.append([row.partition_index for topic in request.topics for row in topic.partitions])
        if sum(map(len, asked)) == MANY:
            all_asked.set()
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])

    node, nothing = Node(0, lambda: 0.0), cast("Any", None)
    backoff = SimpleNamespace(wait=asyncio.Event().wait, reset=lambda: None)
    updates = IsrUpdates(node, ask, nothing, nothing, cast("Backoff", backoff), structlog.get_logger())
    for index in range(MANY):
        updates.propose(cast("Any", Leading(index)), CHANGE)
    running = asyncio.create_task(updates.run())
    await all_asked.wait()
    running.cancel()
    assert [len(one) for one in asked] == [1_000, 1_000, 500]
