"""Producer ids in blocks from the controller (KIP-730), one block fetched ahead so that no producer waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.client import Disconnected
from tailrace.wire.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace_broker.partitions.node import Node

_ALLOCATE_TIMEOUT_MS = 5000


class ProducerIds:
    """Hands out ids of the present block; `ask` sends a request to the active controller."""

    def __init__(self, node: Node, ask: Callable[..., Awaitable[AllocateProducerIdsResponse]]) -> None:
        self._node = node
        self._ask = ask
        self._blocks: list[range] = []
        self._fetching: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """Raises ApiError COORDINATOR_LOAD_IN_PROGRESS (retriable, as Kafka's) while no block can be had."""
        if not self._blocks:
            await asyncio.shield(self._fetch())
        if not self._blocks:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block of producer ids yet")
        block = self._blocks[0]
        producer_id = block.start
        rest = block[1:]
        self._blocks[:1] = [rest] if rest else []
        if len(self._blocks) < 2:
            self._fetch()
        return producer_id

    def _fetch(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._allocate())
        return self._fetching

    async def _allocate(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._node.node_id, broker_epoch=self._node.broker_epoch)
        try:
            answer = await self._ask(request, timeout_ms=_ALLOCATE_TIMEOUT_MS)
        except (Disconnected, TimeoutError, ApiError):
            return
        if answer.error_code == ErrorCode.NONE and answer.producer_id_len > 0:
            self._blocks.append(range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len))

    def close(self) -> None:
        """Stops a fetch under way."""
        if self._fetching is not None:
            self._fetching.cancel()
