"""FenceShard v0 (private): a shard's new owner puts its epoch into the log before it reads.

The answer leaves when the barrier is committed; whatever an older owner sends after it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import FenceShardRequest, FenceShardResponse
from tailrace_broker.partitions.shard_barriers import barrier
from tailrace_broker.waiting import acks

_COMMIT_TIMEOUT_MS = 5000

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker


async def handle(request: FenceShardRequest, context: Context, broker: Broker) -> FenceShardResponse:
    """Answers the barrier's offset; NOT_COORDINATOR to an epoch older than one seen."""
    if request.topic_id is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition, code = broker.leading(request.topic_id.bytes, request.partition, by_id=True)
    if partition is None:
        raise ApiError(ErrorCode(code))
    if not partition.internal or context.connection.identity.listener != "INTERNAL":
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    broker.learn_shard_epoch(partition)
    if request.shard_epoch < partition.shard_epoch:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    partition.shard_epoch = request.shard_epoch
    now_ms = broker.now_ms()
    batch = memoryview(barrier(request.shard_epoch, request.coordinator_id, now_ms))
    (answer,) = partition.append([batch], now_ms, from_client=False)
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code))
    broker.appended(partition)
    await acks.committed(partition, answer.base_offset, _COMMIT_TIMEOUT_MS)
    return FenceShardResponse(
        error_code=0,
        barrier_offset=answer.base_offset,
        log_start_offset=partition.log.log_start_offset,
        leader_epoch=partition.leader_epoch,
    )
