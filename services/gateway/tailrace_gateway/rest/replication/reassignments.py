"""Moving replicas: AlterPartitionReassignments v1, and DescribeLogDirs v4 for how far the copies are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import moves
from tailrace.metadata.moves import Copied, NoRoom, Partition, Plan, Replicas, drained
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    UnregisterBrokerRequest,
)
from tailrace_gateway.rest.backend import SPARE_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.errors import check

_TIMEOUT_MS = 10_000
_LOG_DIRS_VERSION = 4


async def alter(backend: AdminBackend, plan: Mapping[Partition, Replicas | None]) -> None:
    """Starts (None: cancels) reassignments; raises the first refusal."""
    for portion in moves.portions(plan):
        await _alter(backend, portion)


async def _alter(backend: AdminBackend, portion: Iterable[tuple[str, list[tuple[int, Replicas | None]]]]) -> None:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    rows = [
        topic(
            name=name,
            partitions=[
                topic.ReassignablePartition(partition_index=index, replicas=None if nodes is None else list(nodes))
                for index, nodes in parts
            ],
        )
        for name, parts in portion
    ]
    answer = await backend.ask_controller(AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=_TIMEOUT_MS))
    check(answer.error_code, answer.error_message)
    for done in answer.responses:
        for part in done.partitions:
            check(part.error_code, part.error_message and f"{done.name}-{part.partition_index}: {part.error_message}")


async def drain(backend: AdminBackend, broker_id: int, *, shrink: bool) -> Plan:
    """Starts to move everything off a broker; raises 400 where no other broker can take a replica."""
    image = backend.cluster_image(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    partitions = {
        (name, index): tuple(node for node in part.replicas if node not in part.removing_replicas)
        for name, topic in image.topics.items()
        for index, part in enumerate(topic.partitions)
    }
    racks = {broker.broker_id: broker.rack for broker in image.live_brokers()}
    try:
        plan = drained(partitions, racks, broker_id, shrink=shrink)
    except NoRoom as full:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(full)) from None
    if plan:
        await alter(backend, plan)
    return plan


async def unregister(backend: AdminBackend, broker_id: int) -> None:
    """Forgets a broker."""
    answer = await backend.ask_controller(UnregisterBrokerRequest(broker_id=broker_id))
    check(answer.error_code, answer.error_message)


async def copied(backend: AdminBackend, partitions: Iterable[Partition]) -> dict[Partition, Copied]:
    """How far the copies of these partitions are; one whose leader does not answer is left out."""
    image = backend.image()
    moving = {key: part for key in partitions if (part := image.partition(*key)) is not None}
    asked: dict[int, list[Partition]] = {}
    for key, part in moving.items():
        for node in (*part.adding_replicas, part.leader):
            asked.setdefault(node, []).append(key)
    answers = await asyncio.gather(*(_sizes(backend, node, keys) for node, keys in asked.items()))
    sizes = dict(zip(asked, answers, strict=True))
    found = {}
    for key, part in moving.items():
        whole = sizes.get(part.leader, {}).get(key)
        if whole is not None:
            found[key] = moves.copied(whole, [sizes[node].get(key, 0) for node in part.adding_replicas])
    return found


async def _sizes(backend: AdminBackend, node: int, keys: list[Partition]) -> dict[Partition, int]:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    found: dict[Partition, int] = {}
    for portion in moves.portions(dict.fromkeys(keys)):
        rows = [topic(topic=name, partitions=[index for index, _ in parts]) for name, parts in portion]
        try:
            asked = DescribeLogDirsRequest(topics=rows)
            answer = await backend.ask_broker(node, asked, _LOG_DIRS_VERSION, SPARE_TIMEOUT_MS)
        except (ApiError, OSError):  # it is away: what it has is not known
            return {}
        for row in (row for result in answer.results for row in result.topics):
            found.update({(row.name, part.partition_index): part.partition_size for part in row.partitions})
    return found
