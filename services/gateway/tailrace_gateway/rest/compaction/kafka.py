"""What brokers know of a topic's compaction: DescribeCleaner v0."""

from __future__ import annotations

import asyncio
from typing import Any

from tailrace.errors import ApiError
from tailrace.metadata.image import TopicImage
from tailrace.wire.messages import DescribeCleanerRequest
from tailrace_gateway.rest.backend import AdminBackend


async def described(backend: AdminBackend, topic: TopicImage) -> list[tuple[int, Any]]:
    """(broker, its row of a partition), by partition and broker; of a broker that is away nothing is known."""
    nodes = sorted({node for partition in topic.partitions for node in partition.replicas})
    answers = await asyncio.gather(*(_ask(backend, node, topic) for node in nodes))
    found = [(node, row) for node, rows in zip(nodes, answers, strict=True) for row in rows]
    return sorted(found, key=lambda pair: (pair[1].partition_index, pair[0]))


async def _ask(backend: AdminBackend, node: int, topic: TopicImage) -> list[Any]:
    try:
        answer = await backend.ask_broker(node, DescribeCleanerRequest(topic_id=topic.topic_id))
    except (ApiError, OSError):
        return []
    return [] if answer.error_code else list(answer.partitions)
